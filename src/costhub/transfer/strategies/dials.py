"""Provides Dials: the decisions of a sketch as knobs that turn one step up or down."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from costhub.dataset.programs import FloatArray, IntArray

TILE, CHOICE, LOCATION = "SamplePerfectTile", "SampleCategorical", "SampleComputeLocation"
KINDS = (TILE, CHOICE, LOCATION)
OUTERMOST = -2
"""The least compute location: not moved at all."""
LOOPS = 16.0
"""Loops in the unit of a location."""


@dataclass(frozen=True)
class Dials:
    """What can be turned in the traces of one sketch.

    A tile of n factors has n - 1 knobs, one between each level and the next: up moves the smallest prime
    factor of the inner level outwards, down that of the outer level inwards. So the product stays what it
    was, and all factorisations can be reached. A choice goes to the next or the previous alternative, a
    compute location one loop further in or out. Other decisions stay, as do annotations; TVM samples them
    when a program is drawn.
    """

    decided: tuple[tuple[int, str, int], ...]
    """Number of the instruction, its kind, and how many values a state has for it."""
    knobs: tuple[tuple[int, int], ...]
    """Number of the instruction and level of each knob."""

    @classmethod
    def of(cls, trace: Any) -> Dials:
        """Those of a ``Trace`` with decisions."""
        decided: list[tuple[int, str, int]] = []
        knobs: list[tuple[int, int]] = []
        for place, instruction in enumerate(trace.insts):
            kind = str(instruction.kind.name)
            if kind == "EnterPostproc":
                break
            if kind not in KINDS or (decision := trace.get_decision(instruction)) is None:
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
        import numpy as np

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
                values.append((int(decision) - OUTERMOST) / LOOPS)
        return np.array(values, dtype=np.float32)

    def turned(self, trace: Any, directions: IntArray) -> Any:
        """The ``Trace`` after turning every knob; one at its end stays.

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
    return max(int(decision) + step, OUTERMOST)


def moved_factor(factors: Sequence[int], level: int, step: int, *, innermost: int) -> list[int]:
    """Factors after a prime has moved between `level` and the next one inside it.

    Args:
        factors: From the outermost level to the innermost.
        level: The outer one of the two.
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
