"""Provides launch_overhead_us: what a call costs before the program in it has done anything."""

from __future__ import annotations

from typing import Any

import numpy as np

from costhub.collector.probe.bench import Bench, compile_for, each_worker

REPEATS = 200
LEAST_REPEATS = 5


def launch_overhead_us(bench: Bench, *, budget_s: float) -> float:
    """Microseconds of an empty program in TVM's time evaluator, as measurements are taken; the median.

    The median, not the best: this one is paid by every measurement, noise included.
    """
    import tvm

    kernel = compile_for(empty_function(bench.threads), bench)
    out = tvm.runtime.tensor(np.zeros(bench.workers * bench.threads, "float32"), bench.device)
    repeats = max(LEAST_REPEATS, min(REPEATS, int(budget_s / 0.002)))
    timer = kernel.module.time_evaluator("main", bench.device, number=1, repeat=repeats, min_repeat_ms=1)
    return float(np.median(timer(bench.workers, out).results)) * 1e6


def empty_function(threads: int) -> Any:
    """A TIR function whose workers store one number each."""
    from tvm.script.ir_builder import IRBuilder
    from tvm.tirx.script.builder import ir as T

    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        workers = T.arg("workers", T.int32())
        size = T.int32()
        out = T.match_buffer(T.arg("out", T.handle()), (size,), "float32")
        with each_worker(workers, threads) as (worker, thread):
            T.buffer_store(out, T.float32(1), [worker * threads + thread])
    return builder.get()
