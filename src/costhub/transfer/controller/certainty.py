"""Provides Certainty: measuring ends where the model's predictions no longer vary (Moses, section 3.5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from costhub.transfer.controller.batch import Batch


@dataclass(frozen=True)
class Certainty:
    """The adaptive controller of Moses (Zhao et al., 2022, section 3.5).

    A task's trials are split into a measured and a predicted part. The measured part goes out in batches;
    after each the coefficient of variation sigma / mu of the model's outcome over the last ones is taken, and
    measuring ends early where it falls below a threshold. Moses gives no numbers. The outcome is taken as the
    predicted throughput, the exponential of the score, since a mean that may be 0 has no such coefficient.
    The defaults are what scripts/bench_controller.py chose.

    Example:
        >>> batches = [Batch(np.ones(2), np.array(scores)) for scores in ([-1.0, -2.0], [-0.5, -0.51])]
        >>> rule = Certainty(trials=64, window=1)
        >>> rule.goes_on(batches[:1]), rule.goes_on(batches)
        (True, False)
    """

    trials: int
    """Trials of the task in all."""
    share: float = 0.75
    """Largest share of the trials that is measured, in (0, 1]."""
    threshold: float = 0.01
    window: int = 2
    """Batches over which the coefficient is taken; until there are so many, measuring continues."""

    def __post_init__(self) -> None:
        if not 0.0 < self.share <= 1.0 or self.window < 1:
            raise ValueError(
                "share must be above 0 and at most 1 and window at least 1, "
                f"got {self.share} and {self.window}."
            )

    def goes_on(self, batches: Sequence[Batch]) -> bool:
        """See `StopRule`."""
        if sum(batch.n for batch in batches) >= self.share * self.trials:
            return False
        if len(batches) < self.window:
            return True
        return variation(batches[-self.window :]) >= self.threshold


def variation(batches: Sequence[Batch]) -> float:
    """Standard deviation / mean of the throughput that the model predicted for the programs of some batches.

    Example:
        >>> round(variation([Batch(np.ones(2), np.log([1.0, 3.0]))]), 6)
        0.5
    """
    scores = np.concatenate([batch.scores for batch in batches])
    outcome = np.exp(scores - scores.max())  # The coefficient does not change, and nothing overflows.
    return float(outcome.std() / outcome.mean())
