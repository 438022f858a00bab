"""Makes what `folder_stats` would say of a folder, of any size; `runpy.run_path` brings it into a test."""

from __future__ import annotations

from costhub.dataset.stats.folder_stats import CoverageCell, Failure, FolderStats, Licence, Versions, WorkloadStats
from costhub.dataset.stats.noise import PERCENTILES, DeviceNoise, Spread

NOTHING = Spread(0, None, None, ())
SPREAD = Spread(90, 0.01, 0.09, tuple(0.0002 * p for p in PERCENTILES))


def make_workload(device_id: str, number: int, *, name: str = "") -> WorkloadStats:
    best = 10.0 + number
    return WorkloadStats(
        device_id=device_id,
        workload_id=f"w{number}",
        name=name or f"matmul.{number}x128x128",
        operator=f"family{number % 11}",
        flop=1e7 * (number + 1),
        bytes=1e6,
        measured=128,
        ok=127,
        best_us=best,
        quarter_us=best * 2,
        median_us=best * 4,
        three_quarters_us=best * 8,
        worst_us=best * 100,
        spread=100.0,
        best_gflops=100.0,
    )


def make_stats(*, devices: int = 2, workloads: int = 3, name: str = "") -> FolderStats:
    ids = [f"{name}board-{number}" for number in range(devices)]
    found = tuple(make_workload(d, w, name=name) for d in ids for w in range(workloads))
    return FolderStats(
        measurements=128 * len(found),
        programs=100 * len(found),
        devices={device_id: 128 * workloads for device_id in ids},
        operators={"matmul": 128 * len(found)},
        statuses={"ok": 127 * len(found), "run_error": len(found)},
        proposed_by={f"random{name}": 1.0},
        networks={f"{name}network-1": 2},
        coverage=tuple(CoverageCell(f"{name}family{k}", d, 3, 300 * k, 330) for d in ids for k in range(3)),
        failures=tuple(Failure("run_error", f"{name} no registers {k}", 20 - k) for k in range(15)),
        versions=tuple(Versions(d, "0.27.0", None, None, "0.1", 128 * workloads) for d in ids),
        licences=(Licence("CC-BY-4.0", f"ann{name}", 128 * len(found)),),
        latency_us={d: {0: 1.25, 5: 2.0, 25: 3.0, 50: 40.0, 75: 500.0, 95: 6000.0, 100: 7e6} for d in ids},
        noise=tuple(DeviceNoise(d, SPREAD, NOTHING) for d in ids),
        roofs={ids[0]: {"peak_gflops": 250.0, "l2_gbs": 180.0, "dram_gbs": 42.0}} if ids else {},
        workloads=found,
    )
