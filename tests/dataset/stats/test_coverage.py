from __future__ import annotations

from pathlib import Path
from typing import Any

from costhub.dataset.folder import DataFolder
from costhub.dataset.stats.folder_stats import CoverageCell, coverage
from costhub.dataset.stats.observations import read_observations


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
