"""Provides median_latency_s: the one latency of a program, out of its repeats."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def median_latency_s(run_s: pa.ChunkedArray) -> npt.NDArray[np.float64]:
    """(n,) median of each list of seconds; NaN for an empty one.

    Example:
        >>> median_latency_s(pa.chunked_array([[[3.0, 1.0, 2.0], []]])).tolist()
        [2.0, nan]
    """
    # A null among the repeats counts as NaN, like a list without any.
    medians = [np.median(np.array(runs, np.float64)) if runs else np.nan for runs in run_s.to_pylist()]
    return np.array(medians, dtype=np.float64)
