"""Provides the kernels that round the factors of products of two activations to bfloat16, for many heads at once.

Attention multiplies queries by keys, and probabilities by values, for each head. Neither factor is known before the
network runs, so both are rounded each time. They are read where they lie: a permutation of axes, which torch uses to
move heads to the front, needs no copy of its own.

As in `bfloat16_pairs`, which two terms of a sum form a pair makes no difference. Here the first `stored` terms of a sum
are paired with its last `stored` terms. With fewer than twice as many terms, the two overlap; a term in both counts
once, as a first one, and is a zero where it would be a second one. So rows are read in whole vectors, however long the
sum is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx

from costhub.collector.workloads.bfloat16_pairs import OPAQUE, PAIRS, pair, scheduled
from costhub.collector.workloads.relax_calls import kernel_of
from costhub.collector.workloads.row_norms import extent


@dataclass(frozen=True)
class Factor:
    """A factor of such a product: a tensor, and the order in which its axes are read.

    Example:
        >>> Factor((1, 197, 6, 64), (2, 3, 1)).extents
        (6, 64, 197)
    """

    shape: tuple[int, ...]
    """Its extents in memory."""
    axes: tuple[int, ...]
    """The axis of memory for each axis that is read; those that are left out have an extent of 1."""

    @property
    def extents(self) -> tuple[int, ...]:
        """Its extents as they are read: those of the heads, then two of a matrix."""
        return tuple(self.shape[axis] for axis in self.axes)

    def placeholder(self) -> Any:
        """Its tensor."""
        return te.placeholder([extent(size) for size in self.shape], "float32", name="data")

    def at(self, data: Any, index: Sequence[Any]) -> Any:
        """The number at an index as it is read."""
        places = dict(zip(self.axes, index, strict=True))
        return data[tuple(places.get(axis, 0) for axis in range(len(self.shape)))]


def paired_head_rows(factor: Factor, rows: int, stored: int) -> Any:
    """The kernel (``tirx.PrimFunc``) from the first factor, (heads, m, depth), to pairs (heads, rows, stored).

    Args:
        factor: The factor.
        rows: Rows of pairs; those beyond the last row repeat it.
        stored: Pairs in a row, at most as many as the depth.
    """
    *heads, known, depth = factor.extents
    data = factor.placeholder()

    def paired(*index: Any) -> Any:
        *head, m, k = index
        row = m if rows == known else tirx.min(m, known - 1)
        return _pair(lambda term: factor.at(data, [*head, row, term]), k, depth, stored)

    return _rounding(data, [*heads, rows, stored], paired)


def paired_head_columns(factor: Factor, columns: int, stored: int, lanes: int) -> Any:
    """The kernel from the second factor, (heads, depth, n), to pairs (heads, columns / lanes, stored, lanes).

    Args:
        factor: The factor.
        columns: Columns of pairs; those beyond the last column repeat it.
        stored: As for `paired_head_rows`.
        lanes: Columns stored side by side.
    """
    *heads, depth, known = factor.extents
    data = factor.placeholder()

    def packed(*index: Any) -> Any:
        *head, chunk, k, lane = index
        column = chunk * lanes + lane
        column = column if columns == known else tirx.min(column, known - 1)
        return _pair(lambda term: factor.at(data, [*head, term, column]), k, depth, stored)

    return _rounding(data, [*heads, columns // lanes, stored, lanes], packed)


def _pair(number: Any, k: Any, depth: int, stored: int) -> Any:
    second, shared = number(k + (depth - stored)), 2 * stored - depth
    # Select, not a branch: it is computed for whole vectors.
    return pair(number(k), tirx.Select(k >= shared, second, tirx.const(0.0, "float32")) if shared else second)


def _rounding(data: Any, shape: Sequence[int], paired: Any) -> Any:
    pairs = te.compute([extent(size) for size in shape], paired, name=PAIRS)
    return scheduled(kernel_of([data, pairs], OPAQUE))
