"""Provides read_gbs, ladder_sizes and level_gbs: bandwidth over arrays of growing size, and of each cache.

Bytes read are counted: each pass reads every element once, each worker its own part, and sums it up in registers.
Nothing is written, so no traffic is hidden: STREAM's triad counts 3 bytes where a cache that fetches lines it is about
to overwrite moves 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from costhub.collector.probe.kernels import ProbeDevice, ProbeKernel, compile_for, each_worker, highest_rate
from costhub.collector.probe.peak import find_arithmetic

FLOAT_BYTES = 4
SMALLEST_BYTES = 8 << 10
MIN_PER_CORE = {"cpu": 4 << 10, "cuda": 64 << 10}
"""The least that a core reads: less than its first cache, but no less than its threads read at once."""
DRAM_BYTES = 256 << 20
MAX_BYTES = 4 << 30
CUDA_LANES, CUDA_CHAINS = 4, 4
# A level's figure comes from arrays well inside it and well outside the level before.
INSIDE, OUTSIDE = 0.75, 2.0
# Memory: if a cache keeps part of a larger array from pass to pass, it serves less than a quarter of it.
BEYOND = 4.0


def ladder_sizes(device: Mapping[str, Any], cores: int) -> list[int]:
    """Array sizes in bytes, doubling from 8 KiB up to 256 MiB or eight times the last cache.

    At least 4 KiB per core (64 KiB on a GPU), at most a quarter of the memory and at most 4 GiB.

    Example:
        >>> ladder_sizes({"l3_bytes": 4 << 20}, 2)[0], ladder_sizes({"l3_bytes": 4 << 20}, 2)[-1] >> 20
        (8192, 256)
    """
    last = max(DRAM_BYTES, 8 * max(device.get(key) or 0 for key in ("l2_bytes", "l3_bytes")))
    last = min(last, MAX_BYTES, (device.get("memory_bytes") or 4 * MAX_BYTES) // 4)
    size = SMALLEST_BYTES
    while size < cores * MIN_PER_CORE.get(device.get("kind", "cpu"), 64 << 10):
        size *= 2
    sizes = [size]
    while sizes[-1] * 2 <= last:
        sizes.append(sizes[-1] * 2)
    return sizes


LEVELS = {"l1_gbs": "l1d_bytes", "l2_gbs": "l2_bytes", "l3_gbs": "l3_bytes"}
"""Bandwidth of a cache -> the column with its size."""


def level_gbs(ladder: Sequence[Mapping[str, Any]], device: Mapping[str, Any], cores: int) -> dict[str, float | None]:
    """The columns l1_gbs to dram_gbs: the best rung inside each level, of all cores together.

    Each core of a CPU has two private levels and a share of the third; a core of a GPU has one
    private level and a share of the second.
    A level is None if the device's row does not give its size, or if no rung fits it.

    Example:
        >>> rungs = [{"bytes": b << 10, "gbs": g} for b, g in ((16, 400.0), (256, 200.0), (1 << 20, 30.0))]
        >>> level_gbs(rungs, {"l1d_bytes": 48 << 10, "l2_bytes": 1 << 20}, 1)
        {'l1_gbs': 400.0, 'l2_gbs': 200.0, 'l3_gbs': None, 'dram_gbs': 30.0}
    """
    private = {"l1d_bytes": cores, "l2_bytes": cores if device.get("kind", "cpu") == "cpu" else 1}
    levels: dict[str, float | None] = {}
    before = 0.0
    for column, size in LEVELS.items():
        room = (device.get(size) or 0) * private.get(size, 1)
        levels[column] = _best(ladder, OUTSIDE * before, INSIDE * room)
        before = max(before, room)
    levels["dram_gbs"] = _best(ladder, BEYOND * before, float("inf"))
    return levels


def _best(ladder: Sequence[Mapping[str, Any]], above: float, upto: float) -> float | None:
    return max((rung["gbs"] for rung in ladder if above < rung["bytes"] <= upto), default=None)


def read_gbs(bench: ProbeDevice, size: int, *, largest: int, budget_s: float) -> tuple[int, float]:
    """Reads an array of about `size` bytes repeatedly.

    Args:
        bench: The device.
        size: Bytes of the array, all workers together.
        largest: Bytes of the largest array to come, which is allocated once.
        budget_s: No further call starts after so many seconds.

    Returns:
        Actual size of the array in bytes, a multiple of what the workers read at once; 10^9 bytes per second.
    """
    reader = _reader(bench, largest)
    blocks = max(1, size // (bench.workers * reader.block * FLOAT_BYTES))

    def run(rounds: int) -> float:
        return reader.kernel.seconds((bench.workers, blocks, rounds, reader.array, reader.out))

    read = blocks * reader.block * FLOAT_BYTES * bench.workers
    return read, highest_rate(run, budget_s=budget_s) * read / 1e9


@dataclass(frozen=True)
class _Reader:
    kernel: ProbeKernel
    block: int
    """Number of elements that a worker reads at once."""
    array: Any
    out: Any


@cache
def _reader(bench: ProbeDevice, largest: int) -> _Reader:
    import tvm

    if bench.is_gpu:
        lanes, chains = CUDA_LANES, CUDA_CHAINS
    else:
        # Additions take fewer cycles than multiply-adds; a power of two divides the sizes of the ladder.
        arithmetic = find_arithmetic(bench.target, "float32")
        lanes, chains = arithmetic.lanes, 16 if arithmetic.chains > 12 else 8
    # Every worker reads at least one block, whatever size was requested.
    block = chains * lanes * bench.threads
    numbers = max(largest // FLOAT_BYTES, bench.workers * block)
    return _Reader(
        compile_for(read_function(lanes, chains, bench.threads), bench),
        block,
        tvm.runtime.tensor(np.ones(numbers, "float32"), bench.device),
        tvm.runtime.tensor(np.zeros((bench.workers, block), "float32"), bench.device),
    )


def read_function(lanes: int, chains: int, threads: int) -> Any:
    """A TIR function in which every worker sums up its `blocks` blocks of the array, `rounds` times."""
    from tvm.script.ir_builder import IRBuilder
    from tvm.tirx.script.builder import ir as T

    step, places = lanes * threads, [T.Ramp(chain * lanes, 1, lanes) for chain in range(chains)]
    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        T.func_attr({"tirx.noalias": True})
        workers, blocks, rounds = (T.arg(name, T.int32()) for name in ("workers", "blocks", "rounds"))
        size, rows = T.int32(), T.int32()
        array = T.match_buffer(T.arg("array", T.handle()), (size,), "float32")
        out = T.match_buffer(T.arg("out", T.handle()), (rows, chains * step), "float32")
        with each_worker(workers, threads) as (worker, thread):
            sums = T.alloc_buffer((chains * lanes,), "float32", scope="local")
            for place in places:
                T.buffer_store(sums, T.Broadcast(T.float32(0), lanes), [place])
            with T.serial(0, rounds), T.serial(0, blocks) as block:
                first = (worker * blocks + block) * (chains * step) + thread * lanes
                for chain, place in enumerate(places):
                    read = array[T.Ramp(first + chain * step, 1, lanes)]
                    T.buffer_store(sums, sums[place] + read, [place])
            for place in places:
                T.buffer_store(out, sums[place], [worker, thread * (chains * lanes) + place])
    return builder.get()
