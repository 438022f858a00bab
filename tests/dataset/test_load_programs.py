from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costhub.dataset import load_programs as load_module
from costhub.dataset.features.cache import FeatureCache
from costhub.dataset.folder import DataFolder
from costhub.dataset.load_programs import load_programs
from costhub.errors import DataError


@pytest.fixture
def real(tmp_path: Path, measurement: Any, workload: Any, tiny_matmul: Any) -> DataFolder:
    """Programs of a workload that TVM knows: four good, one whose trace does not replay, one that failed."""
    root = DataFolder.create(tmp_path / "data")
    root.put_workloads(
        [workload(0, workload_id=tiny_matmul.workload_id, module_json=tiny_matmul.module_json)]
    )
    common = {"workload_id": tiny_matmul.workload_id, "target": tiny_matmul.target}
    with root.writer("cpu0") as writer:
        for number, trace in enumerate([*tiny_matmul.traces, tiny_matmul.bad_trace]):
            writer.append(measurement(number, trace=trace, run_s=[number + 1.0], **common))
        failed = {"status": "run_error", "error": "x", "run_s": []}
        writer.append(measurement(9, trace=tiny_matmul.traces[0], **common, **failed))
        writer.append(measurement(10, trace="[[],[]]", workload_id="not in workloads"))
    return root


def test_programs_are_featurised_once_and_then_read(
    real: DataFolder, tiny_matmul: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load_programs(real.path)

    assert first.workload_ids == (tiny_matmul.workload_id,)
    assert sorted(first.latency_s) == [1.0, 2.0, 3.0, 4.0]
    assert first.rows.shape == (4, 172)

    def nothing_left(chunks: Any) -> Any:
        assert chunks == [], "the features are known already"
        yield from ()

    # The program without features is remembered as well.
    monkeypatch.setattr(load_module, "featurise", nothing_left)
    again = load_programs(real.path, device="cpu0")
    assert np.array_equal(again.rows, first.rows)
    assert np.array_equal(again.latency_s, first.latency_s)


def test_an_interrupted_computation_is_resumed(real: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_module, "CHUNK_PROGRAMS", 2)
    compute = load_module.featurise

    def interrupted(chunks: Any) -> Any:
        yield next(iter(compute(chunks[:1])))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(load_module, "featurise", interrupted)
        with pytest.raises(KeyboardInterrupt):
            load_programs(real.path)
    assert len(FeatureCache(real.path, "cpu0").read([f"r{i:05d}" for i in range(11)])) == 2

    asked: list[int] = []

    def counted(chunks: Any) -> Any:
        asked.extend(len(chunk.record_ids) for chunk in chunks)
        return compute(chunks)

    monkeypatch.setattr(load_module, "featurise", counted)
    assert load_programs(real.path).n == 4
    assert sum(asked) == 3


def test_features_that_are_known_need_no_tvm(tmp_path: Path, measurement: Any) -> None:
    root = DataFolder.create(tmp_path / "data")
    runs: list[list[float]] = [[1.0], [2.0], [float("nan")], [0.0], [3.0, 5.0]]
    with root.writer("cpu0") as writer:
        for number, run_s in enumerate(runs):
            writer.append(measurement(number, run_s=run_s))
    rows = [np.full((number, 172), number, np.float32) for number in range(5)]
    FeatureCache(root.path, "cpu0").append([f"r{i:05d}" for i in range(5)], list(rows))

    found = load_programs(root.path, workloads={"w0", "w1"}, progress=False)

    # w0 has programs 0 and 3 (a latency of zero), w1 has 1 and 4.
    assert found.workload_ids == ("w0", "w1")
    assert found.counts.tolist() == [0, 1, 4]
    assert found.rows[:, 0].tolist() == [1, 4, 4, 4, 4]
    assert found.latency_s.tolist() == [1.0, 2.0, 4.0]
    assert found.workload.tolist() == [0, 1, 1]


def test_a_folder_without_good_programs_gives_none(tmp_path: Path, measurement: Any) -> None:
    root = DataFolder.create(tmp_path / "data")
    with root.writer("cpu0") as writer:
        writer.append(measurement(0, status="run_error", error="x", run_s=[]))

    found = load_programs(root.path)
    assert (found.n, found.rows.shape, found.workload_ids) == (0, (0, 172), ())


def test_several_devices_must_be_told_apart(tmp_path: Path, measurement: Any) -> None:
    root = DataFolder.create(tmp_path / "data")
    for device_id in ("cpu0", "cpu1"):
        with root.writer(device_id) as writer:
            writer.append(measurement(0, device_id=device_id))
    with pytest.raises(DataError, match=r"measurements of 2 devices \(cpu0, cpu1\); name one of them"):
        load_programs(root.path)
