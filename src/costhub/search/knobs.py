"""Provides Knobs: the decisions of a schedule, read from its trace, and turned one step up or down."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from costhub.dataset.programs import FloatArray, IntArray
from costhub.dataset.trace import CHOICE, LOCATION, POSTPROC, TILE, before_postproc, decision_pairs, read_trace
from costhub.errors import DataError
from costhub.models.protocol import Scores

Decision = int | tuple[int, ...]
"""A choice among alternatives, or sizes: the factors of a tile."""
_MAX_SIZE = 1 << 62


@dataclass(frozen=True)
class Knobs:
    """The decisions of a schedule; two programs of a workload are the same if their knobs are.

    The programs of a workload come from several sketches: lists of instructions that differ in more than
    their decisions. The third decision of one sketch has nothing to do with the third of another, so a knob
    belongs to a place in a sketch. Post-processing is left out, since it follows from the rest.

    Example:
        >>> Knobs.read('[[["SamplePerfectTile",["l1"],[2,64],["v2","v3"]]],[[0,[8,16]]]]').decisions
        ((0, (8, 16)),)
    """

    sketch: str
    """64 hex digits that name the instructions without their decisions."""
    decisions: tuple[tuple[int, Decision], ...]
    """Number of the instruction and its decision, in the order of the trace."""

    @classmethod
    def read(cls, trace_json: str) -> Knobs:
        """The knobs of a trace in the form of the column `trace`.

        Raises:
            DataError: The text is not a trace, or a decision is neither a number nor a list of numbers.
        """
        trace = read_trace(trace_json)
        if trace is None:
            raise DataError(
                f"A trace is a JSON pair of instructions and decisions, got {trace_json[:40]!r}; leave the program out."
            )
        return cls.of(*trace)

    @classmethod
    def of(cls, instructions: Sequence[Any], decisions: Sequence[Any]) -> Knobs:
        """The knobs of a trace in plain lists.

        Args:
            instructions: Kind, arguments, attributes and results of each, as JSON has them.
            decisions: Pairs of the number of an instruction and its decision.

        Raises:
            DataError: As for `read`.
        """
        first = list(instructions[: before_postproc(instructions)])
        decided = {place: _decision(value) for place, value in decision_pairs(decisions) if place >= 0}
        for place, instruction in enumerate(first):
            first[place], size = without_size(instruction)
            if size is not None:
                decided[place] = (size,)
        sketch = hashlib.sha256(json.dumps(first, separators=(",", ":")).encode()).hexdigest()
        return cls(sketch, tuple(sorted((p, decided[p]) for p in decided if p < len(first))))

    @property
    def components(self) -> frozenset[tuple[str, int, Decision]]:
        """Sketch, place and decision of each knob: the parts that two programs may have in common."""
        return frozenset((self.sketch, place, decision) for place, decision in self.decisions)


def coordinates(programs: Sequence[Knobs]) -> Scores:
    """Programs as points, which are close to one another if their schedules are alike.

    Sizes are log2, one column each; choices are unchanged. Every sketch has its own columns, which are 0
    for programs of other sketches, and an additional one that is 1 for its own programs.

    Returns:
        (n, columns of all sketches among the programs).

    Example:
        >>> a, b = Knobs("s", ((1, (2, 8)), (3, 2))), Knobs("t", ((1, (4,)),))
        >>> coordinates([a, b]).tolist()
        [[1.0, 1.0, 3.0, 2.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0, 2.0]]
    """
    columns: dict[tuple[str, int, int], int] = {}
    cells: list[tuple[int, int, float]] = []
    for row, program in enumerate(programs):
        entries = [(-1, 0, 1.0)]  # no instruction has this number: the sketch itself
        for place, decision in program.decisions:
            if isinstance(decision, tuple):
                entries += [(place, i, math.log2(max(size, 1))) for i, size in enumerate(decision)]
            else:
                entries.append((place, 0, float(decision)))
        for place, i, value in entries:
            cells.append((row, columns.setdefault((program.sketch, place, i), len(columns)), value))
    points = np.zeros((len(programs), len(columns)))
    for row, column, value in cells:
        points[row, column] = value
    return points


def _decision(value: Any) -> Decision:
    if _is_number(value):
        return int(value)
    if isinstance(value, list) and all(map(_is_number, value)):
        return tuple(map(int, value))
    raise DataError(f"A decision is a number or a list of numbers, got {str(value)[:40]!r}; leave the program out.")


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and abs(value) < _MAX_SIZE


def without_size(instruction: Any) -> tuple[Any, int | None]:
    """The instruction, in plain lists, without the size that it annotates, and that size (None for other instructions).

    TVM's MutateParallel decides by replacing the number in an annotation.
    """
    match instruction:
        case ["Annotate", [block, int(size)], *rest] if _is_number(size):
            return ["Annotate", [block, None], *rest], size
    return instruction, None


TURNED_KINDS = (TILE, CHOICE, LOCATION)
INLINED = -2
"""The least compute location: it inlines a block, -1 leaves it at the root."""
LOCATION_UNIT = 16.0
"""Loops in the unit of a location."""


@dataclass(frozen=True)
class SketchKnobs:
    """What can be turned in the traces of one sketch.

    A tile of n factors has n - 1 knobs, one between each level and the next: up moves the smallest prime
    factor of the inner level outwards, down that of the outer level inwards. The product thus stays the
    same, and all factorisations can be reached. A choice goes to the next or the previous alternative, a
    compute location one loop further in or out. Other decisions stay, as do annotations; TVM samples them
    when a program is drawn.
    """

    decided: tuple[tuple[int, str, int], ...]
    """Number of the instruction, its kind, and how many values a state has for it."""
    knobs: tuple[tuple[int, int], ...]
    """Number of the instruction and level of each knob."""

    @classmethod
    def of(cls, trace: Any) -> SketchKnobs:
        """The knobs of a ``Trace`` with decisions."""
        decided: list[tuple[int, str, int]] = []
        knobs: list[tuple[int, int]] = []
        for place, instruction in enumerate(trace.insts):
            kind = str(instruction.kind.name)
            if kind == POSTPROC:
                break
            if kind not in TURNED_KINDS or (decision := trace.get_decision(instruction)) is None:
                continue
            size = len(decision) if kind == TILE else 1
            decided.append((place, kind, size))
            knobs += [(place, level) for level in range(size - 1 if kind == TILE else 1)]
        return cls(tuple(decided), tuple(knobs))

    @property
    def state_size(self) -> int:
        """How many values a state has."""
        return sum(size for *_, size in self.decided)

    def state(self, trace: Any) -> FloatArray:
        """(`state_size`,) the value of each decision, about 0 to 1; for tiles, logarithms of factors."""
        values: list[float] = []
        for place, kind, _ in self.decided:
            instruction = trace.insts[place]
            decision = trace.get_decision(instruction)
            if kind == TILE:
                whole = math.log2(max(2, math.prod(int(f) for f in decision)))
                values += [math.log2(max(1, int(f))) / whole for f in decision]
            elif kind == CHOICE:
                values.append(int(decision) / max(1, len(instruction.attrs[0]) - 1))
            else:
                values.append((int(decision) - INLINED) / LOCATION_UNIT)
        return np.array(values, dtype=np.float32)

    def turned(self, trace: Any, directions: IntArray) -> Any:
        """The ``Trace`` after turning every knob; a knob at its limit stays.

        Args:
            trace: Of this sketch.
            directions: (knobs,) -1, 0 or 1.
        """
        from tvm.s_tir.schedule import Trace

        instructions = list(trace.insts)
        decisions = dict(trace.decisions.items())
        for (place, level), step in zip(self.knobs, directions.tolist(), strict=True):
            if step:
                instruction = instructions[place]
                decisions[instruction] = _turned(instruction, decisions[instruction], level, step)
        return Trace(instructions, decisions)


def _turned(instruction: Any, decision: Any, level: int, step: int) -> Any:
    kind = str(instruction.kind.name)
    if kind == TILE:
        return moved_factor([int(f) for f in decision], level, step, innermost=int(instruction.attrs[1]))
    if kind == CHOICE:
        return min(max(int(decision) + step, 0), len(instruction.attrs[0]) - 1)
    return max(int(decision) + step, INLINED)


def moved_factor(factors: Sequence[int], level: int, step: int, *, innermost: int) -> list[int]:
    """Factors after a prime has moved between `level` and the next one inside it.

    Args:
        factors: From the outermost level to the innermost.
        level: The outer of the two levels.
        step: 1 moves outwards, -1 inwards.
        innermost: The largest innermost factor that is allowed; 0 or less allows any.

    Example:
        >>> moved_factor([4, 6], 0, 1, innermost=64), moved_factor([4, 6], 0, -1, innermost=8)
        ([8, 3], [4, 6])
    """
    source, target = (level + 1, level) if step > 0 else (level, level + 1)
    prime = _smallest_prime(factors[source])
    moved = list(factors)
    moved[source] //= prime
    moved[target] *= prime
    return list(factors) if 0 < innermost < moved[-1] and moved[-1] > factors[-1] else moved


def _smallest_prime(number: int) -> int:
    """The smallest prime factor; 1 for 1."""
    return next((p for p in range(2, math.isqrt(number) + 1) if number % p == 0), max(number, 1))
