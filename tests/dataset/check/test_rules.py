"""Each rule on a folder that keeps it and on one that breaks it; the folder is sound but for that."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from costhub.dataset.check.folder import RULES, check_folder
from costhub.dataset.folder import DataFolder
from costhub.dataset.schema import arrow_schema, table_from_rows
from costhub.dataset.shard import write_shard
from costhub.dataset.trace import program_id

Break = Callable[[DataFolder], None]
TRACE = "[[],[]]"
SHARD = "measurements/cpu0/train-00000-of-00001.parquet"


@pytest.fixture
def sound_row(measurement: Any) -> Callable[..., dict[str, Any]]:
    def make(number: int, **changes: Any) -> dict[str, Any]:
        instructions = [["GetSBlock", [], ["C", "main"], ["b0"]]]
        trace = json.dumps([instructions, [[0, number]]])
        row = measurement(number, trace=trace, program_id=program_id(f"w{number % 3}", trace))
        return row | changes

    return make


@pytest.fixture
def root(tmp_path: Path, workload: Any, sound_row: Any) -> DataFolder:
    root = DataFolder.create(tmp_path / "data")
    root.put_device({"device_id": "cpu0", "kind": "cpu", "peak_gflops": 100.0})
    root.put_workloads([workload(number) for number in range(3)])
    with root.writer("cpu0") as writer:
        for number in range(5):
            writer.append(sound_row(number))
        writer.append(sound_row(5, status="build_error", error="too many registers", run_s=[]))
    return root


def rewrite(root: DataFolder, *rows: dict[str, Any]) -> None:
    """Replaces the shard by one with these rows, past the checks of the writer."""
    schema = arrow_schema("measurements")
    table = pa.Table.from_pylist(list(rows), schema=schema)
    pq.write_table(table, root.path / SHARD)


def rules_broken(root: DataFolder, *, deep: bool = False) -> dict[str, str]:
    return {f.rule: f"{f.where}: {f.message}" for f in check_folder(root.path, deep=deep)}


def test_a_sound_folder_breaks_no_rule(root: DataFolder) -> None:
    assert check_folder(root.path) == []


def test_d001_a_truncated_shard(root: DataFolder) -> None:
    path = root.path / SHARD
    path.write_bytes(path.read_bytes()[:-9])

    broken = rules_broken(root)
    assert broken.keys() == {"D001"}
    assert "is not a complete Parquet file" in broken["D001"]


def test_d002_a_shard_of_another_table(root: DataFolder) -> None:
    (root.path / "devices/train-00000-of-00001.parquet").rename(root.path / "workloads/train-1.parquet")

    assert "D002" in rules_broken(root)


def test_d003_a_record_twice_in_one_shard(root: DataFolder, sound_row: Any) -> None:
    rewrite(root, sound_row(0), sound_row(1), sound_row(0))

    assert rules_broken(root) == {"D003": f"{SHARD}: r00000 occurs more than once."}


def test_d003_a_record_twice_in_two_folders(root: DataFolder, sound_row: Any, workload: Any) -> None:
    root.put_device({"device_id": "cpu1", "kind": "cpu"})
    with root.writer("cpu1") as writer:
        for number in range(4):
            writer.append(sound_row(number, device_id="cpu1"))

    [message] = rules_broken(root).values()
    assert message.endswith(
        "cpu1/train-00000-of-00001.parquet: r00000, r00003, r00001 and 1 more occur more than once."
    )


def test_d004_a_workload_that_is_not_described(root: DataFolder, sound_row: Any) -> None:
    row = sound_row(0, workload_id="w9", program_id=program_id("w9", TRACE), trace=TRACE)
    rewrite(root, row)

    assert rules_broken(root) == {"D004": f"{SHARD}: w9 is not in the table workloads."}


def test_d005_a_device_that_is_not_described(root: DataFolder) -> None:
    (root.path / "devices/train-00000-of-00001.parquet").unlink()

    assert rules_broken(root) == {"D005": f"{SHARD}: cpu0 is not in the table devices."}


@pytest.mark.parametrize("run_s", [[], [0.0], [1e-3, -1e-3], [float("nan")], [float("inf")], [1e-3, None]])
def test_d006_an_ok_measurement_without_good_latencies(
    root: DataFolder, sound_row: Any, run_s: list[float]
) -> None:
    rewrite(root, sound_row(0), sound_row(1, run_s=run_s))

    broken = rules_broken(root)
    assert broken.keys() == {"D006"}
    assert "r00001 is ok, with latencies that are missing" in broken["D006"]


@pytest.mark.parametrize(
    "changes", [{"error": None, "run_s": []}, {"error": " ", "run_s": []}, {"error": "x", "run_s": [1.0]}]
)
def test_d007_a_failure_with_latencies_or_without_words(
    root: DataFolder, sound_row: Any, changes: dict[str, Any]
) -> None:
    rewrite(root, sound_row(0), sound_row(1, status="run_error", **changes))

    assert rules_broken(root).keys() == {"D007"}


@pytest.mark.parametrize(
    "changes",
    [
        {"target": "llvm -mcpu=znver4"},
        {"target": "[]"},
        {"target": '{"mcpu": "znver4"}'},
        {"trace": "{"},
        {"trace": "[[]]"},
        {"trace": '{"insts": []}'},
        {"trace": '[[["GetSBlock",[],["C","main"],["b0"]]],[[0,null]]]'},
        {"trace": '[[["GetSBlock",[],["C","main"],["b0"]]],[[1,[4]]]]'},
        {"trace": '[[["GetSBlock",[],[null,"main"],["b0"]]],[]]'},
        {"trace": '[[["GetSBlock",[]]],[]]'},
        {"trace": "[[null],[]]"},
        {"trace": "[" * 100_000},
    ],
)
def test_d008_a_trace_or_target_that_tvm_cannot_read(
    root: DataFolder, sound_row: Any, changes: dict[str, str]
) -> None:
    row = sound_row(1, **changes)
    rewrite(root, sound_row(0), row | {"program_id": program_id(row["workload_id"], row["trace"])})

    assert rules_broken(root) == {
        "D008": f"{SHARD}: r00001 has a trace or target that is not the JSON TVM writes."
    }


@pytest.mark.parametrize(("gflops", "broken"), [(99, set()), (119, set()), (121, {"D009"})])
def test_d009_a_program_faster_than_the_device(
    root: DataFolder, sound_row: Any, gflops: int, broken: set[str]
) -> None:
    rewrite(root, sound_row(0, run_s=[1024 / (gflops * 1e9)] * 3))

    assert rules_broken(root).keys() == broken


def test_d009_needs_a_known_peak(root: DataFolder, sound_row: Any) -> None:
    root.put_device({"device_id": "cpu0", "kind": "cpu"})
    rewrite(root, sound_row(0, run_s=[1e-12]))

    assert rules_broken(root) == {}


def test_d009_is_about_float32(root: DataFolder, sound_row: Any, workload: Any) -> None:
    root.put_workloads([workload(0, dtypes=["float16"] * 3)])
    rewrite(root, sound_row(0, run_s=[1e-12]))

    assert rules_broken(root) == {}


def test_d010_a_workload_id_that_is_not_its_hash(root: DataFolder, workload: Any, tiny_matmul: Any) -> None:
    assert "D010" not in rules_broken(root)
    good = workload(7, workload_id=tiny_matmul.workload_id, module_json=tiny_matmul.module_json)
    wrong = workload(8, workload_id="w8", module_json=tiny_matmul.module_json)
    table = table_from_rows("workloads", [good, wrong, workload(9, module_json="{}")])
    write_shard(table, root.path / "workloads/train-00000-of-00001.parquet")

    messages = [f.message for f in check_folder(root.path, deep=True) if f.rule == "D010"]
    assert messages == [
        f"The module of w8 has the hash {tiny_matmul.workload_id}.",
        "The module of w9 cannot be read by this TVM.",
    ]


def test_d011_rows_in_a_journal(root: DataFolder, sound_row: Any) -> None:
    with root.writer("cpu0") as writer:
        writer.append(sound_row(6))
        broken = rules_broken(root)

    assert broken.keys() == {"D011"}
    assert "1 row is not in a shard yet" in broken["D011"]
    assert rules_broken(root) == {}


def test_d012_names_that_do_not_count_and_half_written_files(root: DataFolder) -> None:
    (root.path / SHARD).rename(root.path / "measurements/cpu0/train-00000-of-00002.parquet")
    (root.path / "workloads/.writing-12-ab").touch()

    findings = check_folder(root.path)
    assert [(f.rule, f.where) for f in findings] == [("D012", "workloads"), ("D012", "measurements/cpu0")]


def test_d013_a_measurement_in_the_folder_of_another_device(root: DataFolder, sound_row: Any) -> None:
    root.put_device({"device_id": "cpu1", "kind": "cpu"})
    rewrite(root, sound_row(0, device_id="cpu1"))

    assert rules_broken(root) == {
        "D013": f"{SHARD}: It has measurements of cpu1; move them to a folder of that name."
    }


def test_d014_a_program_id_that_is_not_its_hash(root: DataFolder, sound_row: Any) -> None:
    rewrite(root, sound_row(0, program_id="p"), sound_row(1, program_id="p"))

    assert rules_broken(root) == {
        "D014": f"{SHARD}: r00000, r00001 have a program_id that is not the hash of workload and trace."
    }


def test_d015_a_status_of_another_name(root: DataFolder, sound_row: Any) -> None:
    rewrite(root, sound_row(0, status="fine", error="?", run_s=[]))

    broken = rules_broken(root)
    assert broken.keys() == {"D015"}
    assert "The status fine is none of ok, build_error" in broken["D015"]


def test_d016_a_workload_twice(root: DataFolder, workload: Any) -> None:
    table = table_from_rows("workloads", [workload(0), workload(1), workload(2), workload(1, name="again")])
    write_shard(table, root.path / "workloads/train-00000-of-00001.parquet")

    assert rules_broken(root) == {"D016": "workloads: w1 occurs more than once."}


def test_every_rule_is_broken_by_a_test_above() -> None:
    tested = {name[5:9].upper() for name in globals() if name.startswith("test_d0")}

    assert tested == set(RULES)


def test_strange_characters_do_not_reach_the_terminal(root: DataFolder, sound_row: Any) -> None:
    rewrite(root, sound_row(0, record_id="\x1b[31mred" + "x" * 200, program_id="p"))

    [finding] = check_folder(root.path)
    assert "\x1b" not in finding.message
    assert len(finding.message) < 200
