from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costhub.dataset.folder import DataFolder
from costhub.dataset.stats.folder_stats import workload_stats
from costhub.dataset.stats.observations import UNKNOWN_OPERATOR, read_observations


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
