"""Provides Residuals: how far predictions were off on unseen data, and intervals from that.

This is cross-conformal prediction (Vovk, 2015) with signed residuals: what was predicted without a workload, or without
a whole chip, is compared with what was measured. An interval lies between two quantiles of these residuals, each
divided by the usual size for its operator.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from costhub.errors import ModelError
from costhub.models.latency.pools import Vector

KNOWN, NEW, MEASURED = "known", "new", "measured"
"""A device learned from; another one; and no prediction at all, but what another search would have found."""
LEVELS = np.linspace(0.0, 1.0, 201)
"""Levels of the quantiles that are kept."""
DRAWS = 4000
_SHRINKAGE = 20
"""An operator with this many residuals has a scale halfway between its own and that of all operators."""
_MOST = 50.0
"""For a logarithm in a file; e^50 exceeds the age of the universe in microseconds."""
_MOST_SHARED = 0.95
_LEAST_VARIANCE = 1e-6


@dataclass(frozen=True)
class Uncertain:
    """A figure, and the kind of residuals it may be off by."""

    log_us: float
    case: str
    """`KNOWN`, `NEW` or `MEASURED`."""
    family: str
    operator: str
    extra_variance: float = 0.0
    """Of the logarithm, beyond that of the residuals: a shorter search is more a matter of luck."""

    @property
    def us(self) -> float:
        """The figure in microseconds."""
        return math.exp(self.log_us)


@dataclass(frozen=True)
class Residuals:
    """Quantiles of residuals in natural logarithms, by case and family."""

    quantiles: Mapping[str, tuple[float, ...]]
    """"CASE/FAMILY" -> the residuals at `LEVELS`, each in units of its scale."""
    scales: Mapping[str, float]
    """"FAMILY/OPERATOR" -> the usual size of a residual."""
    shared: Mapping[str, float]
    """"CASE/FAMILY" -> the correlation of the residuals of two kernels of a network."""

    @classmethod
    def empty(cls) -> Residuals:
        """No residuals, for predictions that need no interval."""
        return cls({}, {}, {})

    def interval(self, figure: Uncertain, share: float) -> tuple[float, float]:
        """(low, high) in microseconds between which a share of such figures lies; it contains the figure itself.

        Raises:
            ModelError: There are no residuals of that case and family.
        """
        low, high = self._residuals(figure, np.array([(1 - share) / 2, (1 + share) / 2]))
        return figure.us * math.exp(min(low, 0.0)), figure.us * math.exp(max(high, 0.0))

    def draws(self, figures: Sequence[Uncertain], *, seed: int = 0) -> Vector:
        """(k, `DRAWS`) latencies that the figures may stand for, in microseconds.

        Residuals of predicted kernels vary together as those of the kernels of a network did.
        """
        from scipy.special import ndtr

        rng = np.random.default_rng(seed)
        common = rng.standard_normal(DRAWS)
        rows = []
        for figure in figures:
            shared = self.shared.get(f"{figure.case}/{figure.family}", 0.0)
            normal = math.sqrt(shared) * common + math.sqrt(1 - shared) * rng.standard_normal(DRAWS)
            rows.append(figure.us * np.exp(self._residuals(figure, ndtr(normal))))
        return np.array(rows)

    def _residuals(self, figure: Uncertain, levels: Vector) -> Vector:
        key = f"{figure.case}/{figure.family}"
        if key not in self.quantiles:
            raise ModelError(f"The predictor has no residuals of {key}, so it gives no interval there.")
        scale = 1.0 if figure.case == MEASURED else self.scale(figure.family, figure.operator)
        known = np.array(self.quantiles[key]) * scale
        found: Vector = np.interp(levels, LEVELS, known)
        if figure.extra_variance:
            middle, usual = np.median(known), max(float(np.var(known)), _LEAST_VARIANCE)
            found = middle + (found - middle) * math.sqrt(1 + figure.extra_variance / usual)
        return found

    def scale(self, family: str, operator: str) -> float:
        """The usual size of a residual of an operator."""
        return self.scales.get(f"{family}/{operator}", self.scales.get(f"{family}/", 1.0))

    def to_json(self) -> dict[str, Any]:
        """For `config.json`."""
        rounded = {key: [round(value, 5) for value in values] for key, values in self.quantiles.items()}
        return {"quantiles": rounded, "scales": dict(self.scales), "shared": dict(self.shared)}

    @classmethod
    def from_json(cls, content: Any) -> Residuals:
        """Reads and checks what `to_json` returned.

        Raises:
            ValueError: It is something else; the message is a phrase.
        """
        if not isinstance(content, Mapping) or set(content) != {"quantiles", "scales", "shared"}:
            raise ValueError("residuals need quantiles, scales and shared")
        quantiles = {str(key): tuple(map(float, values)) for key, values in content["quantiles"].items()}
        for key, values in quantiles.items():
            rising = all(a <= b for a, b in itertools.pairwise(values))
            if len(values) != len(LEVELS) or not rising or not all(abs(value) <= _MOST for value in values):
                raise ValueError(f"the quantiles {key!r:.40} are not {len(LEVELS)} rising numbers")
        scales = {str(key): float(value) for key, value in content["scales"].items()}
        if not all(0 < value <= _MOST for value in scales.values()):
            raise ValueError("a scale is not a positive number")
        shared = {str(key): float(value) for key, value in content["shared"].items()}
        if not all(0 <= value <= 1 for value in shared.values()):
            raise ValueError("a correlation is not from 0 to 1")
        return cls(quantiles, scales, shared)


@dataclass(frozen=True)
class Errors:
    """Residuals of one case and family, from which `Residuals` are made."""

    residual: Vector
    """(n,) log of the measured over the predicted latency."""
    operator: Sequence[str]
    group: Sequence[str]
    """The network and device that each belongs to."""


def scales_of(errors: Errors, family: str) -> dict[str, float]:
    """The usual size of a residual: the median for each operator and, under an empty name, for all."""
    size, operators = np.abs(errors.residual), np.array(errors.operator)
    whole = max(float(np.median(size)), 1e-3)
    found = {f"{family}/": whole}
    for name in sorted(set(errors.operator)):
        own = size[operators == name]
        found[f"{family}/{name}"] = (len(own) * float(np.median(own)) + _SHRINKAGE * whole) / (len(own) + _SHRINKAGE)
    return found


def quantiles_of(errors: Errors, family: str, scales: Mapping[str, float]) -> tuple[tuple[float, ...], float]:
    """The quantiles of residuals in units of their scales, and how those of one group correlate."""
    unit = np.array([scales.get(f"{family}/{name}", scales[f"{family}/"]) for name in errors.operator])
    scaled = errors.residual / unit
    quantiles = tuple(float(value) for value in np.quantile(scaled, LEVELS))
    return quantiles, shared_part(scaled, errors.group)


def shared_part(scaled: Vector, group: Sequence[str]) -> float:
    """The mean product of the normal scores of two members of one group, from 0 to 1.

    Example:
        >>> both = np.repeat(np.random.default_rng(0).normal(size=200), 2)
        >>> round(shared_part(both, [str(number // 2) for number in range(400)]), 1)
        0.9
    """
    from scipy.special import ndtri
    from scipy.stats import rankdata

    scores = ndtri(rankdata(scaled) / (len(scaled) + 1))
    _, places = np.unique(np.array(group), return_inverse=True)
    sums, squares = np.bincount(places, scores), np.bincount(places, scores**2)
    counts: npt.NDArray[np.intp] = np.bincount(places)
    pairs = float((counts * (counts - 1)).sum())
    if not pairs:
        return 0.0
    return float(np.clip((sums**2 - squares).sum() / pairs, 0.0, _MOST_SHARED))
