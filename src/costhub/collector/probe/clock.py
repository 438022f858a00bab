"""Provides clock_ghz: the clock a core really runs at, from a chain of operations of one cycle each."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from costhub.collector.probe.bench import Bench, compile_for
from costhub.collector.probe.stable import highest_rate

PAIRS_PER_ROUND = 32


def clock_ghz(bench: Bench, *, budget_s: float) -> float:
    """Clock of one core in GHz.

    Each operation needs the result of the one before, and every CPU of today adds integers in one cycle, so
    operations per second are cycles per second. /proc/cpuinfo shows the nominal clock instead, the more so in
    a virtual machine.
    """
    import tvm

    kernel = compile_for(clock_function(), bench)
    values = tvm.runtime.tensor(np.array([3, 5, 7], "int64"))

    def run(rounds: int) -> float:
        return kernel.seconds((rounds, values))

    return highest_rate(run, budget_s=budget_s) * 2 * PAIRS_PER_ROUND / 1e9


@cache
def clock_function() -> Any:
    """A TIR function of `rounds` times 32 dependent pairs of add and exclusive or on int64."""
    from tvm.script.ir_builder import IRBuilder
    from tvm.tirx.script.builder import ir as T

    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        rounds = T.arg("rounds", T.int32())
        values = T.match_buffer(T.arg("values", T.handle()), (3,), "int64")
        chain = T.alloc_buffer((1,), "int64", scope="local")
        T.buffer_store(chain, values[0], [0])
        with T.serial(0, rounds):
            for _ in range(PAIRS_PER_ROUND):
                # An add alone would be folded: n times + a is one + n * a.
                T.buffer_store(chain, T.bitwise_xor(chain[0] + values[1], values[2]), [0])
        T.buffer_store(values, chain[0], [0])
    return builder.get()
