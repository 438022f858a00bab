"""Means with standard errors, and how much sooner one search is as good as another."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

CLOSE = 1.01
"""A search has reached another's best latency when it is within this factor of it."""
Course = Sequence[tuple[float, float, float]]
"""The course of a search: trials, seconds and best latency so far, after each measurement."""
Curve = Sequence[Mapping[str, Any]]
"""The same at some numbers of trials, as dictionaries: `trials`, `seconds`, and `best_us`, measured again."""


def sooner(own: Course, base: Course) -> tuple[float, float] | None:
    """How many times fewer trials and seconds a search takes to come near the best of another.

    Args:
        own: The search.
        base: The other search; its trials and seconds count until it was equally near its own end.

    Returns:
        The two ratios; None if the search never came within a hundredth (`CLOSE`).

    Example:
        >>> sooner([(16, 10.0, 30.0), (32, 20.0, 20.1)], [(64, 60.0, 40.0), (128, 100.0, 20.0)])
        (4.0, 5.0)
    """
    level = CLOSE * base[-1][2]
    mine, theirs = (next((point for point in course if point[2] <= level), None) for course in (own, base))
    return None if mine is None or theirs is None else (theirs[0] / mine[0], theirs[1] / mine[1])


def geometric(values: Sequence[float]) -> float | None:
    """The geometric mean; None without values."""
    return statistics.geometric_mean(values) if values else None


def gain_with_error(
    logarithms: Sequence[float], workloads: Sequence[Hashable] | None = None
) -> tuple[float | None, float | None]:
    """The geometric mean of ratios, and the standard error of its logarithm.

    Args:
        logarithms: Of the ratios.
        workloads: As for `mean_with_error`.

    Returns:
        None for the mean of none, and for the error of fewer than two.

    Example:
        >>> gain_with_error([0.0, 0.0]), gain_with_error([0.0]), gain_with_error([])
        ((1.0, 0.0), (1.0, None), (None, None))
    """
    mean, error = mean_with_error(logarithms, workloads)
    return None if mean is None else math.exp(mean), error


def gain_after(pairs: Sequence[tuple[str, Curve, Curve]], trials: int) -> dict[str, float | None]:
    """The gain of searches over others after as many trials, as `gain_N`, with the error of its logarithm, `gain_N_se`.

    Args:
        pairs: The workload of each search, its curve and that of the other; a pair is left out if a curve lacks the
            number of trials.
        trials: N.

    Example:
        >>> own, base = [{"trials": 16, "best_us": 50.0}], [{"trials": 16, "best_us": 100.0}]
        >>> gain_after([("conv", own, base)], 16), gain_after([("conv", own, base)], 32)
        ({'gain_16': 2.0, 'gain_16_se': None}, {'gain_32': None, 'gain_32_se': None})
    """
    logarithms = []
    for workload, own, base in pairs:
        at = [{point["trials"]: point["best_us"] for point in curve} for curve in (own, base)]
        if all(trials in each for each in at):
            logarithms.append((workload, math.log(at[1][trials] / at[0][trials])))
    gain, error = gain_with_error([each for _, each in logarithms], [workload for workload, _ in logarithms])
    return {f"gain_{trials}": gain, f"gain_{trials}_se": error}


def mean_with_error(
    values: Sequence[float], workloads: Sequence[Hashable] | None = None
) -> tuple[float | None, float | None]:
    """The mean and its standard error.

    Args:
        values: The values.
        workloads: The workload of each, if several may be of one. Searches of one workload with other seeds are alike:
            they say little of other workloads, and the error is that over workloads. Where all are of one workload, and
            by default, all values are independent.

    Returns:
        None for the mean of none, and for the error of fewer than two values.

    Example:
        >>> mean_with_error([1.0, 3.0]), mean_with_error([2.0])
        ((2.0, 1.0), (2.0, None))
        >>> mean_with_error([1.0, 1.0, 1.0, 3.0, 3.0, 3.0], [*"aaabbb"])
        (2.0, 1.0)
    """
    if not values:
        return None, None
    mean, off = statistics.fmean(values), defaultdict[Hashable, float](float)
    groups = workloads if workloads and len(set(workloads)) > 1 else range(len(values))
    for group, value in zip(groups, values, strict=True):
        off[group] += value - mean
    count, total = len(off), math.fsum(each**2 for each in off.values())
    return mean, math.sqrt(count / (count - 1) * total) / len(values) if count > 1 else None


def mean_of_rows(name: str, rows: Sequence[Mapping[str, Any]], values: Sequence[float]) -> dict[str, float | None]:
    """The mean of a value for each row, as `name`, and its standard error over the rows' workloads, as `name_se`.

    Example:
        >>> mean_of_rows("queries", [{"workload": "conv"}, {"workload": "norm"}], [1.0, 3.0])
        {'queries': 2.0, 'queries_se': 1.0}
    """
    found = mean_with_error(values, [row["workload"] for row in rows])
    return dict(zip((name, f"{name}_se"), found, strict=True))
