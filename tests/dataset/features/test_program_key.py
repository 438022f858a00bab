from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from costhub.dataset.features.program_key import KEY_TYPE, ProgramKeys, key_array, keys_of_records, modules_of
from costhub.dataset.folder import DataFolder

ROW = {"workload_id": "w", "target": '{"kind":"llvm"}', "trace": "[[],[]]"}
MODULES = {"w": "{}", "v": "{}", "other": '{"nodes":[]}'}


def key(modules: dict[str, str] = MODULES, **changes: str) -> bytes:
    [own] = ProgramKeys(modules).of(pa.RecordBatch.from_pylist([ROW | changes])).to_pylist()
    assert isinstance(own, bytes)
    return own


def test_a_key_follows_from_what_features_follow_from() -> None:
    assert key(record_id="a", device_id="b") == key()
    assert key(workload_id="v") == key(), "its module is the same"
    assert len({key(), key(target="{}"), key(trace="[]"), key(workload_id="other"), key(workload_id="unknown")}) == 5
    assert len(key()) == KEY_TYPE.byte_width


def test_a_folder_that_names_another_module_has_other_keys() -> None:
    """The attack: measurements byte by byte those of somebody else, and a module of one's own."""
    assert key({"w": "{} "}) != key({"w": "{}"})


@pytest.mark.parametrize(("one", "other"), [(("a", "bc"), ("ab", "c")), (("", "abc"), ("abc", ""))])
def test_texts_do_not_run_into_one_another(one: tuple[str, str], other: tuple[str, str]) -> None:
    keys = [key(target=target, trace=trace) for target, trace in (one, other)]
    assert keys[0] != keys[1]


def test_the_keys_of_a_folder_are_those_of_its_rows(tmp_path: Path, measurement: Any, workload: Any) -> None:
    folder = DataFolder.create(tmp_path / "data")
    folder.put_workloads([workload(0)])
    with folder.writer("cpu0") as writer:
        for number, trace in enumerate(["[[],[]]", "[[],[]]", "[]"]):
            writer.append(measurement(number, trace=trace, workload_id="w0"))

    found = keys_of_records(folder, "cpu0")

    assert modules_of(folder) == {"w0": "{}"}
    assert list(found) == ["r00000", "r00001", "r00002"]
    assert found["r00000"] == found["r00001"] == key(modules_of(folder), workload_id="w0")
    assert found["r00002"] != found["r00000"]


def test_no_keys_are_an_array_too() -> None:
    assert key_array([]).type == KEY_TYPE
    assert len(key_array([])) == 0
    assert key_array([key(), key(trace="")]).to_pylist() == [key(), key(trace="")]
