"""A small table whose latencies follow a law, for tests of the predictor."""

from __future__ import annotations

from typing import Any

import numpy as np

from costhub.dataset.workload_numbers import NAMES
from costhub.models.latency.pools import Pool
from costhub.models.latency.predictor import LatencyTable

DEVICES: dict[str, dict[str, Any]] = {
    f"{kind}-{cores}": {
        "device_id": f"{kind}-{cores}",
        "kind": kind,
        "microarchitecture": f"{kind}{cores}",
        "cores": cores,
        "peak_gflops": 50.0 * cores,
        "dram_gbs": 20.0,
    }
    for kind in ("cpu", "cuda")
    for cores in (2, 4, 8)
}


def numbers(flop: float, operator: str = "conv") -> np.ndarray[Any, Any]:
    known = {
        "flop": flop,
        "input_bytes": flop / 2,
        "output_bytes": flop / 3,
        "spatial": flop / 2,
        f"is_{operator}": 1.0,
    }
    return np.array([known.get(name, 0.0) for name in NAMES])


def made_table(*, workloads: int = 40, programs: int = 32, seed: int = 0) -> LatencyTable:
    """Kernels at half of the roofline and at a tenth, by their operator; programs are up to several times slower."""
    rng = np.random.default_rng(seed)
    about = {f"w{n}": (float(rng.uniform(18, 30)), ("conv", "norm")[n % 2]) for n in range(workloads)}
    pools = []
    for name, (flop, operator) in about.items():
        for device, row in DEVICES.items():
            best = 2**flop / row["peak_gflops"] / 1e9 * {"conv": 2.0, "norm": 10.0}[operator]
            slower = np.exp(np.abs(rng.normal(0, 0.5, programs)))
            pools.append(Pool(name, device, "cpu" if row["kind"] == "cpu" else "gpu", np.sort(best * slower)))
    uses = {name: (operator, f"net{int(name[1:]) // 5}") for name, (_, operator) in about.items()}
    return LatencyTable.build(pools, {name: numbers(*own) for name, own in about.items()}, uses, DEVICES)
