"""Provides Worthwhile: measuring ends where another batch is not expected to gain enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from costhub.transfer.controller.batch import Batch
from costhub.transfer.controller.forecast import Forecast


@dataclass(frozen=True)
class Worthwhile:
    """Asks `Forecast` after each batch.

    The defaults are those that lost less than 1 % on one half of the workloads of
    scripts/bench_controller.py, with batches of a sixteenth of the trials that a task gets by itself. On the
    other half they save as much as a fixed number of trials with the same loss would: the number of trials
    spent is the best sign of what is left to gain.

    Example:
        >>> import numpy as np
        >>> scores = np.array([-0.1, -0.2, -0.3, -0.4])
        >>> promising = Batch(np.exp(-scores), scores, waiting=-0.05)
        >>> spent = Batch(np.exp(-scores), scores, waiting=-2.0)
        >>> rule = Worthwhile(threshold=0.04)
        >>> rule.goes_on([promising, promising]), rule.goes_on([promising, spent])
        (True, False)
    """

    threshold: float = 0.01
    """Expected fall of the log latency, below which it ends."""
    forecast: Forecast = field(default_factory=Forecast)

    def goes_on(self, batches: Sequence[Batch]) -> bool:
        """See `StopRule`."""
        return self.forecast(batches) >= self.threshold
