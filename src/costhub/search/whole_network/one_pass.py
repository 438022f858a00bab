"""Provides in_one_pass and in_one_region: schedules of kernels that a search leaves alone, such as changes of layout.

A network's layouts change where a search has nothing to choose, so such kernels are none of its tasks. Each step of one
(a reshape, a transpose, a blocked layout) would go through memory by itself, number by number. What libraries do
instead is known from transposing matrices (Lam, Rothberg and Wolf 1991, "The cache performance and optimizations of
blocked algorithms"): one pass, in blocks that are as wide as a line of the cache both where they are read and where
they are written.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

_LANES = 16
"""Numbers of a block along an axis: a line of the cache has 16 of float32."""
_LOADS = ("TensorLoad", "BufferLoad")
"""What TVM calls the reading of a number, in this version and in earlier ones."""
_SMALL = 2.0
"""Steps are small if they compute at most so many times as many numbers and terms of sums as the last one."""
_TASKS = 16
"""Loops from the outermost on are distributed over threads until they have this many rounds."""


def in_one_pass(mod: Any) -> Any:
    """A kernel that reads its inputs once and writes its outputs once.

    Args:
        mod: A module with the kernel as ``main``.

    Returns:
        The kernel (``tirx.PrimFunc``); None if it computes sums, if a part of it would be computed several times, or if
        it goes through its only input and its output in the same order, so that nothing is gained.
    """
    import tvm

    schedule = tvm.s_tir.Schedule(mod, error_render_level="none")
    try:
        root = schedule.get_sblock("root")
        blocks = schedule.get_child_blocks(root)
        last = [schedule.get(block).name_hint for block in schedule.get_output_blocks(root)]
        before = [block for block in blocks if schedule.get(block).name_hint not in last]
        if not all(_may_be_inlined(schedule, block) for block in before) or any(
            _has_sums(schedule.get(block)) for block in blocks
        ):
            return None
        for block in before:
            schedule.compute_inline(block)
        gains = [_tile(schedule, schedule.get_sblock(name)) for name in last]
    except (tvm.s_tir.ScheduleError, tvm.error.InternalError):
        return None
    return schedule.mod["main"] if before or any(gains) else None


def _has_sums(block: Any) -> bool:
    from tvm.tirx import IterVar

    return any(axis.iter_type != IterVar.DataPar for axis in block.iter_vars)


def _may_be_inlined(schedule: Any, block: Any) -> bool:
    """Whether a block copies numbers, or computes each of them for one number of its only consumer."""
    from tvm import tirx

    body = schedule.get(block).body
    if isinstance(body, tirx.BufferStore) and type(body.value).__name__ in _LOADS:
        return True
    consumers = schedule.get_consumers(block)
    return len(consumers) == 1 and _outputs(schedule.get(consumers[0])) <= _outputs(schedule.get(block))


def _outputs(block: Any) -> int:
    """How many numbers a block computes, or terms it sums."""
    return math.prod(int(axis.dom.extent) for axis in block.iter_vars)


def _tile(schedule: Any, block: Any) -> bool:
    """Makes a block go through its outputs in small blocks, on all cores; false if one order suits all it reads."""
    loops = schedule.get_loops(block)
    body = schedule.get(block)
    (write,) = body.writes
    written = _contiguous(body, write)
    read = next((found for each in _largest_first(body.reads) if (found := _contiguous(body, each)) != written), None)
    if written is None:
        written = len(loops) - 1
    outer, inner = list(loops), []
    for place in dict.fromkeys([read, written] if read is not None else [written]):
        outer[place], few = schedule.split(loops[place], [None, _size(int(schedule.get(loops[place]).extent))])
        inner.append(few)
    schedule.reorder(*outer, *inner)
    schedule.vectorize(inner[-1])
    count = next((n for n in range(1, len(outer)) if math.prod(_extents(schedule, outer[:n])) >= _TASKS), len(outer))
    schedule.parallel(schedule.fuse(*outer[:count]) if count > 1 else outer[0])
    return read is not None


def _extents(schedule: Any, loops: Sequence[Any]) -> list[int]:
    return [int(schedule.get(loop).extent) for loop in loops]


def _size(extent: int) -> int:
    """The size of a block along an axis: a power of two if one divides the extent, or else its largest divisor."""
    power = math.gcd(extent, _LANES)
    return power if power >= _LANES // 2 else max(d for d in range(1, _LANES + 1) if extent % d == 0)


def _largest_first(reads: Sequence[Any]) -> list[Any]:
    return sorted(reads, key=lambda read: -math.prod(int(extent) for extent in read.source.shape))


def _contiguous(block: Any, access: Any) -> int | None:
    """The number of the axis along which neighbours lie side by side in a buffer; None if there is none."""
    from tvm import tirx
    from tvm.sym import Analyzer

    offset: Any = tirx.const(0, "int64")
    for part, extent in zip(access.region, access.source.shape, strict=True):
        offset = offset * extent + part.min
    for number, axis in enumerate(block.iter_vars):
        if int(axis.dom.extent) == 1:
            continue
        values = []
        for place in (0, 1):
            analyzer = Analyzer()
            for other in block.iter_vars:
                analyzer.bind(
                    other.var, tirx.const(place if other is axis or other.same_as(axis) else 0, other.var.ty.dtype)
                )
            values.append(analyzer.simplify(offset))
        if all(isinstance(value, tirx.IntImm) for value in values) and int(values[1]) - int(values[0]) == 1:
            return number
    return None


def in_one_region(mod: Any) -> Any:
    """A kernel whose threads start once for all its steps, if those before the last are small.

    The gates of squeeze-and-excitation are such: a few sums, their sigmoid, and an image that is multiplied by it.

    Args:
        mod: A module with the kernel as ``main``.

    Returns:
        The kernel (``tirx.PrimFunc``); None if the steps before the last are not small, or if that one is a sum.
    """
    import tvm

    schedule = tvm.s_tir.Schedule(mod, error_render_level="none")
    try:
        *before, last = schedule.get_child_blocks(schedule.get_sblock("root"))
        work = [_outputs(schedule.get(block)) for block in before]
        if not work or _has_sums(schedule.get(last)) or sum(work) > _SMALL * _outputs(schedule.get(last)):
            return None
        loops = schedule.get_loops(last)
        count = next(n for n in range(1, len(loops)) if math.prod(_extents(schedule, loops[:n])) > 1)
        shared = schedule.fuse(*loops[:count])
        for block in reversed(before):
            schedule.compute_at(block, shared, preserve_unit_loops=True)
        schedule.parallel(shared)
        for block in (*before, last):
            _vectorize(schedule, block)
    except (tvm.s_tir.ScheduleError, tvm.error.InternalError, StopIteration):
        return None
    return schedule.mod["main"]


def _vectorize(schedule: Any, block: Any) -> None:
    """Makes a vector of the innermost axis of a block's outputs; sums go through their terms outside of it."""
    from tvm.tirx import IterVar

    summed = sum(axis.iter_type == IterVar.CommReduce for axis in schedule.get(block).iter_vars)
    *_, lane = schedule.get_loops(block)[: len(schedule.get_loops(block)) - summed]
    terms = schedule.get_loops(block)[-summed:] if summed else []
    if terms:
        schedule.reorder(*terms, lane)
    schedule.vectorize(lane)
    if terms:
        schedule.decompose_reduction(block, terms[0])
