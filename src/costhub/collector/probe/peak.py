"""Provides peak_gops: the operations per second that a device reaches in registers alone."""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from costhub.collector.probe.arithmetic import find_arithmetic
from costhub.collector.probe.bench import Bench, Kernel, assembly_of, compile_for, each_worker
from costhub.collector.probe.forms import Arithmetic
from costhub.collector.probe.stable import highest_rate
from costhub.errors import MeasureError


@dataclass(frozen=True)
class PeakKernel:
    """A compiled kernel of independent chains of multiply-adds, and what it is made of."""

    kernel: Kernel
    arithmetic: Arithmetic
    instruction: str
    """What the assembly computes with, such as ``vfmadd231ps zmm``."""
    arguments: tuple[Any, ...]


def peak_gops(bench: Bench, dtype: str, *, workers: int, budget_s: float) -> tuple[float, str]:
    """10^9 multiplications and additions per second on `workers` threads or blocks, and the instruction.

    Raises:
        MeasureError: The target has no such arithmetic, or LLVM made something else of it.
    """
    peak = peak_kernel(bench, dtype)
    arithmetic = peak.arithmetic
    per_round = arithmetic.chains * arithmetic.lanes * arithmetic.operations * workers * bench.threads

    def run(rounds: int) -> float:
        return peak.kernel.seconds((workers, rounds, *peak.arguments))

    return highest_rate(run, budget_s=budget_s) * per_round / 1e9, peak.instruction


@cache
def peak_kernel(bench: Bench, dtype: str) -> PeakKernel:
    """The kernel of a type, compiled once."""
    import tvm

    arithmetic = find_arithmetic(bench.target, dtype)
    function = peak_function(arithmetic, bench.threads)
    instruction = arithmetic.instruction
    if not bench.is_gpu:
        instruction = emitted(arithmetic, assembly_of(function, bench.target))
    lanes = arithmetic.chains * arithmetic.lanes
    out = np.zeros((bench.workers, bench.threads * lanes), arithmetic.accumulator)
    values = (np.full(lanes, arithmetic.start), np.array([arithmetic.factor]), out)
    arguments = [tvm.runtime.tensor(value, bench.device) for value in values]
    return PeakKernel(compile_for(function, bench), arithmetic, instruction, tuple(arguments))


def peak_function(arithmetic: Arithmetic, threads: int) -> Any:
    """A TIR function that updates all accumulators `rounds` times, on each of `workers` workers."""
    from tvm.script.ir_builder import IRBuilder
    from tvm.tirx.script.builder import ir as T

    size, dtype = arithmetic.chains * arithmetic.lanes, arithmetic.accumulator
    places = [_place(chain * arithmetic.lanes, arithmetic.lanes) for chain in range(arithmetic.chains)]
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        T.func_attr({"tirx.noalias": True})
        workers, rounds, rows = T.arg("workers", T.int32()), T.arg("rounds", T.int32()), T.int32()
        start = T.match_buffer(T.arg("start", T.handle()), (size,), dtype)
        factor = T.match_buffer(T.arg("factor", T.handle()), (1,), dtype)
        out = T.match_buffer(T.arg("out", T.handle()), (rows, threads * size), dtype)
        llvm = T.attr(T.int32(0), "pragma_import_llvm", arithmetic.llvm) if arithmetic.llvm else nullcontext()
        with llvm, each_worker(workers, threads) as (worker, thread):
            kept = T.alloc_buffer((size,), dtype, scope="local")
            for place in places:
                T.buffer_store(kept, start[place], [place])
            by = T.Broadcast(factor[0], arithmetic.lanes) if arithmetic.lanes > 1 else factor[0]
            with T.serial(0, rounds):
                # Written out: a loop over the accumulators would keep them in memory.
                for place, near in zip(places, [*places[1:], places[0]], strict=True):
                    T.buffer_store(kept, arithmetic.update(kept[place], kept[near], by), [place])
            for place in places:
                T.buffer_store(out, kept[place], [worker, thread * size + place])
    return builder.get()


def emitted(arithmetic: Arithmetic, assembly: str) -> str:
    """The instruction that does the work, as ``vfmadd231ps zmm``.

    Raises:
        MeasureError: It does not occur once for each chain, so the kernel does not measure what it should.
    """
    matches = re.findall(rf"{arithmetic.instruction}.*", assembly)
    if len(matches) < arithmetic.chains:
        raise MeasureError(
            f"LLVM emitted {len(matches)} instructions like {arithmetic.instruction!r} where "
            f"{arithmetic.chains} were expected, so the kernel would measure something else"
        )
    words = re.match(r"\s*([a-z0-9.]+)\s.*?%?([xyz]mm|v\d+(?:\.\d+[a-z])?|$)", matches[0])
    return " ".join(words.groups()).strip() if words else matches[0].strip()


def _place(first: int, lanes: int) -> Any:
    from tvm.tirx.script.builder import ir as T

    return T.Ramp(first, 1, lanes) if lanes > 1 else first
