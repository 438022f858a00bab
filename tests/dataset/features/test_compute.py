from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from costhub.dataset.features import compute as compute_module
from costhub.dataset.features.cache import NOT_COMPUTED, FeatureCache
from costhub.dataset.features.cache_part import FAILED
from costhub.dataset.features.compute import compute_missing, extract_features
from costhub.dataset.features.specs import find_spec
from costhub.dataset.folder import DataFolder

SPEC = find_spec("trace_tokens@1")
IDS = [f"r{number:05d}" for number in range(8)]


@pytest.fixture
def folder(tmp_path: Path, measurement: Any, workload: Any) -> DataFolder:
    """Programs of two workloads and of one that is not in the table; every trace has an instruction."""
    root = DataFolder.create(tmp_path / "data")
    root.put_workloads([workload(0), workload(1)])
    with root.writer("cpu0") as writer:
        for number in range(8):
            trace = '[[["EnterPostproc",[],[],[]]],[]]' if number != 6 else "not a trace"
            writer.append(measurement(number, trace=trace))
    return root


def counts(cache: FeatureCache) -> list[int]:
    return cache.find(pa.array(IDS)).counts.tolist()


def test_only_what_is_asked_for_is_computed(folder: DataFolder) -> None:
    cache = FeatureCache(folder.path, "cpu0", SPEC)

    compute_missing(folder, cache, "cpu0", pa.array(["r00003", "r00002", "r00001", "r00006"]))

    # r00002 is of the workload that is not in the table.
    unknown = [NOT_COMPUTED]
    assert counts(cache) == [*unknown, 1, *unknown, 1, *unknown, *unknown, FAILED, *unknown]


def test_what_was_computed_before_an_interruption_is_kept(folder: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = FeatureCache(folder.path, "cpu0", SPEC)
    monkeypatch.setattr(compute_module, "CHUNK_PROGRAMS", 2)
    compute = compute_module.featurise

    def interrupted(chunks: Any, spec: Any) -> Any:
        yield next(iter(compute(chunks, spec)))
        raise KeyboardInterrupt

    monkeypatch.setattr(compute_module, "featurise", interrupted)
    with pytest.raises(KeyboardInterrupt):
        compute_missing(folder, cache, "cpu0", pa.array(IDS))

    assert sum(count != NOT_COMPUTED for count in counts(cache)) == 2


def test_parts_of_one_computation_are_put_together(folder: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = FeatureCache(folder.path, "cpu0", SPEC)
    monkeypatch.setattr(compute_module, "_PART_PROGRAMS", 1)
    monkeypatch.setattr(compute_module, "CHUNK_PROGRAMS", 1)

    compute_missing(folder, cache, "cpu0", pa.array(IDS))

    assert len(list(cache.folder.glob("part-*"))) == 1
    assert sorted(counts(cache)) == [NOT_COMPUTED, NOT_COMPUTED, FAILED, 1, 1, 1, 1, 1]


def test_there_are_features_or_none_for_each_program(tiny_matmul: Any) -> None:
    traces = (tiny_matmul.traces[0], tiny_matmul.bad_trace, tiny_matmul.traces[1])

    found = extract_features("per_store@1", tiny_matmul.module_json, tiny_matmul.target, traces)

    assert [None if rows is None else rows.shape for rows in found] == [(1, 172), None, (1, 172)]
    [rows] = extract_features("relation@1", tiny_matmul.module_json, tiny_matmul.target, traces[:1])
    assert rows is not None
    assert rows.shape == (3, 123)
    assert extract_features("per_store@1", tiny_matmul.module_json, tiny_matmul.target, ()) == []


@pytest.mark.parametrize("broken", [{"module_json": "{}"}, {"target": "{}"}])
def test_a_bad_module_or_target_gives_no_features(tiny_matmul: Any, broken: dict[str, str]) -> None:
    call = {"module_json": tiny_matmul.module_json, "target": tiny_matmul.target} | broken

    assert extract_features("per_store@1", **call, traces=tiny_matmul.traces[:2]) == [None, None]
