"""Provides prefetch_weights: kernels of a network that fetch the weights of their next tile while they compute one.

A network reads each weight once per call, and most networks have more weights than the caches hold. A kernel then waits
for memory whenever it comes to other columns of weights: processors fetch ahead within a page of memory, and not across
(Goto and van de Geijn 2008, "Anatomy of high-performance matrix multiplication", section 4.2). A search does not see
this, since it runs a kernel many times in succession, and the weights stay in a cache.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from costhub.collector.propose.register_tiles import PRODUCT, vector_registers
from costhub.search.whole_network.default_schedules import SCHEDULED, is_gpu, with_functions

_SUMS = f"{PRODUCT}_update"
"""The block that adds to the sums of a tile, as TVM names it. Convolutions gained nothing."""
_LINE_BYTES = 64
_MOST_STEPS = 16
"""Steps per line of weights. Where a tile of weights serves more of them, fetching it takes little of the time."""
# As if it touched no memory that the program can see: otherwise LLVM would store all sums before each of them.
_FETCH = """
declare void @llvm.prefetch.p0(ptr, i32, i32, i32)
define internal i32 @costhub_prefetch(ptr %place) alwaysinline nounwind {
  call void @llvm.prefetch.p0(ptr %place, i32 0, i32 2, i32 1) memory(inaccessiblemem: readwrite)
  ret i32 0
}
"""
"""Fetches a line for reading into the second cache and those behind it."""


def prefetch_weights(mod: Any, target: Any) -> tuple[Any, int]:
    """Makes scheduled dense layers for CPUs fetch the weights of their next tile.

    The program computes the same as before. Kernels that finish a tile of weights at once, or use it for long, stay as
    they are, and so do convolutions and tiles that fill the registers.

    Args:
        mod: A module of relax functions and kernels.
        target: A ``tvm.target.Target``.

    Returns:
        The module, and how many kernels were changed.
    """
    from tvm import relax

    if is_gpu(target):
        return mod, 0
    registers, changed = vector_registers(target), {}
    for name, function in mod.functions.items():
        if not isinstance(function, relax.Function) and SCHEDULED in (function.attrs or {}):
            fetching = _with_prefetch(function, registers)
            if fetching is not None:
                changed[name] = fetching
    return with_functions(mod, changed), len(changed)


def _with_prefetch(function: Any, registers: int) -> Any:
    """A kernel that fetches its weights; None if there is nothing to gain, or it is none of these kernels."""
    from tvm import tirx

    found = _find_sums(function.body)
    fetched = None if found is None else _next_tile(*found, registers)
    if fetched is None:
        return None
    inner = fetched.loop
    body = tirx.SeqStmt([*fetched.statements(), inner.body])
    fetching = tirx.For(
        inner.loop_var, inner.min, inner.extent, inner.kind, body, inner.thread_binding, inner.annotations
    )
    return function.with_body(_replaced(function.body, inner, fetching))


def _find_sums(statement: Any, loops: tuple[Any, ...] = ()) -> tuple[tuple[Any, ...], Any] | None:
    """The loops around the block that adds to the sums, the outermost first, and the block with its indices."""
    from tvm import tirx
    from tvm.s_tir import SBlockRealize

    if isinstance(statement, tirx.For):
        return _find_sums(statement.body, (*loops, statement))
    if isinstance(statement, tirx.SeqStmt):
        return next((found for each in statement.seq if (found := _find_sums(each, loops)) is not None), None)
    if not isinstance(statement, SBlockRealize):
        return None
    if statement.block.name_hint == _SUMS:
        return loops, statement
    # Inside another block than the root, indices are those of that block: no rule of TVM or costhub puts sums there.
    return None if statement.block.iter_vars else _find_sums(statement.block.body, loops)


@dataclass(frozen=True)
class _NextTile:
    """The weights of the tile after the present one, and how to fetch them step by step."""

    loop: Any
    """The innermost loop that is neither unrolled nor a vector: each of its rounds is a step."""
    weights: Any
    """Their buffer, in which the weights of a tile follow one another."""
    start: Any
    """The next tile's first index of the first axis."""
    step: Any
    """The number of the step within the present tile of weights."""
    steps: int
    lines: int
    """Lines of the cache that a tile of weights takes."""

    def statements(self) -> list[Any]:
        """Those that fetch the lines of a step."""
        from tvm import DataType, tirx

        first = tirx.floordiv(self.step * self.lines, self.steps)
        lines = [first + number for number in range(-(-self.lines // self.steps))]
        size = _LINE_BYTES * 8 // DataType(self.weights.dtype).bits
        zeros = [0] * (len(self.weights.shape) - 2)
        places = [tirx.BufferLoad(self.weights, [self.start, *zeros, line * size]) for line in lines]
        calls = [tirx.call_extern("int32", "costhub_prefetch", tirx.address_of(place)) for place in places]
        return [tirx.AttrStmt(tirx.IntImm("int32", 0), "pragma_import_llvm", _FETCH, tirx.Evaluate(c)) for c in calls]


def _next_tile(loops: Sequence[Any], sums: Any, registers: int) -> _NextTile | None:
    """What to fetch during the steps of a kernel; None if nothing is worth it."""
    from tvm import DataType
    from tvm.tirx import ForKind

    stepping = [loop for loop in loops if loop.kind in (ForKind.SERIAL, ForKind.PARALLEL)]
    read = max(sums.block.reads, key=lambda read: len(read.source.shape))
    axes = [
        _Axis.of(axis, value, loops, read) for axis, value in zip(sums.block.iter_vars, sums.iter_values, strict=True)
    ]
    tile, tiles = _numbered([axis for axis in axes if not axis.is_summed and not axis.is_of_weights])
    part, parts = _numbered([axis for axis in axes if axis.is_summed])
    first = read.region[0].min
    start = _at(first, [(axis.var, axis.value) for axis in axes])
    blocks = int(_at(first, [(axis.var, axis.own - 1) for axis in axes])) + 1
    numbers = blocks * math.prod(int(extent) for extent in read.source.shape[1:])
    lines = numbers * DataType(read.source.dtype).bits // 8 // _LINE_BYTES
    steps = tiles * parts
    vectors = math.prod(axis.own for axis in axes if not axis.is_summed) // int(read.source.shape[-1])
    if tiles == 1 or parts == 1 or not lines or steps > _MOST_STEPS * lines:
        return None
    # Sums, weights, and the number that they are multiplied by: in a fuller loop, LLVM stores sums at every step.
    if vectors + blocks + 1 > registers:
        return None
    # The loop whose next round is another tile of the outputs: the weights must stay.
    spatial = [axis.value for axis in axes if not axis.is_summed]
    next_tile = next((loop for loop in reversed(stepping) if _moves(loop, spatial, loops)), None)
    if next_tile is None or _moves(next_tile, [start], loops):
        return None
    return _NextTile(stepping[-1], read.source, start + blocks, tile * parts + part, steps, lines)


@dataclass(frozen=True)
class _Axis:
    """An axis of the block of sums."""

    var: Any
    extent: int
    value: Any
    """Its first index in the present tile."""
    own: int
    """How many indices a tile has."""
    is_summed: bool
    is_of_weights: bool
    """Whether other weights belong to other indices."""

    @classmethod
    def of(cls, axis: Any, index: Any, loops: Sequence[Any], read: Any) -> _Axis:
        """Describes an axis.

        Args:
            axis: The axis.
            index: Its index, of the loops' variables.
            loops: The loops around the block.
            read: The weights that the block reads.
        """
        from tvm.tirx import ForKind, IterVar
        from tvm_ffi import structural_equal

        inner = [loop for loop in loops if loop.kind in (ForKind.UNROLLED, ForKind.VECTORIZED)]
        outer = [(loop.loop_var, 0) for loop in loops if loop.kind not in (ForKind.UNROLLED, ForKind.VECTORIZED)]
        extent = int(axis.dom.extent)
        own = int(_at(index, [*outer, *((loop.loop_var, int(loop.extent) - 1) for loop in inner)])) + 1
        ends = ([_at(each.min, [(axis.var, number)]) for each in read.region] for number in (0, extent - 1))
        moved = not all(structural_equal(one, other) for one, other in zip(*ends, strict=True))
        value = _at(index, [(loop.loop_var, 0) for loop in inner])
        return cls(axis.var, extent, value, own, axis.iter_type == IterVar.CommReduce, moved)


def _numbered(axes: Sequence[_Axis]) -> tuple[Any, int]:
    """The number of the present tile along some axes, and how many tiles there are."""
    number, count = 0, 1
    for axis in axes:
        tiles = -(-axis.extent // axis.own)
        number, count = number * tiles + axis.value // axis.own, count * tiles
    return number, count


def _at(expression: Any, values: Sequence[tuple[Any, Any]]) -> Any:
    """An expression with values for some of its variables."""
    from tvm import tirx
    from tvm.sym import Analyzer

    analyzer = Analyzer()
    for variable, value in values:
        analyzer.bind(variable, tirx.IntImm(variable.ty.dtype, value) if isinstance(value, int) else value)
    return analyzer.simplify(expression)


def _moves(loop: Any, indices: Sequence[Any], loops: Sequence[Any]) -> bool:
    """Whether the first two rounds of a loop have different indices."""
    if int(loop.extent) == 1:
        return False
    others = [(each.loop_var, 0) for each in loops if not each.same_as(loop)]
    rounds = [[int(_at(index, [*others, (loop.loop_var, number)])) for index in indices] for number in (0, 1)]
    return rounds[0] != rounds[1]


def _replaced(statement: Any, old: Any, new: Any) -> Any:
    """A statement with another in the place of one of its loops."""
    from tvm import tirx
    from tvm.s_tir import SBlock, SBlockRealize

    if statement.same_as(old):
        return new
    if isinstance(statement, tirx.For):
        body = _replaced(statement.body, old, new)
        return tirx.For(
            *(statement.loop_var, statement.min, statement.extent, statement.kind, body),
            statement.thread_binding,
            statement.annotations,
        )
    if isinstance(statement, tirx.SeqStmt):
        return tirx.SeqStmt([_replaced(each, old, new) for each in statement.seq])
    if not isinstance(statement, SBlockRealize):
        return statement
    block = statement.block
    body = _replaced(block.body, old, new)
    kept = (block.init, block.alloc_buffers, block.match_buffers, block.annotations)
    inner = SBlock(block.iter_vars, block.reads, block.writes, block.name_hint, body, *kept)
    return SBlockRealize(statement.iter_values, statement.predicate, inner)
