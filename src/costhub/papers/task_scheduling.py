"""Other ways to spend a budget of trials: the task schedulers of TVM and Ansor, and stop rules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from costhub.search.scheduler import GainEstimate, ScheduledTask, TrialBatch, best_after


@dataclass(frozen=True)
class GradientBased:
    """What `GradientBased`, the default scheduler of TVM MetaSchedule, asks of a task.

    weight * (alpha * (best of w batches ago - best) / w + (1 - alpha) * best / n) for n batches, the first
    term being 0 before there are more than w. It is the objective's gradient in *Ansor* (Zheng et al., 2020,
    section 6) without the term on similar tasks. A task without a program that ran comes last, as in TVM.

    Example:
        >>> import numpy as np
        >>> from costhub.search.scheduler import TrialBatch
        >>> task = Task("conv", 2.0, [Batch(np.array([ms]), np.zeros(1)) for ms in (9.0, 8.0, 6.0, 6.0)])
        >>> round(Gradient()(task), 6)  # 2 * (0.2 * (9 - 6) / 3 + 0.8 * 6 / 4)
        2.8
    """

    alpha: float = 0.2
    window: int = 3

    def __call__(self, task: ScheduledTask) -> float:
        """See `Priority`, in seconds."""
        best = best_after(task.batches)
        if not math.isfinite(best[-1]):
            return -math.inf
        count, back = len(best), len(best) - 1 - self.window
        # TVM holds 1e10 seconds for what failed, which would make a first success the largest gain of all.
        fell = best[back] - best[-1] if back >= 0 and math.isfinite(best[back]) else 0.0
        return float(task.weight * (self.alpha * fell / self.window + (1.0 - self.alpha) * best[-1] / count))


def fewest_batches_first(task: ScheduledTask) -> float:
    """A `Priority`: the task with the fewest batches comes next.

    Example:
        >>> in_rotation(Task("conv", weight=9.0)) == in_rotation(Task("relu"))
        True
    """
    return -float(len(task.batches))


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

    def goes_on(self, batches: Sequence[TrialBatch]) -> bool:
        """See `StopRule`; a task without a program that runs has a plateau, too."""
        if len(batches) <= self.batches:
            return True
        best = best_after(batches)
        return bool(best[-1] < (1.0 - self.gain) * best[-1 - self.batches])


@dataclass(frozen=True)
class ExpectedGainStop:
    """Asks `Forecast` after each batch.

    The defaults are those that lost less than 1 % on one half of the workloads of
    scripts/bench/transfer/controller.py, with batches of a sixteenth of the trials that a task gets by itself. On the
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
    forecast: GainEstimate = field(default_factory=GainEstimate)

    def goes_on(self, batches: Sequence[TrialBatch]) -> bool:
        """See `StopRule`."""
        return self.forecast(batches) >= self.threshold
