"""Provides geometric, gain_with_error and mean_with_error: means with errors, for tables that compare."""

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
    mean, error = mean_with_error(logarithms)
    return None if mean is None else math.exp(mean), error


def mean_with_error(values: Sequence[float]) -> tuple[float | None, float | None]:
    """The mean and its standard error.

    Args:
        values: Independent of each other.

    Returns:
        None for the mean of none, and for the error of fewer than two.

    Example:
        >>> mean_with_error([1.0, 3.0]), mean_with_error([2.0])
        ((2.0, 1.0), (2.0, None))
    """
    mean = statistics.fmean(values) if values else None
    return mean, statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
