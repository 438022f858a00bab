"""Provides median_latency_s: the single latency of a program, computed from its repeats."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_Seconds = npt.NDArray[np.float64]


def median_latency_s(run_s: pa.ChunkedArray | pa.ListArray) -> _Seconds:
    """(n,) median of each list of seconds; NaN for an empty one, or one with a null in it.

    Example:
        >>> median_latency_s(pa.chunked_array([[[3.0, 1.0, 2.0], []]])).tolist()
        [2.0, nan]
    """
    chunks = run_s.chunks if isinstance(run_s, pa.ChunkedArray) else [run_s]
    return np.concatenate([np.zeros(0), *(_medians(chunk) for chunk in chunks)])


def _medians(lists: pa.ListArray) -> _Seconds:
    medians = np.full(len(lists), np.nan)
    for rows, values in repeats_by_length(lists):
        medians[rows] = np.median(values, axis=1)
    return medians


def repeats_by_length(lists: pa.ListArray) -> Iterator[tuple[npt.NDArray[np.intp], _Seconds]]:
    """Yields (k,) rows whose lists have the same length and the (k, length) values; leaves out empty lists.

    Most rows of a folder have the same number of repeats, so a few arrays replace a million lists.

    Example:
        >>> for rows, values in repeats_by_length(pa.array([[1.0, 2.0], [], [3.0, None]])):
        ...     rows.tolist(), values.tolist()
        ([0, 2], [[1.0, 2.0], [3.0, nan]])
    """
    lengths = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    # A null among the repeats becomes NaN. `flatten` leaves out what lies under a null list.
    values = lists.flatten().to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    starts = np.cumsum(lengths) - lengths
    for length in np.unique(lengths[lengths > 0]):
        rows = np.flatnonzero(lengths == length)
        yield rows, values[starts[rows, None] + np.arange(length)]
