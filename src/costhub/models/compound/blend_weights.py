"""Provides Standard, the common scale of the members of a blend, and fitted_weights."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from costhub.dataset.programs import IntArray, Programs
from costhub.errors import DataError, ModelError
from costhub.models.evaluation.evaluate import evaluate_scores
from costhub.models.protocol import Scores

_STEPS = 4
"""Weights are multiples of 1 / _STEPS: finer ones would follow the noise of a few held-out workloads."""


@dataclass(frozen=True)
class Standard:
    """Mean, spread and weight of each member; fixed when the blend is fitted."""

    mean: Scores
    """(m,) mean score over the training programs."""
    spread: Scores
    """(m,) root mean square distance of a score from the mean of its group; 1 for a member that is constant
    within all groups."""
    weight: Scores
    """(m,) weights, adding up to 1."""

    @classmethod
    def of(cls, scores: Scores, group: IntArray) -> Standard:
        """The scale of (m, n) scores of programs of the (n,) groups, with equal weights.

        Example:
            >>> Standard.of(np.array([[1.0, 3.0, 9.0, 9.0]]), np.array([0, 0, 1, 1])).spread.round(3).tolist()
            [0.707]
        """
        size = np.bincount(group)
        centres = np.stack([np.bincount(group, weights=own) / np.maximum(size, 1) for own in scores])
        spread = np.sqrt(((scores - centres[:, group]) ** 2).mean(axis=1))
        constant = spread <= 1e-12 * (1.0 + np.abs(scores).max(axis=1))
        weight = np.full(len(scores), 1.0 / len(scores))
        return cls(scores.mean(axis=1), np.where(constant, 1.0, spread), weight)

    def __call__(self, scores: Scores) -> Scores:
        """(m, n) scores on the common scale."""
        return (scores - self.mean[:, None]) / self.spread[:, None]

    def to_json(self) -> dict[str, list[float]]:
        """The three as lists; JSON keeps every digit of a double."""
        return {name: values.tolist() for name, values in asdict(self).items()}

    @classmethod
    def from_json(cls, found: object, *, members: int) -> Standard:
        """Reads what `to_json` gave, from an untrusted file.

        Raises:
            ModelError: It is no list of a finite number for each member, or a spread or weight is of no use.
        """
        names = [field.name for field in fields(cls)]
        if isinstance(found, dict) and all(_are_numbers(found.get(name), members) for name in names):
            standard = cls(*(np.array(found[name], np.float64) for name in names))
            if (standard.spread > 0.0).all() and (standard.weight >= 0.0).all():
                return standard
        raise ModelError(
            f"standard of this blend model must be {', '.join(names)} with a finite number for each of its "
            f"{members} members, the spreads above and the weights not below 0; fetch it again."
        )


def fitted_weights(standardised: Scores, valid: Programs) -> Scores:
    """The weights of a coarse grid under which the validation programs are ranked best.

    Best is the sum of `top_1` and `pairwise`; of equally good ones those closest to equal weights.

    Args:
        standardised: (m, n) scores of the validation programs.
        valid: The programs.

    Returns:
        (m,) weights, adding up to 1.
    """
    members = len(standardised)
    equal = np.full(members, 1.0 / members)
    # Farthest first, so that the last of equally good ones is the closest.
    grid = sorted([equal, *_grid(members)], key=lambda weight: -float(np.abs(weight - equal).sum()))
    best, chosen = -math.inf, equal
    for weight in grid:
        try:
            found = evaluate_scores(weight @ standardised, valid)
        except DataError:  # the programs differ by less than the noise, so nothing tells weights apart
            return equal
        if found.top_1 + found.pairwise >= best:
            best, chosen = found.top_1 + found.pairwise, weight
    return chosen


def _grid(members: int) -> Iterator[Scores]:
    """All weights that are multiples of 1 / _STEPS."""
    for bars in itertools.combinations(range(_STEPS + members - 1), members - 1):
        yield (np.diff([-1, *bars, _STEPS + members - 1]) - 1) / _STEPS


def _are_numbers(values: Any, members: int) -> bool:
    return (
        isinstance(values, list)
        and len(values) == members
        and all(type(value) in (int, float) and math.isfinite(value) for value in values)
    )
