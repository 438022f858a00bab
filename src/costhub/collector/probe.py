"""Provides probe: measured limits of this machine's CPU, as the probed columns of the devices table."""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from costhub.collector.builder import Builder
from costhub.collector.runner import Runner
from costhub.errors import MeasureError

METHOD = (
    "peak_gflops: float32 matrix product of 2048 x 2048 by numpy's BLAS, all threads. *_gbs: bytes read per "
    "second by BLAS's dot product of two float32 vectors that together fill half the level (DRAM: 512 MiB), "
    "all threads of BLAS. launch_overhead_us: a TVM kernel with a parallel loop of 64 additions. Best of the "
    "repeats in each case."
)
PEAK_SIZE = 2048
DRAM_BYTES = 512 << 20
SECONDS_EACH = 1.0


def probe(device: dict[str, Any], target: dict[str, Any]) -> dict[str, Any]:
    """Measures the device in about 15 s; nothing else should run meanwhile.

    Args:
        device: its row so far, for the sizes of its caches.
        target: the TVM target.

    Returns:
        Columns peak_gflops, l1_gbs, l2_gbs, l3_gbs, dram_gbs, launch_overhead_us, probe_method, probed_at.

    Raises:
        MeasureError: the kernel for the launch overhead does not build or run here.
    """
    levels = {"l1_gbs": "l1d_bytes", "l2_gbs": "l2_bytes", "l3_gbs": "l3_bytes"}
    read = {name: _read_gbs(device[size] // 2) for name, size in levels.items() if device.get(size)}
    return {
        "peak_gflops": _peak_gflops(),
        **dict.fromkeys(levels),
        **read,
        "dram_gbs": _read_gbs(DRAM_BYTES),
        "launch_overhead_us": _launch_overhead_us(json.dumps(target)),
        "probe_method": METHOD,
        "probed_at": datetime.datetime.now(datetime.timezone.utc),
    }


def _best_s(call: Callable[[], object]) -> float:
    """Seconds of the fastest call within SECONDS_EACH, after one to warm up."""
    call()
    best = float("inf")
    end = time.perf_counter() + SECONDS_EACH
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def _peak_gflops() -> float:
    rng = np.random.default_rng(0)
    a = rng.random((PEAK_SIZE, PEAK_SIZE), dtype=np.float32)
    out = np.empty_like(a)
    return 2 * PEAK_SIZE**3 / _best_s(lambda: np.matmul(a, a, out=out)) / 1e9


def _read_gbs(size: int) -> float:
    rng = np.random.default_rng(0)
    n = size // 8
    a, b = rng.random(n, dtype=np.float32), rng.random(n, dtype=np.float32)
    # Small vectors are read many times per timing, or the clock's own cost would be measured.
    rounds = max(1, (4 << 20) // size)

    def read() -> None:
        for _ in range(rounds):
            np.dot(a, b)

    return rounds * 8 * n / _best_s(read) / 1e9


def _launch_overhead_us(target: str) -> float:
    import tvm
    from tvm import te

    from costhub.dataset.workload import module_to_json

    a = te.placeholder((64,), name="A")
    function = te.create_prim_func([a, te.compute((64,), lambda i: a[i] + 1.0, name="C")])
    schedule = tvm.s_tir.Schedule(function.with_attr("global_symbol", "main"))
    schedule.parallel(schedule.get_loops(schedule.get_sblock("C"))[0])
    with Builder(target, processes=1) as builder, Runner(target) as runner:
        built = builder.build([module_to_json(schedule.mod)])[0]
        if built.artifact is None:
            raise MeasureError(f"The probe's kernel does not build for {target}: {built.error}")
        ran = runner.run(built.artifact, (("float32", (64,)), ("float32", (64,))))
    if ran.status != "ok":
        raise MeasureError(f"The probe's kernel does not run on this machine: {ran.error}")
    return min(ran.run_s) * 1e6
