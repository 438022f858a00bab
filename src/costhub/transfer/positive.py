"""Provides PositiveScores: a model's scores in the form that TVM's evolutionary search needs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

# exp stays far from overflow and from zero; a score 20 spreads from the mean is an outlier either way.
MOST_SPREADS = 20.0

Scores = npt.NDArray[np.float64]


class PositiveScores:
    """Maps raw scores to positive ones, in the same order.

    TVM clamps scores at zero and uses them as weights when it samples parents: negative or NaN scores make
    its search a random one, silently (search_strategy/evolutionary_search.cc). It also keeps the best of
    several generations in one heap, scored by several calls, so the mapping must not depend on the batch:
    mean and spread are those of the first batch after `reset` and stay fixed until the next `reset`.

    Example:
        >>> scores = PositiveScores()
        >>> first = scores(np.array([-3.0, -1.0]))
        >>> bool((first > 0).all()), bool(scores(np.array([-1.0]))[0] == first[1])
        (True, True)
    """

    def __init__(self) -> None:
        self._mean: float | None = None
        self._spread = 1.0

    def reset(self) -> None:
        """Takes mean and spread anew from the next batch; called when the model has changed."""
        self._mean = None

    def __call__(self, raw: Scores) -> Scores:
        """Positive scores for (n,) finite raw ones."""
        if self._mean is None and len(raw):
            self._mean = float(raw.mean())
            self._spread = float(raw.std()) or 1.0
        standard = (raw - (self._mean or 0.0)) / self._spread
        positive: Scores = np.exp(np.clip(standard, -MOST_SPREADS, MOST_SPREADS))
        return positive
