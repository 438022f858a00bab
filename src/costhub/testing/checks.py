"""Provides the checks that properties are made of; each failure is a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from costhub.dataset.programs import Programs
from costhub.errors import ModelError
from costhub.models.evaluation.metrics import pairwise
from costhub.models.protocol import CostModel, Scores


def require(condition: object, sentence: str) -> None:
    """Raises AssertionError with the sentence unless the condition holds; `python -O` drops `assert`."""
    if not condition:
        raise AssertionError(sentence)


def require_equal(found: Scores, expected: Scores, what: str, *, tolerance: float = 1e-4) -> None:
    """Refuses scores that differ by more than rounding.

    Args:
        found: (n,) scores.
        expected: (n,) scores.
        what: Says which scores must be equal to which, for the message.
        tolerance: Largest difference, as a share of the standard deviation of the scores. At 0 they must be
            equal to the last digit.
    """
    if not len(expected):
        return
    # Single precision has seven digits, so scores far from 0 differ by more.
    most = tolerance * float(expected.std()) + bool(tolerance) * 1e-6 * float(np.abs(expected).max())
    distance = np.abs(found - expected)
    odd = int((distance > most).sum())
    require(not odd, f"{what}, but {odd} of {len(expected)} scores differ by up to {distance.max():.3g}.")


def require_model_error(use: Callable[[], object], what: str) -> None:
    """Refuses a call that does not end in a `ModelError`.

    Args:
        use: Makes the call.
        what: Says what is called, for the message.
    """
    try:
        use()
    except ModelError:
        return
    except Exception as error:
        raise AssertionError(f"{what} must raise ModelError, but raised {type(error).__name__}.") from error
    raise AssertionError(f"{what} must raise ModelError, but did not.")


def scores_of(model: CostModel, programs: Programs) -> Scores:
    """(n,) scores, after checking that they are a finite double for each program."""
    scores: Any = model.predict(programs.rows, programs.counts)
    said = f"{getattr(scores, 'dtype', type(scores).__name__)} of shape {getattr(scores, 'shape', None)}"
    good = isinstance(scores, np.ndarray) and scores.shape == (programs.n,) and scores.dtype == np.float64
    require(good, f"predict must return float64 of shape {(programs.n,)}, got {said}.")
    odd = int((~np.isfinite(scores)).sum())
    require(not odd, f"{odd} of {programs.n} scores are NaN or infinite.")
    checked: Scores = scores
    return checked


def agreement(model: CostModel, programs: Programs) -> float:
    """Share of the measured pairs within a group that the model has in the right order; 0.5 is chance."""
    programs = programs.measured()
    scores = scores_of(model, programs)
    groups = [programs.group == number for number in np.unique(programs.group)]
    shares = [
        pairwise(scores[own], programs.latency_s[own], noise_floor=0.0)
        for own in groups
        if np.ptp(programs.latency_s[own]) > 0.0
    ]
    return float(np.mean(shares))
