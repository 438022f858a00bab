"""Provides TraceDecisions and carried_traces: the decisions of a schedule, carried over to another workload's sketches.

Only decisions travel, as numbers: the instructions are always those of TVM's own design space for the new workload. So
no part of a stranger's trace is ever replayed, and any resulting program is one that a search could find.

*Reusing Auto-Schedules for Efficient DNN Compilation* (Gibson and Cano, 2022), *transfer-tuning*, applies the schedules
of one kernel to others of its class, with the tile sizes as they are; here they are rescaled to factors that divide.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from costhub.dataset.trace import (
    CHOICE,
    LOCATION,
    TILE,
    before_postproc,
    decision_pairs,
    plain,
    read_trace,
    trace_parts,
)
from costhub.search.knobs import INLINED, without_size

_BLOCK = "GetSBlock"
"""The instruction that names a block; blocks of equal workloads may have different names."""
_PARALLEL = "meta_schedule.parallel"
_MOST_LOOPS = 1024
"""The last place of a block among the loops around it; the first is `INLINED`."""
_MOST_EXTENT = 1 << 31
"""Of a loop that TVM tiles, and of a number in an annotation, which is multiplied by cores and has 64 bits."""


@dataclass(frozen=True)
class TraceDecisions:
    """What a trace decided, by the kind of decision, each in the order of the trace."""

    structure: str
    """64 hex digits that are equal for traces of one sketch, whatever was decided and whatever blocks are called."""
    tiles: tuple[tuple[int, tuple[int, ...]], ...]
    """Place and factors of each tile."""
    limits: tuple[int, ...]
    """The largest innermost factor of each tile; 0 or less allows any."""
    choices: tuple[tuple[int, int], ...]
    """Place and index of each choice among alternatives."""
    alternatives: tuple[str, ...]
    """The alternatives of each choice, as JSON."""
    locations: tuple[tuple[int, int], ...]
    """Place and loop of each compute location."""
    sizes: tuple[tuple[int, int], ...]
    """Place and number of each annotation with a number, such as the maximum of parallel tasks."""

    @classmethod
    def read(cls, trace_json: str) -> TraceDecisions | None:
        """The decisions in a trace in the form of the column `trace`; None for a text that is not a trace."""
        trace = read_trace(trace_json)
        return None if trace is None else cls.of(*trace)

    @classmethod
    def of(cls, instructions: Sequence[Any], decisions: Sequence[Any]) -> TraceDecisions | None:
        """The decisions of a trace in plain lists; None if one of them is not a decision that TVM makes.

        Args:
            instructions: Kind, arguments, attributes and results of each, as JSON has them.
            decisions: Pairs of the number of an instruction and its decision.
        """
        try:
            return cls._of(list(instructions[: before_postproc(instructions)]), decisions)
        except (TypeError, ValueError, LookupError):  # a stranger's trace, in which anything may be anywhere
            return None

    @classmethod
    def _of(cls, first: list[Any], decisions: Sequence[Any]) -> TraceDecisions | None:
        decided = dict(decision_pairs(decisions))
        tiles, limits, choices, alternatives, locations, sizes = [], [], [], [], [], []
        for place, (kind, _, attributes, _) in enumerate(first):
            value: Any = decided.get(place)
            if kind == TILE and _is_tile(value, attributes):
                tiles.append((place, tuple(value)))
                limits.append(attributes[1])
            elif kind == CHOICE and _is_whole(value) and 0 <= value < len(attributes[0]):
                choices.append((place, value))
                alternatives.append(json.dumps(attributes[0]))
            elif kind == LOCATION and _is_whole(value) and INLINED <= value < _MOST_LOOPS:
                locations.append((place, value))
            elif kind in (TILE, CHOICE, LOCATION):
                return None
            bare, size = without_size(first[place])
            if size is not None:
                if not 0 <= size < _MOST_EXTENT:
                    return None
                sizes.append((place, size))
            first[place] = [kind, [], [], bare[3]] if kind == _BLOCK else bare
        structure = hashlib.sha256(json.dumps(first, separators=(",", ":")).encode()).hexdigest()
        return cls(structure, *map(tuple, (tiles, limits, choices, alternatives, locations, sizes)))

    @property
    def extents(self) -> tuple[int, ...]:
        """The extents of the tiled loops."""
        return tuple(math.prod(factors) for _, factors in self.tiles)

    def fits(self, other: TraceDecisions) -> bool:
        """Whether both tile equally many loops into equally many levels; otherwise tiles cannot be carried over."""
        return bool(self.tiles) and [len(f) for _, f in self.tiles] == [len(f) for _, f in other.tiles]

    def distance(self, other: TraceDecisions) -> float:
        """How far apart the extents of the tiled loops are, as a sum of doublings; infinite unless `fits`."""
        if not self.fits(other):
            return math.inf
        return sum(abs(math.log2(a / b)) for a, b in zip(self.extents, other.extents, strict=True))


def _is_whole(value: Any) -> bool:
    return type(value) is int


def _is_tile(value: Any, attributes: Any) -> bool:
    return (
        isinstance(value, list)
        and all(_is_whole(factor) and 0 < factor < _MOST_EXTENT for factor in value)
        and len(attributes) == 2
        and all(map(_is_whole, attributes))
        and len(value) == attributes[0]
    )


class SketchTraces:
    """The sketches of a workload's design space, which take decisions of other workloads.

    Args:
        sketches: What ``context.generate_design_space()`` returned.
        cores: How many cores the target has.
    """

    def __init__(self, sketches: Sequence[Any], cores: int) -> None:
        self._cores = cores
        self._sketches: list[tuple[Any, TraceDecisions]] = []
        for sketch in sketches:
            decisions = TraceDecisions.of(*plain(trace_parts(sketch.trace, postproc=False)))
            if decisions is not None:
                self._sketches.append((sketch.trace, decisions))

    def distance(self, known: TraceDecisions) -> float:
        """How far a known schedule is from this workload, in doublings of extents; infinite if nothing fits."""
        return min((own.distance(known) for _, own in self._sketches), default=math.inf)

    def knows(self, known: TraceDecisions) -> bool:
        """Whether a schedule is one of these sketches at these extents, so that all of its decisions hold unchanged."""
        return any(self._is_same(own, known) for _, own in self._sketches)

    def unchanged(self, known: TraceDecisions, cores: int) -> list[Any]:
        """The ``Trace`` with just these decisions; none if the schedule is not of these sketches and extents.

        Args:
            known: Decisions of a schedule of an equal workload.
            cores: Cores of the device that the schedule is for.
        """
        return [
            self._trace(trace, own, known, cores, known.tiles)
            for trace, own in self._sketches
            if self._is_same(own, known)
        ]

    def carried(self, known: TraceDecisions, cores: int) -> list[Any]:
        """Traces of this workload with decisions like those of another; none if nothing carries over.

        If the extents of the loops differ, there are two: in one, the outermost tiles absorb the difference, and the
        inner ones, which registers and caches limit, stay; in the other, all tiles except vectors share it.

        Args:
            known: Decisions of a schedule of another workload.
            cores: Cores of the device that the schedule is for.
        """
        like = [pair for pair in self._sketches if pair[1].structure == known.structure and pair[1].fits(known)]
        fitting = like or [pair for pair in self._sketches if pair[1].fits(known)]
        return [trace for trace, own in fitting for trace in self._rescaled(trace, own, known, cores)]

    def _is_same(self, own: TraceDecisions, known: TraceDecisions) -> bool:
        return own.structure == known.structure and own.fits(known) and own.extents == known.extents

    def _rescaled(self, trace: Any, own: TraceDecisions, known: TraceDecisions, cores: int) -> Iterator[Any]:
        tried = set()
        for shared in (False, True):
            tiles = tuple(
                (place, rescaled(factors, extent, innermost=limit, shared=shared))
                for (place, _), (_, factors), extent, limit in zip(
                    own.tiles, known.tiles, own.extents, own.limits, strict=True
                )
            )
            if tiles not in tried:
                tried.add(tiles)
                yield self._trace(trace, own, known, cores, tiles)

    def _trace(
        self,
        trace: Any,
        own: TraceDecisions,
        known: TraceDecisions,
        cores: int,
        tiles: Sequence[tuple[int, tuple[int, ...]]],
    ) -> Any:
        """The ``Trace``; what does not carry over is left open, and drawn when it is replayed."""
        from tvm.s_tir.schedule import Instruction, Trace

        instructions = list(trace.insts)
        decisions: dict[int, Any] = {
            place: list(factors) for (place, _), (_, factors) in zip(own.tiles, tiles, strict=True)
        }
        for mine, theirs, alike in (
            (own.choices, known.choices, own.alternatives == known.alternatives),
            (own.locations, known.locations, len(own.locations) == len(known.locations)),
        ):
            if alike:
                decisions.update({place: value for (place, _), (_, value) in zip(mine, theirs, strict=True)})
        if own.structure == known.structure:
            for (place, _), (_, size) in zip(own.sizes, known.sizes, strict=True):
                old = instructions[place]
                # TVM takes 16 tasks per core; fewer were chosen for a reason that has to do with the program.
                is_parallel = str(old.attrs[0]) == _PARALLEL
                scaled = max(1, size * self._cores // cores) if is_parallel else size
                instructions[place] = Instruction(old.kind, [old.inputs[0], scaled], old.attrs, old.outputs)
        return Trace(instructions, {instructions[place]: value for place, value in decisions.items()})


def rescaled(factors: Sequence[int], extent: int, *, innermost: int = 0, shared: bool = False) -> tuple[int, ...]:
    """Factors of `extent` that are like those of another extent.

    From the innermost level outwards, each level takes the divisor of what is left that is nearest to its old factor,
    so a vector keeps its length if that divides; the outermost level takes the rest.

    Args:
        factors: From the outermost level to the innermost.
        extent: Their new product.
        innermost: The largest innermost factor that is allowed; 0 or less allows any.
        shared: Whether all levels but the innermost grow alike, instead of only the outermost.

    Example:
        >>> rescaled([4, 4, 1, 16], 512), rescaled([4, 4, 1, 16], 1024, shared=True), rescaled([7, 1, 2, 16], 56)
        ((8, 4, 1, 16), (4, 8, 2, 16), (2, 1, 2, 14))
    """
    old = math.prod(factors)
    if old == extent and not 0 < innermost < factors[-1]:
        return tuple(factors)
    grown = (extent / old) ** (1 / max(1, len(factors) - 1)) if shared else 1.0
    found: list[int] = []
    left = extent
    for level in range(len(factors) - 1, 0, -1):
        is_innermost = level == len(factors) - 1
        wanted = factors[level] * (1.0 if is_innermost else grown)
        most = innermost if is_innermost and innermost > 0 else left
        # If two are equally near, the larger one, which keeps more of the old size.
        size = min(_divisors(left, most), key=lambda d: (abs(math.log2(d / wanted)), -d))
        found.append(size)
        left //= size
    return (left, *reversed(found))


def _divisors(number: int, most: int) -> list[int]:
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return [d for d in sorted({*small, *(number // d for d in small)}) if d <= most]
