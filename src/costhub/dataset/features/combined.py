"""Provides combine and split_parts: rows of several feature specs stacked as one, and taken apart again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from costhub.dataset.programs import FloatArray, IntArray


def combine(parts: Sequence[tuple[FloatArray, IntArray]]) -> tuple[FloatArray, IntArray]:
    """Stacks the rows that several specs compute for the same programs.

    Args:
        parts: For each spec the (r_k, d_k) rows of all programs and the (n,) number of rows of each.

    Returns:
        (sum of r_k, 1 + max d_k) rows: for each program those of part 0, then those of part 1 and so on.
        Column 0 is the part, then come its own columns, then zeros. And (n,) number of rows of each program.

    Example:
        >>> a = np.array([[5.0, 6.0], [7.0, 8.0]], np.float32), np.array([1, 1])
        >>> b = np.array([[9.0]], np.float32), np.array([0, 1])
        >>> rows, counts = combine([a, b])
        >>> rows.tolist(), counts.tolist()
        ([[0.0, 5.0, 6.0], [0.0, 7.0, 8.0], [1.0, 9.0, 0.0]], [1, 2])
    """
    rows = blank_rows([counts for _, counts in parts], [own.shape[1] for own, _ in parts])
    for part, (own, _) in enumerate(parts):
        fill_part(rows, part, own)
    return rows, np.sum([counts for _, counts in parts], axis=0, dtype=np.int64)


def blank_rows(counts: Sequence[IntArray], widths: Sequence[int]) -> FloatArray:
    """Makes the rows of `combine` with only the part column set; `fill_part` sets the others.

    This way only one part at a time is in memory.

    Args:
        counts: For each part the (n,) number of rows of each program.
        widths: For each part its number of columns.
    """
    by_program = np.stack(counts, axis=1)
    rows = np.zeros((int(by_program.sum()), 1 + max(widths)), np.float32)
    rows[:, 0] = np.repeat(np.tile(np.arange(len(counts)), len(by_program)), by_program.reshape(-1))
    return rows


def fill_part(rows: FloatArray, part: int, own: FloatArray) -> None:
    """Writes the (r_k, d_k) rows of a part into the rows of `blank_rows`."""
    rows[rows[:, 0] == part, 1 : 1 + own.shape[1]] = own


def split_parts(rows: FloatArray, counts: IntArray, widths: Sequence[int]) -> list[tuple[FloatArray, IntArray]]:
    """Takes stacked rows apart: the inverse of `combine`.

    Args:
        rows: (r, 1 + max d_k) rows of a composite spec.
        counts: (n,) number of rows of each program.
        widths: For each part its number of columns d_k.

    Returns:
        For each part its (r_k, d_k) rows and the (n,) number of its rows in each program.

    Raises:
        ValueError: The rows are too narrow, or column 0 of a row is not one of the parts.

    Example:
        >>> rows = np.array([[0, 5, 6], [1, 9, 0]], np.float32)
        >>> [own.tolist() for own, _ in split_parts(rows, np.array([2]), [2, 1])]
        [[[5.0, 6.0]], [[9.0]]]
    """
    if not len(rows):
        return [(np.zeros((0, width), np.float32), np.zeros_like(counts)) for width in widths]
    if rows.shape[1] < 1 + max(widths):
        raise ValueError(f"Rows of parts of {list(widths)} columns need one more, got {rows.shape[1]}.")
    part = rows[:, 0].copy()
    ends = np.cumsum(counts)
    parts = []
    for number, width in enumerate(widths):
        mine = part == number
        own = rows[mine, 1 : 1 + width]
        before = np.concatenate([[0], np.cumsum(mine)])
        parts.append((own, before[ends] - before[ends - counts]))
    if sum(len(own) for own, _ in parts) != len(rows):
        raise ValueError(f"Column 0 of a row must be its part, one of 0 to {len(widths) - 1}.")
    return parts
