"""Provides read_sketch: converts the steps of an Ansor program to MetaSchedule's decisions for the same program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from costhub.errors import WorkloadError

VECTOR_LENGTHS = (1, 2, 3, 4)
"""For cooperative fetches of float32: TVM 0.27 loads 16 bytes at once, and its space has no longer vectors."""
HALF_VECTOR_LENGTHS = (*VECTOR_LENGTHS, 8)
"""The same for float16; CUDA has no type for the lengths between."""
UNROLL_STEPS = (0, 16, 64, 512, 1024)
"""Unroll steps of Ansor's GPU sketches."""
MOST_INNERMOST = 64
_SPATIAL_LEVELS, _REDUCTION_LEVELS = 5, 3
_VECTORIZE, _VTHREAD, _BLOCK, _THREAD = 2, 4, 5, 6
"""Ansor's numeric codes of loop annotations (include/tvm/auto_scheduler/loop_state.h of TVM 0.7)."""
_UNROLL = "auto_unroll_max_step$"

Step = Sequence[Any]
_END: Step = ("the end",)


@dataclass(frozen=True)
class TiledSketch:
    """A tiled GPU program: multi-level tiling SSSRRSRS, reads through shared memory, the result through registers."""

    spatial: tuple[tuple[int, ...], ...]
    """Five factors of each spatial axis, outermost first."""
    reduction: tuple[tuple[int, ...], ...]
    """Three factors of each reduction axis."""
    vectors: tuple[int, ...]
    """Vector lengths of the cooperative fetches, in the order in which the computation reads its buffers."""
    unroll: int
    """The most steps that are unrolled."""

    @property
    def tiles(self) -> list[list[int]]:
        """All factors, axis by axis."""
        return [list(factors) for factors in (*self.spatial, *self.reduction)]


def read_sketch(steps: Sequence[Step], vector_lengths: Sequence[int] = VECTOR_LENGTHS) -> TiledSketch:
    """Reads the transform steps of Ansor's multi-level tiling on GPUs.

    Ansor's sketch rules MultiLevelTiling, AddCacheRead and AddCacheWrite (src/auto_scheduler/search_policy of
    TVM 0.7) make the programs of MetaSchedule's MultiLevelTiling with the structure SSSRRSRS, so every split of
    one is a SamplePerfectTile of the other. Each step is checked against this structure: a program that is built
    differently is rejected, never approximated.

    Args:
        steps: The steps as a record holds them, such as ``["SP", stage, iterator, extent, lengths, 1]``.
        vector_lengths: Those that the space has for the type of the workload's inputs.

    Raises:
        WorkloadError: The steps make another kind of program, or one outside MetaSchedule's design space.
    """
    try:
        return _Reader(steps, vector_lengths).sketch()
    except (IndexError, KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise WorkloadError("its steps are not those of a tiled GPU program") from error


class _Reader:
    """Takes the steps one by one, and compares each with the one that the structure requires."""

    def __init__(self, steps: Sequence[Step], vector_lengths: Sequence[int]) -> None:
        self._vector_lengths = vector_lengths
        self._steps: Iterator[Step] = iter(steps)
        self._step: Step = _END

    def sketch(self) -> TiledSketch:
        kind, stage, scope = self._next()
        self._demand(kind == "CHW" and scope == "local")
        spatial, reduction = self._tiles(stage)
        axes, inner_axes = len(spatial), len(reduction)
        self._output(stage, axes)
        fetched = self._shared(stage, at=3 * axes + inner_axes - 1)
        if self._step[0] == "CI":  # of the padding
            self._next()
        self._binds(stage + 1 + len(fetched), axes)
        vectors = self._fetches(fetched, axes)
        unroll = self._unrolled()
        return TiledSketch(spatial, reduction, tuple(reversed(vectors)), unroll)

    def _next(self) -> Step:
        self._step = next(self._steps, _END)
        return self._step

    @staticmethod
    def _demand(fits: bool) -> None:
        if not fits:
            raise WorkloadError("its steps are not those of a tiled GPU program")

    def _tiles(self, stage: int) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
        """The factors of the spatial and the reduction axes, and the order of their loops, which is SSSRRSRS."""
        spatial: list[tuple[int, ...]] = []
        reduction: list[tuple[int, ...]] = []
        position = 0
        while self._next()[0] == "SP":
            _, where, iterator, extent, lengths, from_inside = self._step
            levels = len(lengths) + 1
            self._demand(where == stage and iterator == position and from_inside == 1)
            self._demand(levels == _REDUCTION_LEVELS or (levels == _SPATIAL_LEVELS and not reduction))
            (spatial if levels == _SPATIAL_LEVELS else reduction).append(_factors(extent, lengths))
            position += levels
        self._demand(bool(spatial and reduction))
        self._demand(list(self._step) == ["RE", stage, _loop_order(len(spatial), len(reduction))])
        return tuple(spatial), tuple(reduction)

    def _output(self, stage: int, axes: int) -> None:
        """The loops of the result follow those of the computation, which goes into registers at its third level."""
        for axis in range(axes):
            kind, where, iterator, source, levels = self._next()
            self._demand((kind, where, iterator, levels) == ("FSP", stage + 1, 4 * axis, 3) and source == axis + 1)
        order = [4 * axis + level for level in range(4) for axis in range(axes)]
        self._demand(list(self._next()) == ["RE", stage + 1, order])
        self._demand(list(self._next()) == ["CA", stage, stage + 1, 3 * axes - 1])

    def _shared(self, stage: int, *, at: int) -> list[int]:
        """The stages that copy what the computation reads into shared memory, by their numbers in the end."""
        read: list[int] = []
        while self._next()[0] == "CHR":
            _, source, scope, consumers = self._step
            # Each copy is inserted behind its source, so later stages, the consumer among them, move up by one.
            consumer = stage + len(read)
            self._demand(scope == "shared" and list(consumers) == [consumer])
            self._demand(source < (read[-1] if read else consumer))
            self._demand(list(self._next()) == ["CA", source + 1, consumer + 1, at])
            read.append(source)
        self._demand(bool(read))
        return [source + 1 + (len(read) - 1 - number) for number, source in enumerate(read)]

    def _binds(self, stage: int, axes: int) -> None:
        """The three outer levels are blocks, virtual threads and threads."""
        for number, annotation in enumerate((_BLOCK, _VTHREAD, _THREAD)):
            if axes > 1:
                self._demand(list(self._step) == ["FU", stage, list(range(number, number + axes))])
                self._next()
            self._demand(list(self._step) == ["AN", stage, number, annotation])
            self._next()

    def _fetches(self, stages: Sequence[int], axes: int) -> list[int]:
        """The vector lengths of the cooperative fetches, each distributed over the threads."""
        vectors = []
        for stage in stages:
            kind, where, iterators = self._step
            self._demand((kind, where) == ("FU", stage) and list(iterators) == list(range(len(iterators))))
            # The extent is that of an ancestor: Ansor's evolution changes tiles but not the extent.
            kind, where, iterator, _, [vector], from_inside = self._next()
            self._demand((kind, where, iterator, from_inside) == ("SP", stage, 0, 1))
            if vector not in self._vector_lengths:
                known = ", ".join(map(str, self._vector_lengths))
                raise WorkloadError(f"it fetches vectors of lengths other than {known}, the only ones in MetaSchedule")
            vectors.append(vector)
            self._demand(list(self._next()) == ["AN", stage, 1, _VECTORIZE])
            self._demand(list(self._next()) == ["FFSP", stage, 0, list(range(axes, 0, -1)), 1, 1])
            self._demand(list(self._next()) == ["AN", stage, 1, _THREAD])
            self._next()
        return vectors

    def _unrolled(self) -> int:
        kind, _, _, pragma = self._step
        self._demand(kind == "PR" and pragma.startswith(_UNROLL) and self._next() == _END)
        steps = int(pragma.removeprefix(_UNROLL))
        if steps not in UNROLL_STEPS:
            raise WorkloadError(f"it unrolls up to {steps} steps, which MetaSchedule does not")
        return steps


def _factors(extent: int, lengths: Sequence[int]) -> tuple[int, ...]:
    """The factors of an axis; Ansor lists all but the outermost."""
    if type(extent) is not int or not all(type(length) is int and length > 0 for length in lengths):
        raise WorkloadError("a split of its steps has lengths that are not positive numbers")
    if extent <= 0 or extent % prod(lengths):
        raise WorkloadError("a split of its steps does not divide its axis")
    if lengths[-1] > MOST_INNERMOST:
        raise WorkloadError(f"one of its innermost loops has more than {MOST_INNERMOST} steps")
    return (extent // prod(lengths), *lengths)


def _loop_order(axes: int, inner_axes: int) -> list[int]:
    """The loops in the order SSSRRSRS, by their numbers after the splits.

    Example:
        >>> _loop_order(1, 1)
        [0, 1, 2, 5, 6, 3, 7, 4]
    """

    def level(number: int) -> list[int]:
        return [_SPATIAL_LEVELS * axis + number for axis in range(axes)]

    def inner_level(number: int) -> list[int]:
        return [_SPATIAL_LEVELS * axes + _REDUCTION_LEVELS * axis + number for axis in range(inner_axes)]

    levels = [level(0), level(1), level(2), inner_level(0), inner_level(1), level(3), inner_level(2), level(4)]
    return [loop for loops in levels for loop in loops]
