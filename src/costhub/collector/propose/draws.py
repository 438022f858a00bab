"""Provides Draws: what a replay of a trace will draw, so that a program drawn before need not be made again.

Making a schedule takes milliseconds, and small design spaces yield most of their programs several times. The decisions
alone say which program a trace becomes, and drawing them takes a small part of that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from costhub.dataset.trace import CHOICE, POSTPROC, TILE, trace_parts

_SAMPLES = "Sample"
"""How the kinds of instructions with decisions begin."""
_KEPT = 64
"""Different lists of open decisions for which the place of the draws is kept."""


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
        self._mods: dict[tuple[int, ...], Any] = {}
        for sketch in sketches:
            for instruction, decision in sketch.trace.decisions.items():
                found = _open_decision(instruction, decision)
                if found is not None:
                    self._open[instruction] = found

    def decided(self, trace: Any, seed: int) -> Any:
        """The trace with all of its decisions; None if only a replay can tell them.

        Args:
            trace: A ``Trace`` of one of the sketches, with or without some of its decisions.
            seed: That of the schedule to which it would be applied.
        """
        from tvm.s_tir.schedule import Trace

        decisions, left = trace.decisions, []
        for instruction in trace.insts:
            name = str(instruction.kind.name)
            if name == POSTPROC:
                break
            if name.startswith(_SAMPLES) and instruction not in decisions:
                left.append(instruction)
        if not left:
            return trace
        if not all(instruction in self._open for instruction in left):
            return None
        drawn = self._drawn([self._open[instruction] for instruction in left], seed)
        return Trace(trace.insts, {**dict(decisions.items()), **dict(zip(left, drawn, strict=True))})

    def _drawn(self, wanted: Sequence[_Open], seed: int) -> list[Any]:
        """Decisions in the order in which a replay draws them, from a program that has nothing but the loops."""
        import tvm

        schedule = tvm.s_tir.Schedule(self._mod(tuple(each.extent for each in wanted)), seed=seed)
        loops = schedule.get_loops(schedule.get_sblock(_NAME))
        before = len(schedule.trace.insts)
        for loop, each in zip(loops, wanted, strict=True):
            if each.kind == TILE:
                schedule.sample_perfect_tile(loop, *each.attributes)
            else:
                schedule.sample_categorical(*each.attributes)
        decisions = schedule.trace.decisions
        return [decisions[instruction] for instruction in list(schedule.trace.insts)[before:]]

    def _mod(self, extents: tuple[int, ...]) -> Any:
        if extents not in self._mods:
            if len(self._mods) == _KEPT:
                self._mods.clear()
            self._mods[extents] = _loops(extents)
        return self._mods[extents]


def trace_key(trace: Any) -> int:
    """Equal for traces that are equal up to post-processing, whatever their objects."""
    import tvm_ffi

    return int(tvm_ffi.structural_hash(trace_parts(trace, postproc=False)))


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
        return _Open(kind, ([int(each) for each in candidates], [float(each) for each in chances]))
    return None


_NAME = "loops"


def _loops(extents: Sequence[int]) -> Any:
    """A module of one block within loops of these extents."""
    import tvm
    from tvm import te

    read = te.placeholder(extents, name="read")
    made = te.compute(extents, lambda *places: read[places], name=_NAME)
    return tvm.IRModule({"main": te.create_prim_func([read, made])})
