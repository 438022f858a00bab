"""Provides the acquisition functions: the worth of a measurement, by mean and spread of a score."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from costhub.models.protocol import Scores


def upper_confidence_bound(mean: Scores, std: Scores, kappa: float) -> Scores:
    """The score that a candidate may well reach: mean + kappa std.

    Srinivas et al., *Gaussian Process Optimization in the Bandit Setting* (2010); AutoTVM (section 3.3 and
    figure 7) compares it with the mean alone.

    Args:
        mean: (n,) scores, higher is faster.
        std: (n,) their spread, as `Ensemble.predict_with_spread` gives it.
        kappa: How much a spread counts; 0 searches where the mean is best.

    Raises:
        ValueError: A spread is negative or NaN, or the shapes differ.

    Example:
        >>> upper_confidence_bound(np.array([1.0, 0.8]), np.array([0.0, 0.5]), 1.0).tolist()
        [1.0, 1.3]
    """
    _check(mean, std)
    return mean + kappa * std


def expected_improvement(mean: Scores, std: Scores, best: float) -> Scores:
    """By how much a candidate is expected to score above `best`, if its score is normal.

    Jones et al., *Efficient Global Optimization of Expensive Black-Box Functions* (1998), equation 15:
    E max(f - best, 0) = (mean - best) Phi(z) + std phi(z) with z = (mean - best) / std.

    Args:
        mean: (n,) scores, higher is faster.
        std: (n,) their spread; where it is 0 the score is taken as certain.
        best: The score to improve on, such as the highest mean of the programs that were measured.

    Returns:
        (n,) values of 0 or more, on the scale of the scores.

    Raises:
        ValueError: A spread is negative or NaN, or the shapes differ.

    Example:
        >>> expected_improvement(np.array([2.0, 1.0]), np.array([0.0, 1.0]), 1.0).round(4).tolist()
        [1.0, 0.3989]
    """
    _check(mean, std)
    gain = mean - best
    certain = std == 0.0
    # Beyond 40 spreads both functions are 0 or 1 to the last digit.
    with np.errstate(over="ignore"):
        z = np.clip(gain / np.where(certain, 1.0, std), -40.0, 40.0)
    density = np.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi)
    expected: Scores = np.where(certain, gain, gain * ndtr(z) + std * density)
    return np.maximum(expected, 0.0)


def _check(mean: Scores, std: Scores) -> None:
    if mean.shape != std.shape or not (std >= 0.0).all():
        raise ValueError(
            f"std must have one spread of 0 or more for each of the {mean.shape} means, got shape {std.shape}"
            f" with a lowest value of {std.min(initial=math.inf):g}."
        )
