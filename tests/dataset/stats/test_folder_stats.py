from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

from costhub.dataset.folder import DataFolder
from costhub.dataset.stats.folder_stats import (
    MOST_FAILURES,
    CoverageCell,
    Failure,
    coverage,
    folder_stats,
    latencies_by_operator,
    workload_stats,
)
from costhub.dataset.stats.observations import NO_ERROR_TEXT, UNKNOWN_OPERATOR, read_observations


@pytest.fixture
def root(tmp_path: Path, measurement: Any, workload: Any) -> DataFolder:
    """Three workloads, the third not described; ten measurements, of which two failed."""
    root = DataFolder.create(tmp_path / "data")
    root.put_workloads([workload(0), workload(1, operator="softmax", name="softmax1")])
    with root.writer("cpu0") as writer:
        for number in range(10):
            changes: dict[str, Any] = {"run_s": [(number + 1) * 1e-6]}
            if number in (3, 4):
                changes = {
                    "status": "build_error",
                    "error": f"no registers left\nin line {number}",
                    "run_s": [],
                }
            if number == 9:
                changes |= {"proposed_by": "model", "program_id": "p00008"}
            writer.append(measurement(number, **changes))
    return root


def test_everything_is_counted(root: DataFolder) -> None:
    stats = folder_stats(root.path)

    assert (stats.measurements, stats.programs) == (10, 9)
    assert stats.devices == {"cpu0": 10}
    assert stats.operators == {"matmul": 4, UNKNOWN_OPERATOR: 3, "softmax": 3}
    assert stats.statuses == {"ok": 8, "build_error": 2}
    assert stats.proposed_by == {"random": 0.9, "model": 0.1}


def test_networks_are_counted_by_their_measured_workloads(tmp_path: Path, measurement: Any, workload: Any) -> None:
    root = DataFolder.create(tmp_path / "data")
    uses = ([("a", 2.0), ("b", 1.0)], [("b", 3.0)], [("unmeasured", 1.0)], None)
    root.put_workloads(
        [
            workload(n, networks=names and [{"name": name, "weight": weight} for name, weight in names])
            for n, names in enumerate(uses)
        ]
    )
    with root.writer("cpu0") as writer:
        for number, of in enumerate((0, 0, 1, 3)):
            writer.append(measurement(number, workload_id=f"w{of}"))

    assert folder_stats(root.path).networks == {"a": 1, "b": 2}


def test_failures_are_counted_by_the_first_line_of_their_error(root: DataFolder) -> None:
    assert folder_stats(root.path).failures == (Failure("build_error", "no registers left", 2),)


def test_kinds_of_failure_are_kept_up_to_a_number(tmp_path: Path, measurement: Any) -> None:
    root = DataFolder.create(tmp_path / "data")
    with root.writer("cpu0") as writer:
        for number in range(MOST_FAILURES + 5):
            error = f"fault at {max(number, 5):x}"
            writer.append(measurement(number, status="run_error", error=error, run_s=[]))

    failures = folder_stats(root.path).failures
    assert len(failures) == MOST_FAILURES
    assert failures[0] == Failure("run_error", "fault at 5", 6)


def test_origins_are_counted(root: DataFolder, measurement: Any) -> None:
    with root.writer("cpu0") as writer:
        writer.append(measurement(20, tvm_version="0.27.0", licence="CC0-1.0", contributor="ann"))

    stats = folder_stats(root.path)
    assert [(v.tvm, v.count) for v in stats.versions] == [(None, 10), ("0.27.0", 1)]
    assert [(x.licence, x.contributor, x.count) for x in stats.licences] == [
        (None, None, 10),
        ("CC0-1.0", "ann", 1),
    ]


def test_what_a_device_was_probed_to_reach_is_passed_on(root: DataFolder) -> None:
    root.put_device({"device_id": "cpu0", "kind": "cpu", "peak_gflops": 200.0, "dram_gbs": 40.0})

    assert folder_stats(root.path).roofs == {"cpu0": {"peak_gflops": 200.0, "dram_gbs": 40.0}}


def test_a_folder_behind_a_file_system_counts_the_same(root: DataFolder) -> None:
    here = folder_stats(root.path)

    assert folder_stats(str(root.path), filesystem=fsspec.filesystem("file")) == here


def test_it_can_be_written_as_json(root: DataFolder) -> None:
    found = json.loads(json.dumps(asdict(folder_stats(root.path)), allow_nan=False))

    assert found["coverage"][0]["operator"] == "matmul"
    assert found["noise"][0]["repeats"]["count"] == 0


def test_latencies_are_quantiles_in_microseconds(root: DataFolder) -> None:
    quantiles = folder_stats(root.path).latency_us["cpu0"]

    assert (quantiles[0], quantiles[100]) == pytest.approx((1.0, 10.0))
    assert quantiles[50] == pytest.approx(6.5)


def test_each_workload_has_its_own_figures(root: DataFolder) -> None:
    found = {w.name: w for w in folder_stats(root.path).workloads}

    assert set(found) == {"matmul0", "softmax1", "w2"}
    matmul = found["matmul0"]
    assert (matmul.measured, matmul.ok) == (4, 3)
    assert (matmul.best_us, matmul.median_us, matmul.worst_us) == pytest.approx((1.0, 7.0, 10.0))


def test_a_workload_without_good_programs_has_no_latencies(tmp_path: Path, measurement: Any) -> None:
    root = DataFolder.create(tmp_path / "data")
    with root.writer("cpu0") as writer:
        writer.append(measurement(0, status="run_timeout", error=None, run_s=[]))

    stats = folder_stats(root.path)
    assert stats.latency_us == {}
    assert stats.failures == (Failure("run_timeout", NO_ERROR_TEXT, 1),)
    assert (stats.workloads[0].ok, stats.workloads[0].best_us) == (0, None)


def test_an_empty_folder_counts_nothing(tmp_path: Path) -> None:
    stats = folder_stats(DataFolder.create(tmp_path / "data").path)

    assert (stats.measurements, stats.programs, stats.proposed_by, stats.workloads) == (0, 0, {}, ())
    assert latencies_by_operator(tmp_path / "data") == {}


def test_latencies_are_grouped_by_operator_and_by_device_where_there_are_several(
    root: DataFolder, measurement: Any
) -> None:
    one = latencies_by_operator(root.path)
    assert {name: len(values) for name, values in one.items()} == {UNKNOWN_OPERATOR: 3, "matmul": 3, "softmax": 2}

    with root.writer("cpu1") as writer:
        writer.append(measurement(20, device_id="cpu1", workload_id="w0"))
    assert "cpu1 matmul" in latencies_by_operator(root.path)


def test_each_cell_counts_workloads_programs_and_attempts(tmp_path: Path, measurement: Any, workload: Any) -> None:
    root = DataFolder.create(tmp_path / "data")
    root.put_workloads([workload(0), workload(1), workload(2, operator="softmax")])
    with root.writer("cpu0") as writer:
        for number in range(6):
            failed = {"status": "run_error", "error": "x", "run_s": []} if number in (2, 5) else {}
            writer.append(measurement(number, **failed))
        writer.append(measurement(6, program_id="p00000"))
    with root.writer("cpu1") as writer:
        writer.append(measurement(7, device_id="cpu1"))

    assert coverage(read_observations(root)) == (
        # w0 and w1; five attempts, of which two were the same program.
        CoverageCell("matmul", "cpu0", workloads=2, programs=4, measured=5),
        CoverageCell("softmax", "cpu0", workloads=1, programs=0, measured=2),
        CoverageCell("matmul", "cpu1", workloads=1, programs=1, measured=1),
    )


def test_every_workload_on_every_device_has_its_own_figures(tmp_path: Path, measurement: Any, workload: Any) -> None:
    rng = np.random.default_rng(0)
    root = DataFolder.create(tmp_path / "data")
    root.put_workloads([workload(0, flop=2e6), workload(1)])
    latencies: dict[tuple[str, str], list[float]] = {}
    for device_id in ("cpu1", "cpu0"):
        with root.writer(device_id) as writer:
            for number in range(40):
                us = float(rng.uniform(1, 100))
                row = measurement(number, device_id=device_id, record_id=f"{device_id}{number}", run_s=[us * 1e-6])
                latencies.setdefault((device_id, row["workload_id"]), []).append(us)
                writer.append(row)

    found = workload_stats(read_observations(root), root.workloads())

    assert [(w.device_id, w.name) for w in found] == [
        (device_id, name) for device_id in ("cpu0", "cpu1") for name in ("w2", "matmul0", "matmul1")
    ]
    for w in found:
        us = latencies[w.device_id, w.workload_id]
        at = (w.best_us, w.quarter_us, w.median_us, w.three_quarters_us, w.worst_us)
        assert at == pytest.approx(np.percentile(us, [0, 25, 50, 75, 100]))
        assert (w.measured, w.ok, w.spread) == (len(us), len(us), pytest.approx(max(us) / min(us)))
    first = found[1]
    assert first.best_gflops == pytest.approx(2e6 / (min(latencies["cpu0", "w0"]) * 1e-6) / 1e9)
    assert (found[0].operator, found[0].flop, found[0].best_gflops) == (UNKNOWN_OPERATOR, None, None)


def test_a_workload_that_never_ran_has_no_latencies(tmp_path: Path, measurement: Any) -> None:
    root = DataFolder.create(tmp_path / "data")
    with root.writer("cpu0") as writer:
        writer.append(measurement(0, status="run_error", error="x", run_s=[]))

    (found,) = workload_stats(read_observations(root), root.workloads())
    assert (found.measured, found.ok, found.best_us, found.spread) == (1, 0, None, None)
