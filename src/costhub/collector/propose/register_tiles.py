"""Provides blocked_space: how convolutions in blocked layouts, and packed products, are tiled for vector registers.

TVM's rule for CPUs splits every loop into four at random, and few results keep a convolution's sums in registers.
The kernels of libraries (Georganas et al. 2018, "Anatomy of high-performance deep learning convolutions on SIMD
architectures", section II) all have one shape: a tile of places along a row by blocks of output channels stays in
registers while the loops over input channels and the filter run; each weight vector that is read serves all places of
the tile, each number of the image all blocks of channels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from typing import Any
from weakref import WeakValueDictionary

from costhub.collector.propose import matrix_tiles
from costhub.dataset.intrinsics import FLAT_CONVOLUTION, PAIR_CONVOLUTION, PAIR_DOTS, PAIR_PRODUCT
from costhub.dataset.tile_intrinsics import has_matrix_units
from costhub.dataset.trace import TILE

CONVOLUTION, DEPTHWISE, PRODUCT = "conv2d_NCHWc", "depthwise_conv2d_NCHWc", "matmul_packed"
"""Names of the blocks of such kernels (`costhub.collector.workloads.blocked_layouts`, ``packed_products``)."""
NORM, _SUMS = "layer_norm_rows", ("spread", "spread_lanes", "total", "total_lanes")
"""Blocks of a layer normalisation (``row_norms``), each before those it reads."""
SOFTMAX = "softmax_rows"
_SOFTMAX_STEPS = ("share", "total", "total_lanes", "T_fast_exp", "power", "top", "top_lanes", "padded")
"""The same of a softmax; the exponential has one of two names, and a row that needs none is not padded."""
_POWERS = ("T_fast_exp", "power")
_INLINED = "below"
"""Block of a softmax that becomes part of the exponential."""
MOST_BLOCKS, MOST_PLACES = 4, 28
"""Limits of either size of a tile; no rule of TVM has the second, by which tiles are told from other splits."""
MOST_SUMS, FEW_SUMS = 28, 14
"""Most vectors of sums in a tile: AVX-512 and NEON have 32 registers for sums and factors, AVX2 and SSE have 16."""
MOST_UNROLLED = 4
_REGISTERS, _FEW_REGISTERS = 32, 16
_SPATIAL = 5
"""Loops over the outputs of a convolution."""
_TILED = "meta_schedule.tiling_structure"
"""TVM's own annotation of a block that its rule MultiLevelTiling should leave alone."""
_INLINING = "meta_schedule.inline_rule"
"""TVM's own annotation of a block that its rule AutoInline should leave alone."""
_INTRINSIC = "meta_schedule.auto_tensorize"
"""TVM's own annotation of a block that an intrinsic computes."""
_UNROLL_STEPS = [0, 16]
"""Most statements that TVM may unroll besides the tile; TVM's own 64 and 512 produce code too large for the caches."""


def is_blocked(mod: Any) -> bool:
    """Whether a workload (``tvm.IRModule``) is a convolution in a blocked layout, or a packed product."""
    import tvm

    schedule = tvm.s_tir.Schedule(mod, error_render_level="none")
    return any(_has(schedule, name) for name in (*_TILERS, FLAT_CONVOLUTION, NORM, SOFTMAX))


def _has(schedule: Any, block: str) -> bool:
    import tvm

    try:
        schedule.get_sblock(block)
    except tvm.s_tir.ScheduleError:
        return False
    return True


def blocked_space(target: Any) -> Any:
    """TVM's ``SpaceGenerator`` for CPUs, with the tiles of this module for kernels in blocked layouts.

    Args:
        target: A ``tvm.target.Target``. Pairs of bfloat16 are multiplied by its matrix units, if it has any.
    """
    from tvm.s_tir.meta_schedule import postproc, schedule_rule
    from tvm.s_tir.meta_schedule.space_generator import PostOrderApply

    # Without a factored reduction: sums run over lanes already.
    usual = [
        rule for rule in schedule_rule.ScheduleRule.create("llvm") if not isinstance(rule, schedule_rule.AddRFactor)
    ]
    last = schedule_rule.ParallelizeVectorizeUnroll
    finishing = _finishing_rule()()
    matrix_units = has_matrix_units(target)
    rules = [_rule()(matrix_units), *(finishing if isinstance(rule, last) else rule for rule in usual)]
    finish = [_refuse_above(most_sums(target)), *postproc.Postproc.create("llvm")]
    finish.insert(
        -1, matrix_tiles.tensorize_tiles()() if matrix_units else postproc.RewriteTensorize(vectorize_init_loop=True)
    )
    return PostOrderApply(sch_rules=rules, postprocs=finish, mutator_probs="llvm")


def most_sums(target: Any) -> int:
    """How many vectors of sums a CPU keeps in its registers while it adds to them.

    Args:
        target: A ``tvm.target.Target``.
    """
    return MOST_SUMS if vector_registers(target) == _REGISTERS else FEW_SUMS


def vector_registers(target: Any) -> int:
    """How many registers for vectors a CPU has.

    Args:
        target: A ``tvm.target.Target``.
    """
    from tvm.target import codegen

    is_arm = str(target.attrs.get("mtriple", "")).startswith(("aarch64", "arm64"))
    return _REGISTERS if is_arm or codegen.target_has_features("avx512f", target) else _FEW_REGISTERS


@dataclass(frozen=True)
class RegisterTile:
    """The sizes of a register tile, as a search drew them."""

    blocks: int
    """Of channels or columns, a vector each."""
    places: int
    """Pixels of a row, or rows."""
    extent: int
    """Places that there are; a multiple of the tile's."""

    @classmethod
    def of(cls, trace: Any) -> RegisterTile | None:
        """The tile in the trace of a schedule (``tvm.s_tir.schedule.Trace``); None if it has none."""
        return cls.of_splits(
            (int(each.attrs[1]), [int(factor) for factor in trace.decisions[each]])
            for each in trace.insts
            if each.kind.name == TILE
        )

    @classmethod
    def of_splits(cls, splits: Iterable[tuple[int, Sequence[int]]]) -> RegisterTile | None:
        """The tile among the splits of a schedule, in their order; None if it is not among them.

        Args:
            splits: The largest innermost factor that each allows, and the factors drawn.

        Example:
            >>> RegisterTile.of_splits([(4, [8, 2]), (28, [4, 7])])
            RegisterTile(blocks=2, places=7, extent=28)
        """
        blocks = 1
        for most, factors in splits:
            if most == MOST_PLACES:
                return cls(blocks, factors[-1], math.prod(factors))
            blocks = factors[-1] if most == MOST_BLOCKS else 1
        return None

    @property
    def sums(self) -> int:
        """How many vectors of sums it has."""
        return self.blocks * self.places

    def fits(self, most: int) -> bool:
        """Whether the registers hold the sums of the tile, or no tile of several places would.

        Args:
            most: What `most_sums` returns.

        Example:
            >>> RegisterTile(2, 7, 28).fits(14), RegisterTile(4, 7, 28).fits(14), RegisterTile(1, 19, 19).fits(14)
            (True, False, True)
        """
        if self.sums <= most:
            return True
        return self.blocks == 1 and all(self.extent % places for places in range(2, most + 1))


@cache
def _refusal() -> Any:
    """The class of the first step after the decisions, created on first use."""
    from tvm.ir.utils import derived_object
    from tvm.s_tir.meta_schedule.postproc import PyPostproc

    @derived_object
    class RefuseSpills(PyPostproc):  # type: ignore[misc]
        """Refuses tiles whose sums exceed the registers: they would go to memory and back at each step."""

        def __init__(self, most: int) -> None:
            super().__init__()
            self.most = most

        def _initialize_with_tune_context(self, context: Any) -> None:
            """Called by TVM; the step knows what it needs of the target."""

        def clone(self) -> Any:
            """Called by TVM for each thread."""
            return _refuse_above(self.most)

        def apply(self, schedule: Any) -> bool:
            """Whether the registers hold the sums, if the kernel has a tile."""
            tile = RegisterTile.of(schedule.trace)
            return tile is None or tile.fits(self.most)

    return RefuseSpills


_REFUSALS: WeakValueDictionary[int, Any] = WeakValueDictionary()
"""Address of a step that TVM holds -> the `RefuseSpills` that it calls, which lives as long as the step."""


def _refuse_above(most: int) -> Any:
    step = _refusal()(most)
    _REFUSALS[step.__chandle__()] = step._inst
    return step


def refused_above(steps: Sequence[Any]) -> int | None:
    """The most vectors of sums for which the first step of post-processing lets a tile pass; None if it refuses none.

    Args:
        steps: ``ms.postproc.Postproc``, as TVM returns them: without the classes that Python gave them.
    """
    step = _REFUSALS.get(steps[0].__chandle__()) if steps else None
    return None if step is None else int(step.most)


@cache
def _rule() -> Any:
    """The class of the rule, created on first use, since this module is imported without TVM."""
    from tvm.ir.utils import derived_object
    from tvm.s_tir.meta_schedule.schedule_rule import PyScheduleRule

    @derived_object
    class RegisterTiles(PyScheduleRule):  # type: ignore[misc]
        """Gives a convolution in a blocked layout a register tile, with output channels or rows outermost."""

        def __init__(self, matrix_units: bool) -> None:
            super().__init__()
            self.matrix_units = matrix_units

        def _initialize_with_tune_context(self, context: Any) -> None:
            """Called by TVM; the rule knows what it needs of the target."""

        def clone(self) -> Any:
            """Called by TVM for each thread."""
            return _rule()(self.matrix_units)

        def apply(self, schedule: Any, block: Any) -> list[Any]:
            """Returns the schedules of the convolution; for other blocks, the given one."""
            return tiled(schedule, block, matrix_units=self.matrix_units)

    return RegisterTiles


@cache
def _finishing_rule() -> Any:
    """TVM's last rule, as a class, which leaves vectors alone where an intrinsic multiplies pairs.

    TVM would make vectors of the loops around the intrinsic, and could not lower them.
    """
    from tvm.ir.utils import derived_object
    from tvm.s_tir.meta_schedule import schedule_rule

    @derived_object
    class ParallelizeVectorizeUnroll(schedule_rule.PyScheduleRule):  # type: ignore[misc]
        """Chooses between TVM's rule and the same without vectors."""

        def __init__(self) -> None:
            super().__init__()
            # All figures are TVM's (src/s_tir/meta_schedule/schedule_rule/schedule_rule.cc), except steps and the -1.
            self.usual, self.without_vectors = (
                schedule_rule.ParallelizeVectorizeUnroll(
                    max_jobs_per_core=16,
                    max_vectorize_extent=most,
                    unroll_max_steps=_UNROLL_STEPS,
                    unroll_explicit=True,
                )
                for most in (64, -1)
            )

        def _initialize_with_tune_context(self, context: Any) -> None:
            """Called by TVM: tells both rules the target."""
            self.usual._initialize_with_tune_context(context)
            self.without_vectors._initialize_with_tune_context(context)

        def clone(self) -> Any:
            """Called by TVM for each thread."""
            return _finishing_rule()()

        def apply(self, schedule: Any, block: Any) -> list[Any]:
            """The schedules of the chosen rule."""
            has_pairs = any(_has(schedule, name) for name in _MATRIX_TILERS)
            return list((self.without_vectors if has_pairs else self.usual).apply(schedule, block))

    return ParallelizeVectorizeUnroll


def tiled(schedule: Any, block: Any, *, matrix_units: bool = False) -> list[Any]:
    """Schedules of a kernel with tile sizes to be drawn; other blocks keep their schedule.

    Args:
        schedule: A ``Schedule`` that records a trace.
        block: One of its blocks.
        matrix_units: Whether matrix units multiply pairs of bfloat16.
    """
    name = schedule.get(block).name_hint
    if name in (NORM, *_SUMS):
        return [_tiled_norm(schedule, block)]
    if name in (SOFTMAX, _INLINED, *_SOFTMAX_STEPS):
        return [_tiled_softmax(schedule, block)]
    tilers = [_TILERS[name]] if name in _TILERS else []
    if matrix_units and name in _MATRIX_TILERS:
        tilers = [partial(_MATRIX_TILERS[name], most=most) for most in matrix_tiles.SHAPES]
    if not tilers:
        return [schedule]
    followers = _followers(schedule, block)
    last = followers[-1] if followers and _is_alike(schedule, block, followers[-1]) else block
    if last is not block:
        for between in followers[:-1]:
            schedule.compute_inline(between)
    found = []
    for tiler, rows_first in product(tilers, (False, True)):
        one = schedule.copy()
        tiler(one, block, last, rows_first=rows_first)
        found.append(one)
    return found


def _followers(schedule: Any, block: Any) -> list[Any]:
    """The blocks downstream of a block, each after those that it reads; none if several blocks end the kernel."""
    found: dict[str, Any] = {}
    ends = set()

    def visit(made: Any) -> None:
        users = schedule.get_consumers(made)
        for user in users:
            if schedule.get(user).name_hint not in found:
                visit(user)
        name = schedule.get(made).name_hint
        found[name] = made
        if not users:
            ends.add(name)

    visit(block)
    return list(found.values())[-2::-1] if len(ends) == 1 else []


def _is_alike(schedule: Any, block: Any, last: Any) -> bool:
    """Whether the blocks downstream of a block take its elements one by one, in their order."""
    own, shape = (list(schedule.get(one).writes[0].source.shape) for one in (block, last))
    if schedule.get(block).name_hint == FLAT_CONVOLUTION and len(shape) == _SPATIAL:
        images, chunks, places, lanes = own
        is_alike = shape == [images, chunks, shape[2], shape[3], lanes] and shape[2] * shape[3] == places
        return bool(is_alike and len(schedule.get_loops(last)) == _SPATIAL)
    return shape == own and len(schedule.get_loops(last)) == len(shape)


def _tile_convolution(schedule: Any, block: Any, last: Any, *, rows_first: bool) -> None:
    # As many channels as lie side by side; of pairs, the weights' last axis but one has as many.
    place = (1, -2) if schedule.get(block).name_hint == PAIR_CONVOLUTION else (0, -1)
    lanes = int(schedule.get(block).reads[place[0]].source.shape[place[1]])
    from tvm.tirx import IterVar

    reduced = sum(var.iter_type == IterVar.CommReduce for var in schedule.get(block).iter_vars)
    image, chunk, row, place, lane = schedule.get_loops(last)[:_SPATIAL]
    chunks, few_chunks = schedule.split(chunk, schedule.sample_perfect_tile(chunk, 2, MOST_BLOCKS))
    places, few_places = schedule.split(place, schedule.sample_perfect_tile(place, 2, MOST_PLACES))
    outer = [image, row, chunks, places] if rows_first else [image, chunks, row, places]
    inner = [few_places, few_chunks, lane]
    if last is not block:
        schedule.reorder(*outer, *inner)
        schedule.compute_at(block, places, preserve_unit_loops=True)
        _finish(schedule, inner)
        chunk, _, place, lane = schedule.get_loops(block)[-_SPATIAL - reduced + 1 : -reduced]
        outer, inner = [], [place, chunk, lane]
    channel, *filter_loops = schedule.get_loops(block)[-reduced:]
    channels, own = schedule.split(channel, [None, lanes])
    some, unrolled = schedule.split(own, schedule.sample_perfect_tile(own, 2, MOST_UNROLLED))
    # Places before chunks: each number of the image is used at once by all chunks, and frees its register.
    schedule.reorder(*outer, channels, *filter_loops, some, unrolled, *inner)
    schedule.annotate(block, _TILED, "SRS")
    schedule.unroll(unrolled)
    _finish(schedule, inner, block)


def _tile_depthwise(schedule: Any, block: Any, last: Any, *, rows_first: bool) -> None:
    image, chunk, row, place, lane = schedule.get_loops(last)[:_SPATIAL]
    places, few_places = schedule.split(place, schedule.sample_perfect_tile(place, 2, MOST_PLACES))
    outer = [image, row, chunk, places] if rows_first else [image, chunk, row, places]
    inner = [few_places, lane]
    if last is not block:
        schedule.reorder(*outer, *inner)
        schedule.compute_at(block, places, preserve_unit_loops=True)
        _finish(schedule, inner)
        outer, inner = [], schedule.get_loops(block)[-4:-2]
    down, along = schedule.get_loops(block)[-2:]
    schedule.reorder(*outer, down, along, *inner)
    schedule.annotate(block, _TILED, "SRS")
    schedule.unroll(along)
    _finish(schedule, inner)


def _tile_product(schedule: Any, block: Any, last: Any, *, rows_first: bool) -> None:
    lanes = int(schedule.get(block).reads[1].source.shape[-1])
    *heads, row, column = schedule.get_loops(last)[: len(schedule.get(last).writes[0].source.shape)]
    chunk, lane = schedule.split(column, [None, lanes])
    chunks, few_chunks = schedule.split(chunk, schedule.sample_perfect_tile(chunk, 2, MOST_BLOCKS))
    places, few_rows = schedule.split(row, schedule.sample_perfect_tile(row, 2, MOST_PLACES))
    outer = [*heads, *([places, chunks] if rows_first else [chunks, places])]
    inner = [few_rows, few_chunks, lane]
    if last is not block:
        schedule.reorder(*outer, *inner)
        schedule.compute_at(block, outer[-1], preserve_unit_loops=True)
        _finish(schedule, inner)
        row, column = schedule.get_loops(block)[-3:-1]
        outer, inner = [], [row, *schedule.split(column, [None, lanes])]
    depth = schedule.get_loops(block)[-1]
    some, unrolled = schedule.split(depth, schedule.sample_perfect_tile(depth, 2, MOST_UNROLLED))
    schedule.reorder(*outer, some, unrolled, *inner)
    schedule.annotate(block, _TILED, "SRS")
    schedule.unroll(unrolled)
    _finish(schedule, inner, block)


def _tiled_norm(schedule: Any, block: Any) -> Any:
    """All blocks of a layer normalisation, row by row; unchanged if that is done already."""
    if _TILED in schedule.get(block).annotations or not _has(schedule, NORM):
        return schedule
    last = schedule.get_sblock(NORM)
    row, column = schedule.get_loops(last)
    lanes = int(schedule.get(schedule.get_sblock(_SUMS[-1])).writes[0].source.shape[-1])
    schedule.vectorize(schedule.split(column, [None, lanes])[1])
    schedule.annotate(last, _TILED, "SS")
    for name in _SUMS:
        summed = schedule.get_sblock(name)
        schedule.compute_at(summed, row, preserve_unit_loops=True)
        if name.endswith("_lanes"):
            _vectorize_lanes(schedule, summed)
        schedule.annotate(summed, _TILED, "SR")
    return schedule


def _vectorize_lanes(schedule: Any, block: Any) -> None:
    """Has all lanes of a sum or maximum add or compare at once, a vector of the row after the other."""
    lane, chunk = schedule.get_loops(block)[-2:]
    schedule.reorder(chunk, lane)
    schedule.vectorize(lane)


def _tiled_softmax(schedule: Any, block: Any) -> Any:
    """All blocks of a softmax, row by row; unchanged if that is done already, or it is another softmax."""
    if _TILED in schedule.get(block).annotations or not _has(schedule, SOFTMAX):
        return schedule
    schedule.compute_inline(schedule.get_sblock(_INLINED))
    last = schedule.get_sblock(SOFTMAX)
    *_, row, column = schedule.get_loops(last)
    lanes = int(schedule.get(schedule.get_sblock("top_lanes")).writes[0].source.shape[-1])
    for name in filter(partial(_has, schedule), _SOFTMAX_STEPS):
        step = schedule.get_sblock(name)
        schedule.compute_at(step, row, preserve_unit_loops=True)
        if name.endswith("_lanes"):
            _vectorize_lanes(schedule, step)
        elif name in _POWERS:
            schedule.vectorize(schedule.split(schedule.get_loops(step)[-1], [None, lanes])[1])
        schedule.annotate(step, _TILED, "SR")
        schedule.annotate(step, _INLINING, "disable")
    if int(schedule.get(column).extent) % lanes == 0:
        schedule.vectorize(schedule.split(column, [None, lanes])[1])
    schedule.annotate(last, _TILED, "SS")
    return schedule


def _finish(schedule: Any, inner: Sequence[Any], block: Any = None) -> None:
    """Unrolls loops; the last one becomes a vector, or an instruction that multiplies the block's pairs."""
    *unrolled, lane = inner
    for loop in unrolled:
        schedule.unroll(loop)
    name = schedule.get(block).name_hint if block is not None else ""
    intrinsic = PAIR_DOTS.get(int(schedule.get(lane).extent)) if name in (PAIR_CONVOLUTION, PAIR_PRODUCT) else None
    if intrinsic is None:
        schedule.vectorize(lane)
    else:
        schedule.annotate(schedule.blockize(lane), _INTRINSIC, intrinsic)


_TILERS = {
    CONVOLUTION: _tile_convolution,
    DEPTHWISE: _tile_depthwise,
    PRODUCT: _tile_product,
    PAIR_CONVOLUTION: _tile_convolution,
    PAIR_PRODUCT: _tile_product,
}
_MATRIX_TILERS = {
    PAIR_CONVOLUTION: matrix_tiles.tile_convolution,
    FLAT_CONVOLUTION: matrix_tiles.tile_convolution,
    PAIR_PRODUCT: matrix_tiles.tile_product,
}
