"""Non-default ways to spend a budget of trials: the task schedulers of TVM, and stop rules.

`GradientBased` is after *Ansor* (Zheng et al., OSDI 2020, section 6); scripts/bench/transfer/controller.py compares
them all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from costhub.search.scheduler import GainEstimate, ScheduledTask, TaskRule, TrialBatch, best_after


@dataclass(frozen=True)
class GradientBased:
    """The priority of a task in `GradientBased`, the default task scheduler of TVM MetaSchedule.

    weight * (alpha * (best of w batches ago - best) / w + (1 - alpha) * best / n) for n batches; the first term is 0
    before there are more than w. It is the gradient of Ansor's objective without the term on similar tasks. A task
    without a successful program comes last, as in TVM.

    Example:
        >>> import numpy as np
        >>> task = ScheduledTask("conv", 2.0, [TrialBatch(np.array([ms]), np.zeros(1)) for ms in (9.0, 8.0, 6.0, 6.0)])
        >>> round(GradientBased()(task), 6)  # 2 * (0.2 * (9 - 6) / 3 + 0.8 * 6 / 4)
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
        # TVM stores 1e10 seconds for failures, which would make a first success the largest gain of all.
        fell = best[back] - best[-1] if back >= 0 and math.isfinite(best[back]) else 0.0
        return float(task.weight * (self.alpha * fell / self.window + (1.0 - self.alpha) * best[-1] / count))


def fewest_batches_first(task: ScheduledTask) -> float:
    """A `Priority`: the task with the fewest batches comes next.

    Example:
        >>> fewest_batches_first(ScheduledTask("conv", weight=9.0)) == fewest_batches_first(ScheduledTask("relu"))
        True
    """
    return -float(len(task.batches))


@dataclass(frozen=True)
class Plateau(TaskRule):
    """Stops when the best latency has not improved for some batches, without consulting the model.

    The defaults were chosen as for `CoefficientOfVariation`.

    Example:
        >>> import numpy as np
        >>> batches = [TrialBatch(np.array([ms]), np.zeros(1)) for ms in (4.0, 3.0, 2.99, 2.99)]
        >>> rule = Plateau(batches=2, gain=0.01)
        >>> [rule.should_continue(batches[:count]) for count in (1, 2, 3, 4)]
        [True, True, True, False]
    """

    batches: int = 5
    """How many of the last batches are looked at."""
    gain: float = 0.001
    """Share by which the best latency must have fallen over these batches for measuring to continue."""

    def __post_init__(self) -> None:
        if self.batches < 1:
            raise ValueError(f"batches must be at least 1, got {self.batches}.")

    def should_continue(self, batches: Sequence[TrialBatch]) -> bool:
        """See `StopRule`; a task without a successful program also has a plateau."""
        if len(batches) <= self.batches:
            return True
        best = best_after(batches)
        return bool(best[-1] < (1.0 - self.gain) * best[-1 - self.batches])


@dataclass(frozen=True)
class ExpectedGainStop(TaskRule):
    """Asks `GainEstimate` after each batch.

    The defaults are those that lost less than 1 % on one half of the workloads of
    scripts/bench/transfer/controller.py, with batches of a sixteenth of a task's own trials. On the
    other half they save as much as a fixed number of trials with the same loss would: the number of trials
    spent is the best indicator of the remaining gain.

    Example:
        >>> import numpy as np
        >>> scores = np.array([-0.1, -0.2, -0.3, -0.4])
        >>> promising = TrialBatch(np.exp(-scores), scores, waiting=-0.05)
        >>> spent = TrialBatch(np.exp(-scores), scores, waiting=-2.0)
        >>> rule = ExpectedGainStop(threshold=0.04)
        >>> rule.should_continue([promising, promising]), rule.should_continue([promising, spent])
        (True, False)
    """

    threshold: float = 0.01
    """Expected fall of the log latency, below which it ends."""
    estimate: GainEstimate = field(default_factory=GainEstimate)

    def should_continue(self, batches: Sequence[TrialBatch]) -> bool:
        """See `StopRule`."""
        return self.estimate(batches) >= self.threshold
