"""Provides Draws and Refusals: what a replay of a trace will draw, and which decisions post-processing refuses.

Making a schedule takes milliseconds, and small design spaces yield most of their programs several times. The decisions
alone say which program a trace becomes, and whether its register tile is too large; drawing them takes a small part of
that.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from costhub.collector.propose.register_tiles import MOST_PLACES, RegisterTile, refused_above
from costhub.dataset.trace import CHOICE, POSTPROC, TILE, trace_parts

_SAMPLES = "Sample"
"""How the kinds of instructions with decisions begin."""
_KEPT = 64
"""Different lists of open decisions for which a schedule that draws them is kept."""
_MOST_RECORDED = 4096
"""Instructions that such a schedule records."""


@dataclass(frozen=True)
class _Open:
    """A decision that a trace leaves open."""

    kind: str
    attributes: tuple[Any, ...]
    extent: int = 1
    """Of the loop to tile."""


class Draws:
    """Draws the open decisions of traces as TVM does when it replays them.

    Args:
        sketches: The design space of a workload for a CPU; on GPUs, post-processing draws as well.
    """

    def __init__(self, sketches: Sequence[Any]) -> None:
        self._open: dict[Any, _Open] = {}
        self._drawing: dict[tuple[_Open, ...], _Drawing] = {}
        for sketch in sketches:
            for instruction, decision in sketch.trace.decisions.items():
                found = _open_decision(instruction, decision)
                if found is not None:
                    self._open[instruction] = found
        # Traces without decisions have the very list of their sketch.
        lists = [sketch.trace.insts for sketch in sketches]
        self._all_open = {each.__chandle__(): (each, _left(each, {})) for each in lists}

    def decided(self, trace: Any, seed: int) -> Any:
        """The trace with all of its decisions; None if only a replay can tell them.

        Args:
            trace: A ``Trace`` of one of the sketches, with or without some of its decisions.
            seed: That of the schedule to which it would be applied.
        """
        from tvm.s_tir.schedule import Trace

        decisions, instructions = trace.decisions, trace.insts
        _, left = self._all_open.get(instructions.__chandle__(), (None, None)) if not decisions else (None, None)
        if left is None:
            left = _left(instructions, decisions)
        if not left:
            return trace
        if not all(instruction in self._open for instruction in left):
            return None
        drawn = self._drawn([self._open[instruction] for instruction in left], seed)
        return Trace(instructions, {**dict(decisions.items()), **dict(zip(left, drawn, strict=True))})

    def _drawn(self, wanted: Sequence[_Open], seed: int) -> list[Any]:
        """Decisions in the order in which a replay draws them, from a program that has nothing but the loops."""
        key = tuple(wanted)
        drawing = self._drawing.get(key)
        if drawing is None or drawing.is_full:
            if len(self._drawing) == _KEPT:
                self._drawing.clear()
            drawing = self._drawing[key] = _Drawing(wanted)
        return drawing.drawn(seed)


class _Drawing:
    """Draws a list of open decisions in one call of TVM, in a schedule that is seeded anew instead of made anew."""

    def __init__(self, wanted: Sequence[_Open]) -> None:
        import tvm

        self._count = len(wanted)
        self._schedule = tvm.s_tir.Schedule(_loops([each.extent for each in wanted]), seed=1)
        loops = self._schedule.get_loops(self._schedule.get_sblock(_NAME))
        for loop, each in zip(loops, wanted, strict=True):
            if each.kind == TILE:
                self._schedule.sample_perfect_tile(loop, *each.attributes)
            else:
                self._schedule.sample_categorical(*map(list, each.attributes))
        self._bare = tvm.s_tir.schedule.Trace(self._schedule.trace.insts, {})

    @property
    def is_full(self) -> bool:
        """Whether the schedule has recorded so many draws that another one should take its place."""
        return len(self._schedule.trace.insts) > _MOST_RECORDED

    def drawn(self, seed: int) -> list[Any]:
        """The decisions that a schedule with this seed draws first."""
        self._schedule.seed(seed)
        self._bare.apply_to_schedule(self._schedule, remove_postproc=False)
        decisions, instructions = self._schedule.trace.decisions, self._schedule.trace.insts
        end = len(instructions)
        return [decisions[instructions[place]] for place in range(end - self._count, end)]


class Refusals:
    """Tells from the decisions alone which traces the first step of post-processing refuses.

    Args:
        steps: The steps of post-processing of a design space, ``ms.postproc.Postproc``.
        sketches: The sketches of the design space.
    """

    def __init__(self, steps: Sequence[Any], sketches: Sequence[Any]) -> None:
        self._most = refused_above(steps)
        self._extents = set()
        if self._most is not None:
            self._extents = {_extents(_tile_splits(sketch.trace)) for sketch in sketches}

    def refuses(self, trace: Any) -> bool:
        """Whether post-processing refuses a ``Trace`` in any case; if decisions are open, that is not known."""
        if self._most is None:
            return False
        splits = _tile_splits(trace)
        tile = RegisterTile.of_splits(splits)
        # A replay corrects factors that are not those of the loop, as in a trace of another workload.
        return tile is not None and not tile.fits(self._most) and _extents(splits) in self._extents


_Splits: TypeAlias = list[tuple[int, list[int]]]


def _tile_splits(trace: Any) -> _Splits:
    """The splits of a trace up to that of places, as `RegisterTile.of_splits` takes them; none if one is open."""
    decisions, splits = trace.decisions, []
    for instruction in trace.insts:
        if instruction.kind.name == TILE:
            factors = decisions.get(instruction)
            if factors is None:
                return []
            splits.append((int(instruction.attrs[1]), [int(factor) for factor in factors]))
            if splits[-1][0] == MOST_PLACES:
                return splits
    return []


def _extents(splits: _Splits) -> tuple[int, ...]:
    return tuple(math.prod(factors) for _, factors in splits)


def trace_key(trace: Any) -> int:
    """Equal for traces that are equal up to post-processing, whatever their objects."""
    import tvm_ffi

    return int(tvm_ffi.structural_hash(trace_parts(trace, postproc=False)))


def _left(instructions: Sequence[Any], decisions: Container[Any]) -> list[Any]:
    """The instructions that sample before post-processing and are not decided."""
    left = []
    for instruction in instructions:
        name = str(instruction.kind.name)
        if name == POSTPROC:
            break
        if name.startswith(_SAMPLES) and instruction not in decisions:
            left.append(instruction)
    return left


def _open_decision(instruction: Any, decision: Any) -> _Open | None:
    """What an instruction of a sketch decides; None if a replay alone can draw it.

    Tiles and choices depend on nothing but their attributes, the extent of a loop, and the seed.
    """
    kind = str(instruction.kind.name)
    if kind == TILE:
        extent = math.prod(int(factor) for factor in decision)
        attributes = tuple(int(each) for each in instruction.attrs)
        return _Open(kind, attributes, extent) if extent > 0 else None
    if kind == CHOICE:
        candidates, chances = instruction.attrs
        return _Open(kind, (tuple(int(each) for each in candidates), tuple(float(each) for each in chances)))
    return None


_NAME = "loops"


def _loops(extents: Sequence[int]) -> Any:
    """A module of one block within loops of these extents."""
    import tvm
    from tvm import te

    read = te.placeholder(extents, name="read")
    made = te.compute(extents, lambda *places: read[places], name=_NAME)
    return tvm.IRModule({"main": te.create_prim_func([read, made])})
