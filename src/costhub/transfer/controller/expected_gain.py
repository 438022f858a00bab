"""Provides ExpectedGain: the next task is the one that is expected to save the network the most time."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from costhub.transfer.controller.forecast import Forecast
from costhub.transfer.controller.task import Task


@dataclass(frozen=True)
class ExpectedGain:
    """Weight times best latency times the share of it that the next batch is expected to save.

    Example:
        >>> import numpy as np
        >>> from costhub.transfer.controller.batch import Batch
        >>> batch = Batch(np.array([2.0, 2.0, 2.0]), np.zeros(3), waiting=0.0)
        >>> round(ExpectedGain(Forecast(record_gain=0.1))(Task("conv", 3.0, [batch])), 6)
        0.3
    """

    forecast: Forecast = field(default_factory=Forecast)

    def __call__(self, task: Task) -> float:
        """See `Priority`, in seconds; a task of which nothing ran comes last."""
        best = task.best_s
        return task.weight * best * self.forecast(task.batches) if math.isfinite(best) else -math.inf
