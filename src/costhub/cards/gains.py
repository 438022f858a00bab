"""Provides geometric and gain_with_error: means of ratios, for tables that compare searches."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence


def geometric(values: Sequence[float]) -> float | None:
    """The geometric mean; None of no values."""
    return statistics.geometric_mean(values) if values else None


def gain_with_error(logarithms: Sequence[float]) -> tuple[float | None, float | None]:
    """The geometric mean of ratios, and the standard error of its logarithm.

    Args:
        logarithms: Of the ratios.

    Returns:
        None for the mean of none, and for the error of fewer than two.

    Example:
        >>> gain_with_error([0.0, 0.0]), gain_with_error([0.0]), gain_with_error([])
        ((1.0, 0.0), (1.0, None), (None, None))
    """
    mean = math.exp(statistics.fmean(logarithms)) if logarithms else None
    error = statistics.stdev(logarithms) / math.sqrt(len(logarithms)) if len(logarithms) > 1 else None
    return mean, error
