"""Provides calibrate: whether the spread of an ensemble predicts the error of its mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from costhub.dataset.programs import Programs
from costhub.errors import DataError, ScoreError
from costhub.models.metrics import rank_correlation
from costhub.models.protocol import Scores

LEVELS = (0.5, 0.68, 0.8, 0.9, 0.95)
BINS = 10


@dataclass(frozen=True)
class Calibration:
    """How the spread of a model compares with its errors."""

    n: int
    """Programs compared."""
    covered: Mapping[float, float]
    """Nominal level -> share of the programs within the interval that should hold that share."""
    rank_correlation: float
    """Spearman's, of spread and absolute error; NaN where either is constant."""
    ratio: float
    """Root mean square error / root mean square spread: above 1 the model is too sure of itself."""
    bins: tuple[tuple[float, float], ...]
    """(mean spread, root mean square error) of programs of like spread, tenths by number, rising."""

    def to_json(self) -> dict[str, Any]:
        """The same as JSON values."""
        fields = asdict(self)
        for key in ("rank_correlation", "ratio"):
            fields[key] = fields[key] if np.isfinite(fields[key]) else None
        return {**fields, "covered": {str(level): share for level, share in self.covered.items()}}


def calibrate(mean: Scores, std: Scores, programs: Programs, *, align: bool = False) -> Calibration:
    """Compares spread and error of scores that estimate normalised throughput.

    An interval of level p reaches k standard deviations to either side, with p = 2 Phi(k) - 1: the members
    count as draws from a normal distribution around the truth.

    Args:
        mean: (n,) scores.
        std: (n,) their spread, not negative.
        programs: The measured programs; failed ones have throughput 0 and count.
        align: Fit a straight line through scores and throughput of each workload on each device first, and
            scale the spread with it. Rank objectives need it, since their scores have no unit; it fits two
            numbers per workload to the test data.

    Raises:
        DataError: There are no programs.
        ScoreError: A mean or a spread is not a number, or a spread is negative.

    Example:
        >>> pair = Programs.from_list([np.ones((1, 2))] * 2, np.array([0, 0]), ("w",), np.array([1e-3, 2e-3]))
        >>> calibrate(np.array([1.0, 0.8]), np.array([0.1, 0.1]), pair).covered[0.68]
        0.5
    """
    if not programs.n:
        raise DataError("There are no programs to calibrate on; measure some programs of held-out workloads.")
    if not (np.isfinite(mean).all() and np.isfinite(std).all() and (std >= 0).all()):
        raise ScoreError("A score or its spread is not a number, or a spread is negative; train the model again.")
    truth = programs.throughput()
    if align:
        mean, std = _aligned(mean, std, truth, programs.group)
    error = np.abs(truth - mean)
    covered = {level: float(np.mean(error <= _width(level) * std)) for level in LEVELS}
    size, spread = float(np.sqrt(np.mean(error**2))), float(np.sqrt(np.mean(std**2)))
    return Calibration(
        n=programs.n,
        covered=covered,
        rank_correlation=rank_correlation(std, error),
        ratio=size / spread if spread else float("inf"),
        bins=_bins(std, error),
    )


def _width(level: float) -> float:
    """How many standard deviations to either side hold `level` of a normal distribution."""
    return NormalDist().inv_cdf((1.0 + level) / 2.0)


def _bins(std: Scores, error: Scores) -> tuple[tuple[float, float], ...]:
    parts = np.array_split(np.argsort(std, kind="stable"), min(BINS, len(std)))
    return tuple((float(std[part].mean()), float(np.sqrt(np.mean(error[part] ** 2)))) for part in parts)


def _aligned(mean: Scores, std: Scores, truth: Scores, group: npt.NDArray[np.int64]) -> tuple[Scores, Scores]:
    """Scores and spread in units of throughput, by least squares within each group."""
    number = np.bincount(group)
    centre = (np.bincount(group, mean) / np.maximum(number, 1))[group]
    level = (np.bincount(group, truth) / np.maximum(number, 1))[group]
    variance = np.bincount(group, (mean - centre) ** 2)
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = np.bincount(group, (mean - centre) * (truth - level)) / variance
    slope = np.where(variance > 0, slope, 0.0)[group]
    return level + slope * (mean - centre), np.abs(slope) * std
