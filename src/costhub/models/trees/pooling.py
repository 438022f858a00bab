"""Provides pool: the rows of each program as one row of fixed width, for models that need one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from costhub.dataset.features.combined import split_parts
from costhub.dataset.programs import FloatArray, IntArray


def pool(rows: FloatArray, counts: IntArray) -> FloatArray:
    """Sum, maximum and mean of every column over the rows of a program, and the number of rows.

    Args:
        rows: (r, d) feature rows, programs in order.
        counts: (n,) number of rows of each program; a program without rows pools to zeros.

    Returns:
        (n, 3 d + 1) pooled rows.

    Example:
        >>> pool(np.array([[1.0], [3.0]], np.float32), np.array([2, 0])).tolist()
        [[4.0, 3.0, 2.0, 2.0], [0.0, 0.0, 0.0, 0.0]]
    """
    n, columns = len(counts), rows.shape[1]
    pooled = np.zeros((n, 3 * columns + 1), np.float32)
    some = np.flatnonzero(counts)
    if len(some):
        # reduceat is wrong for empty segments, so programs without rows are left out.
        starts = (np.cumsum(counts) - counts)[some]
        total = np.add.reduceat(rows, starts, axis=0)
        pooled[some, :columns] = total
        pooled[some, columns : 2 * columns] = np.maximum.reduceat(rows, starts, axis=0)
        pooled[some, 2 * columns : 3 * columns] = total / counts[some, None]
    pooled[:, -1] = counts
    return pooled


def first_rows(rows: FloatArray, counts: IntArray) -> FloatArray:
    """(n, d) first row of each program; zeros for a program without rows.

    Example:
        >>> first_rows(np.array([[1.0], [3.0]], np.float32), np.array([2, 0])).tolist()
        [[1.0], [0.0]]
    """
    first = np.zeros((len(counts), rows.shape[1]), np.float32)
    some = np.flatnonzero(counts)
    first[some] = rows[(np.cumsum(counts) - counts)[some]]
    return first


def pool_parts(rows: FloatArray, counts: IntArray, widths: Sequence[int], leads: Sequence[bool]) -> FloatArray:
    """The pooled rows of every part of a feature spec side by side.

    Args:
        rows: (r, d) feature rows.
        counts: (n,) number of rows of each program.
        widths: For each part, its number of columns d_k; a single one if the spec is simple.
        leads: For each part, whether the first row of a program is also taken by itself.

    Returns:
        (n, `pooled_width(widths, leads)`) pooled rows.

    Example:
        >>> rows = np.array([[0, 5, 6], [1, 9, 0]], np.float32)
        >>> pool_parts(rows, np.array([2]), [2, 1], [False, True]).tolist()
        [[5.0, 6.0, 5.0, 6.0, 5.0, 6.0, 1.0, 9.0, 9.0, 9.0, 1.0, 9.0]]
    """
    parts = [(rows, counts)] if len(widths) == 1 else split_parts(rows, counts, widths)
    pooled = [
        table
        for part, leading in zip(parts, leads, strict=True)
        for table in ([pool(*part), first_rows(*part)] if leading else [pool(*part)])
    ]
    return pooled[0] if len(pooled) == 1 else np.concatenate(pooled, axis=1)


def pooled_width(widths: Sequence[int], leads: Sequence[bool]) -> int:
    """The number of columns that `pool_parts` returns."""
    return sum((4 if leading else 3) * width + 1 for width, leading in zip(widths, leads, strict=True))
