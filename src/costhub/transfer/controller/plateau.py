"""Provides Plateau: measuring ends where the best latency has not improved for some batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from costhub.transfer.controller.batch import Batch, best_after


@dataclass(frozen=True)
class Plateau:
    """Stops as a person watching the search curve would, without a model; defaults chosen as in `Certainty`.

    Example:
        >>> import numpy as np
        >>> batches = [Batch(np.array([ms]), np.zeros(1)) for ms in (4.0, 3.0, 2.99, 2.99)]
        >>> rule = Plateau(batches=2, gain=0.01)
        >>> [rule.goes_on(batches[:count]) for count in (1, 2, 3, 4)]
        [True, True, True, False]
    """

    batches: int = 5
    """How many of the last batches are looked at."""
    gain: float = 0.001
    """Share by which the best latency must have fallen over these batches for measuring to continue."""

    def __post_init__(self) -> None:
        if self.batches < 1:
            raise ValueError(f"batches must be at least 1, got {self.batches}.")

    def goes_on(self, batches: Sequence[Batch]) -> bool:
        """See `StopRule`; a task of which nothing runs has a plateau too."""
        if len(batches) <= self.batches:
            return True
        best = best_after(batches)
        return bool(best[-1] < (1.0 - self.gain) * best[-1 - self.batches])
