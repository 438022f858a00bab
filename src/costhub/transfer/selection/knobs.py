"""Provides Knobs: what a search decided about a program, read from its trace."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from costhub.dataset.features.trace_text import before_postproc, decision_pairs, read_trace
from costhub.errors import DataError
from costhub.models.protocol import Scores

Decision = int | tuple[int, ...]
"""A choice among alternatives, or sizes: the factors of a tile."""
_MOST = 1 << 62


@dataclass(frozen=True)
class Knobs:
    """The decisions of a schedule; two programs of a workload are the same where their knobs are.

    The programs of a workload come from several sketches: lists of instructions that differ in more than
    their decisions. The third decision of one sketch has nothing to do with the third of another, so a knob
    is a place in a sketch. Post-processing is left out, since it follows from the rest.

    Example:
        >>> Knobs.read('[[["SamplePerfectTile",["l1"],[2,64],["v2","v3"]]],[[0,[8,16]]]]').decisions
        ((0, (8, 16)),)
    """

    sketch: str
    """64 hex digits that name the instructions without what was decided."""
    decisions: tuple[tuple[int, Decision], ...]
    """Number of the instruction and what was decided there, in the order of the trace."""

    @classmethod
    def read(cls, trace_json: str) -> Knobs:
        """The knobs of a trace as the column `trace` has it.

        Raises:
            DataError: The text is no trace, or a decision neither a number nor a list of numbers.
        """
        trace = read_trace(trace_json)
        if trace is None:
            raise DataError(
                f"A trace is a JSON pair of instructions and decisions, got {trace_json[:40]!r}; leave the "
                "program out."
            )
        return cls.of(*trace)

    @classmethod
    def of(cls, instructions: Sequence[Any], decisions: Sequence[Any]) -> Knobs:
        """The knobs of a trace in plain lists.

        Args:
            instructions: Kind, arguments, attributes and results of each, as JSON has them.
            decisions: Pairs of the number of an instruction and what was decided.

        Raises:
            DataError: As `read`.
        """
        first = list(instructions[: before_postproc(instructions)])
        made = {place: _decision(value) for place, value in decision_pairs(decisions) if place >= 0}
        for place, instruction in enumerate(first):
            first[place], size = _annotated(instruction)
            if size is not None:
                made[place] = (size,)
        sketch = hashlib.sha256(json.dumps(first, separators=(",", ":")).encode()).hexdigest()
        return cls(sketch, tuple(sorted((p, made[p]) for p in made if p < len(first))))

    @property
    def components(self) -> frozenset[tuple[str, int, Decision]]:
        """Sketch, place and decision of each knob: what two programs have in common, if anything."""
        return frozenset((self.sketch, place, decision) for place, decision in self.decisions)


def coordinates(programs: Sequence[Knobs]) -> Scores:
    """Programs as points, near to one another where their schedules are alike.

    Sizes are log2, one column each; choices are as they are. Every sketch has columns of its own, which are 0
    for programs of another, and one that is 1 for its programs.

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
    raise DataError(
        f"A decision is a number or a list of numbers, got {str(value)[:40]!r}; leave the program out."
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and abs(value) < _MOST


def _annotated(instruction: Any) -> tuple[Any, int | None]:
    """The instruction without the size that it annotates, and that size.

    TVM's MutateParallel decides by replacing the number in an annotation.
    """
    match instruction:
        case ["Annotate", [block, int(size)], *rest] if _is_number(size):
            return ["Annotate", [block, None], *rest], size
    return instruction, None
