"""Provides TracePreview: what a replay of a trace will draw, and which decisions post-processing refuses.

Making a schedule takes milliseconds, and small design spaces yield most of their programs several times. The decisions
alone say which program a trace becomes, and whether its register tile is too large; drawing them takes a small part of
that.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from costhub.collector.propose.register_tiles import MOST_PLACES, RegisterTile, refused_above
from costhub.dataset.trace import CHOICE, LOCATION, POSTPROC, TILE, trace_parts

_ANNOTATE = "Annotate"
_BEYOND = 1 << 20
"""A loop that no program has."""
_SAMPLES = "Sample"
"""How the kinds of instructions with decisions begin."""
_FEW = 8
"""Lists of places to choose from that are found out before any of them is used again."""
_KEPT = 64
"""Different lists of open decisions for which a schedule that draws them is kept."""
_MOST_RECORDED = 512
"""Instructions that such a schedule records."""


@dataclass(frozen=True)
class _Open:
    """A decision that a trace leaves open."""

    kind: str
    attributes: tuple[Any, ...]
    """Of the instruction; for a place, the places to choose from."""
    extent: int = 1
    """Of the loop to tile."""

    def value(self, drawn: Any) -> Any:
        """The decision, from what a `_Drawing` has drawn."""
        if self.kind != LOCATION:
            return drawn
        turn = next(number for number, factor in enumerate(drawn) if int(factor) > 1)
        # Of two factors, TVM draws how large the first one is; of more, which of them gets the prime number.
        return self.attributes[turn if len(self.attributes) > 2 else 1 - turn]


class TracePreview:
    """Tells what replays of the traces of one design space will decide, and which are refused, without replaying them.

    Several threads may call `refuses` at once, but only one `decided`.

    Args:
        context: The ``ms.TuneContext`` of workload and target.
        sketches: The result of ``context.generate_design_space()``.
    """

    def __init__(self, context: Any, sketches: Sequence[Any]) -> None:
        # On GPUs, post-processing draws, too: equal traces become different programs.
        self._draws = Draws(sketches, context.mod) if context.target.kind.name == "llvm" else None
        self._refusals = Refusals(context.space_generator.postprocs or (), sketches)

    def decided(self, trace: Any, seed: int) -> tuple[Any, int | None]:
        """The trace with the decisions that it will have, and its `trace_key`.

        Args:
            trace: A ``Trace`` of one of the sketches, with or without some of its decisions.
            seed: That of the schedule to which it would be applied.

        Returns:
            Where only a replay can tell the decisions, the trace as it is, and None.
        """
        decided = None if self._draws is None else self._draws.decided(trace, seed)
        return (trace, None) if decided is None else (decided, trace_key(decided))

    def refuses(self, trace: Any) -> bool:
        """Whether post-processing refuses a ``Trace`` in any case; if decisions are open, that is not known."""
        return self._refusals.refuses(trace)


class Draws:
    """Draws the open decisions of traces as TVM does when it replays them.

    Args:
        sketches: The design space of a workload for a CPU; on GPUs, post-processing draws as well.
        mod: The workload; None if draws of places are left to replays.
    """

    def __init__(self, sketches: Sequence[Any], mod: Any = None) -> None:
        self._mod = mod
        self._places: dict[tuple[int, int, tuple[int, ...]], tuple[int, ...] | None] = {}
        """The list of instructions, which of them draws, and the decisions before it -> the places it draws from."""
        self._before: dict[tuple[int, Any], tuple[Sequence[Any], Sequence[Any]]] = {}
        """The list and an instruction of it -> those before it, and those of these on which its places depend."""
        self._repeated = 0
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
        fixed = dict(decisions.items())
        drawn: list[tuple[Any, _Open]] = []
        for instruction in left:
            found = self._open.get(instruction)
            if found is None:
                places = self._places_of(instruction, instructions, {**fixed, **self._made(drawn, seed)})
                if places is None:
                    return None
                if len(places) == 1:  # no random number is drawn for it
                    fixed[instruction] = places[0]
                    continue
                found = _Open(LOCATION, places, 2)
            drawn.append((instruction, found))
        return Trace(instructions, {**fixed, **self._made(drawn, seed)})

    def _made(self, drawn: Sequence[tuple[Any, _Open]], seed: int) -> dict[Any, Any]:
        """The decisions that instructions make, in the order in which a replay with this seed draws them."""
        values = self._drawn([found for _, found in drawn], seed) if drawn else []
        return {each: found.value(value) for (each, found), value in zip(drawn, values, strict=True)}

    def _places_of(self, instruction: Any, instructions: Any, decisions: Mapping[Any, Any]) -> tuple[int, ...] | None:
        """Where an instruction may compute a block, after these decisions; None if only a replay can tell."""
        handle = instructions.__chandle__()
        if self._mod is None or handle not in self._all_open or str(instruction.kind.name) != LOCATION:
            return None
        if (handle, instruction) not in self._before:
            before = instructions[: next(n for n, each in enumerate(instructions) if each.same_as(instruction))]
            self._before[handle, instruction] = before, [each for each in before if not _only_annotates(each, before)]
        before, shaping = self._before[handle, instruction]
        own = tuple(number for each in shaping if each in decisions for number in _numbers(decisions[each]))
        key = (handle, len(before), own)
        if key in self._places:
            self._repeated += 1
        elif len(self._places) < _FEW + self._repeated / 4:  # finding them out takes longer than a replay
            self._places[key] = _all_places(self._mod, [*before, instruction], decisions)
        else:
            return None
        return self._places[key]

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
            if each.kind == LOCATION:
                # A loop of two rounds has one factor to place, in as many ways as there are places.
                self._schedule.sample_perfect_tile(loop, len(each.attributes), each.extent)
            elif each.kind == TILE:
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


def _only_annotates(instruction: Any, others: Sequence[Any]) -> bool:
    """Whether others use what an instruction samples in annotations alone, which change neither loops nor blocks."""
    is_used = False
    for other in others:
        if any(
            value.same_as(made) for value in other.inputs if hasattr(value, "same_as") for made in instruction.outputs
        ):
            if str(other.kind.name) != _ANNOTATE:
                return False
            is_used = True
    return is_used


def _numbers(decision: Any) -> list[int]:
    return [int(each) for each in decision] if hasattr(decision, "__len__") else [int(decision)]


def _all_places(mod: Any, instructions: Sequence[Any], decisions: Mapping[Any, Any]) -> tuple[int, ...] | None:
    """The decisions that the last of some instructions may make, in TVM's order; None if TVM cannot replay them."""
    import tvm

    schedule = tvm.s_tir.Schedule(mod, seed=1, error_render_level="none")
    own = {each: decisions[each] for each in instructions[:-1] if each in decisions}
    try:
        trace = tvm.s_tir.schedule.Trace(instructions, {**own, instructions[-1]: _BEYOND})
        trace.apply_to_schedule(schedule, remove_postproc=False)
        (block,) = schedule.trace.insts[-1].inputs
        # Asked for a place that does not exist, TVM takes the last one before it, or the root if there is none.
        places: list[int] = []
        while True:
            place = int(schedule.trace.decisions[schedule.trace.insts[-1]])
            if places and place >= places[0]:
                return tuple(places)
            places.insert(0, place)
            schedule.sample_compute_location(block, decision=place - 1)
    except (tvm.s_tir.ScheduleError, tvm.error.InternalError):
        return None


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
