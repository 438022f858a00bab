"""Provides Batch: what was measured of a task at a time, and what the model said of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from costhub.dataset.programs import BoolArray
from costhub.models.protocol import Scores


@dataclass(frozen=True)
class Batch:
    """Programs of one task that were measured together.

    Example:
        >>> first = Batch(np.array([2e-3, np.inf]), np.array([-0.1, -0.2]), waiting=-0.3)
        >>> first.n, first.is_ok.tolist()
        (2, [True, False])
    """

    latency_s: Scores
    """(b,) in seconds; infinite for a program that failed."""
    scores: Scores
    """(b,) what the model gave them before they were measured, higher is faster."""
    waiting: float = -math.inf
    """Score of the best program not yet measured, by the model that has learned from this batch; -inf where
    none is left."""

    def __post_init__(self) -> None:
        if self.latency_s.ndim != 1 or self.latency_s.shape != self.scores.shape or not len(self.scores):
            raise ValueError(
                "A batch has one latency and one score for each of its programs, got shapes "
                f"{self.latency_s.shape} and {self.scores.shape}."
            )

    @property
    def n(self) -> int:
        """Number of programs."""
        return len(self.latency_s)

    @property
    def is_ok(self) -> BoolArray:
        """(b,) whether the program ran."""
        return np.isfinite(self.latency_s)


def best_after(batches: Sequence[Batch]) -> Scores:
    """(t,) best latency in seconds after each of t batches; infinite as long as nothing ran.

    Example:
        >>> batches = [Batch(np.array([ms]), np.zeros(1)) for ms in (np.inf, 4.0, 5.0, 3.0)]
        >>> best_after(batches).tolist()
        [inf, 4.0, 4.0, 3.0]
    """
    best: Scores = np.minimum.accumulate(np.array([batch.latency_s.min() for batch in batches]))
    return best
