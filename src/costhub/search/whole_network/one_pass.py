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

_LINE = 16
"""Numbers of a block along an axis: a line of the cache has 16 of float32."""
_FEWEST, _MOST = 8, 64
"""The fewest lanes of a vector that is part of an axis, and the most of one that is a whole axis."""
_LOAD = "TensorLoad"
"""What TVM calls the reading of a number."""
_SMALL = 2.0
"""Steps are small if all of them together have less than so many times the work of the last one: numbers, or terms."""
_BALANCED = 1.25
"""The most time that the slowest core may take, relative to all of them sharing the work evenly."""
_LITTLE = 1 << 17
"""Steps with less work than this are small in any case: starting threads takes as long as computing them."""
_ROUNDS = 8
"""Loops from the outermost on are distributed over threads until they have so many rounds for each core."""


def in_one_pass(mod: Any, cores: int) -> Any:
    """A kernel that reads its inputs once and writes its outputs once.

    Args:
        mod: A module with the kernel as ``main``.
        cores: How many threads share the work.

    Returns:
        The kernel (``tirx.PrimFunc``); None if it computes sums, if a part of it would be computed several times, or if
        it goes through its only input and its output in the same order, so that nothing is gained.
    """
    import tvm

    try:
        schedule = tvm.s_tir.Schedule(mod, error_render_level="none")
        root = schedule.get_sblock("root")
        blocks = schedule.get_child_blocks(root)
        if any(_has_sums(schedule.get(block)) for block in blocks):
            return None
        last = [schedule.get(block).name_hint for block in schedule.get_output_blocks(root)]
        before = [block for block in blocks if schedule.get(block).name_hint not in last]
        for block in reversed(before):
            if not _may_be_inlined(schedule, block):
                return None
            schedule.compute_inline(block)
        gains = [_tile(schedule, schedule.get_sblock(name), cores) for name in last]
    except Exception:  # Whatever is raised for a kernel of another form; other rules take it.
        return None
    return schedule.mod["main"] if before or any(gains) else None


def _has_sums(block: Any) -> bool:
    from tvm.tirx import IterVar

    return any(axis.iter_type != IterVar.DataPar for axis in block.iter_vars)


def _may_be_inlined(schedule: Any, block: Any) -> bool:
    """Whether a block copies numbers, or computes each of them for one place in its only consumer."""
    from tvm import tirx

    own = schedule.get(block)
    if isinstance(own.body, tirx.BufferStore) and type(own.body.value).__name__ == _LOAD:
        return True
    readers = [schedule.get(consumer) for consumer in schedule.get_consumers(block)]
    return len(readers) == 1 and _outputs(readers[0]) <= _outputs(own) and _reads(readers[0], own) == 1


def _outputs(block: Any) -> int:
    """How many numbers a block computes, or terms it sums."""
    return math.prod(int(axis.dom.extent) for axis in block.iter_vars)


def _reads(block: Any, producer: Any) -> int:
    """At how many places a block reads what another one computes."""
    from tvm_ffi import structural_walk

    buffer, places = producer.writes[0].source, 0

    def count(node: Any) -> None:
        nonlocal places
        if type(node).__name__ == _LOAD and node.source.same_as(buffer):
            places += 1

    structural_walk(block.body, count)
    return places


def _tile(schedule: Any, block: Any, cores: int) -> bool:
    """Makes a block go through its outputs in small blocks, on all cores; false if one order suits all it reads."""
    loops = schedule.get_loops(block)
    body = schedule.get(block)
    (write,) = body.writes
    written = _contiguous(body, write)
    large = [each for each in body.reads if 2 * _numbers(each) >= _numbers(write)]
    orders = (_contiguous(body, each) for each in sorted(large, key=_numbers, reverse=True))
    read = next((found for found in orders if found not in (None, written)), None)
    if written is None:
        written = len(loops) - 1
    outer, inner = list(loops), []
    for place in dict.fromkeys([read, written] if read is not None else [written]):
        extent = int(schedule.get(loops[place]).extent)
        outer[place], few = schedule.split(loops[place], [None, _lanes(extent) if place == written else _size(extent)])
        inner.append(few)
    schedule.reorder(*outer, *inner)
    schedule.vectorize(inner[-1])
    rounds = _ROUNDS * cores
    count = next((n for n in range(1, len(outer)) if math.prod(_extents(schedule, outer[:n])) >= rounds), len(outer))
    schedule.parallel(schedule.fuse(*outer[:count]) if count > 1 else outer[0])
    return read is not None


def _extents(schedule: Any, loops: Sequence[Any]) -> list[int]:
    return [int(schedule.get(loop).extent) for loop in loops]


def _size(extent: int) -> int:
    """The size of a block along an axis: its largest divisor up to a line."""
    return max(size for size in range(1, _LINE + 1) if extent % size == 0)


def _lanes(extent: int) -> int:
    """The lanes of a vector along an axis: a power of two, or else the whole axis, or else 1."""
    power = math.gcd(extent, _LINE)
    if power >= _FEWEST:
        return power
    return extent if extent <= _MOST else 1


def _numbers(access: Any) -> int:
    """The size of the tensor that is read or written."""
    return math.prod(int(extent) for extent in access.source.shape)


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
                analyzer.bind(other.var, tirx.const(place if other.same_as(axis) else 0, other.var.ty.dtype))
            values.append(analyzer.simplify(offset))
        if all(isinstance(value, tirx.IntImm) for value in values) and int(values[1]) - int(values[0]) == 1:
            return number
    return None


def in_one_region(mod: Any, cores: int) -> Any:
    """A kernel whose threads start once for all its steps, if those before the last are small.

    The gates of squeeze-and-excitation are such: a few sums, their sigmoid, and an image that is multiplied by it. A
    mean over an image is taken as well, if its channels lie side by side.

    Args:
        mod: A module with the kernel as ``main``.
        cores: How many threads share the work.

    Returns:
        The kernel (``tirx.PrimFunc``); None if the steps before the last are neither small nor such a sum, if one of
        them would be computed several times or not in vectors, if the last is a sum, or if it is much work and the
        rounds of its first loop cannot be shared evenly.
    """
    import tvm

    try:
        schedule = tvm.s_tir.Schedule(mod, error_render_level="none")
        *before, last = schedule.get_child_blocks(schedule.get_sblock("root"))
        work = [_outputs(schedule.get(block)) for block in before]
        most = max(_LITTLE, _SMALL * _outputs(schedule.get(last)))
        if not work or _has_sums(schedule.get(last)) or not (sum(work) < most or _is_one_sum(schedule, before)):
            return None
        loops = schedule.get_loops(last)
        count = next(n for n in range(1, len(loops)) if math.prod(_extents(schedule, loops[:n])) > 1)
        shared = schedule.fuse(*loops[:count])
        for block in reversed(before):
            schedule.compute_at(block, shared, preserve_unit_loops=True)
        inside = [math.prod(_extents(schedule, schedule.get_loops(block))) for block in before]
        if any(after > once for after, once in zip(inside, work, strict=True)):
            return None
        rounds, is_little = int(schedule.get(shared).extent), sum(work) + _outputs(schedule.get(last)) < _LITTLE
        is_even = -(-rounds // cores) * cores <= _BALANCED * rounds
        if not (is_little or is_even) or not all(_in_lanes(schedule.get(block)) for block in before):
            return None
        schedule.parallel(shared)
        for block in (*before, last):
            _vectorize(schedule, block)
    except Exception:  # As above.
        return None
    return schedule.mod["main"]


def _is_one_sum(schedule: Any, blocks: Sequence[Any]) -> bool:
    """Whether blocks are a single one, with a term or an output for each number of one tensor."""
    if len(blocks) != 1:
        return False
    block = schedule.get(blocks[0])
    return len(block.reads) == 1 and _numbers(block.reads[0]) == _outputs(block)


def _in_lanes(block: Any) -> bool:
    """Whether neighbours in a vector of sums read neighbours of the largest tensor; true of blocks without sums."""
    from tvm.tirx import IterVar

    if not _has_sums(block):
        return True
    kept = [number for number, axis in enumerate(block.iter_vars) if axis.iter_type == IterVar.DataPar]
    return _contiguous(block, max(block.reads, key=_numbers)) == kept[-1]


def _vectorize(schedule: Any, block: Any) -> None:
    """Makes vectors of the innermost axis of a block's outputs; sums go through their terms outside of it."""
    from tvm.tirx import IterVar

    summed = sum(axis.iter_type == IterVar.CommReduce for axis in schedule.get(block).iter_vars)
    loops = schedule.get_loops(block)
    terms, lane = loops[len(loops) - summed :], loops[len(loops) - summed - 1]
    _, few = schedule.split(lane, [None, _lanes(int(schedule.get(lane).extent))])
    if terms:
        schedule.reorder(*terms, few)
    schedule.vectorize(few)
    if terms:
        schedule.decompose_reduction(block, terms[0])
