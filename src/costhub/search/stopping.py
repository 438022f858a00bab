"""Provides SmallGain: the rule that ends a search of `costhub tune` when another batch promises too little."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from costhub.search.scheduler import ExpectedGain, GainEstimate, ScheduledTask, TaskScheduler


@dataclass(frozen=True)
class SmallGain:
    """Ends a search when one more batch of every task is expected to save less than a share of the latency.

    The latency is that of all tasks, each times its calls, so kernels that take little of a network's time do not
    keep its search going. What a batch is expected to save is a `GainEstimate`: the model's promise for the waiting
    programs, on the scale of what was measured, plus a record by chance. Every task gets a first batch in any case;
    a task in which nothing has run yet is measured after the others until it has had `patience` batches. If nothing
    runs in any task, no batch can be judged, and all trials are spent.

    The defaults were chosen with scripts/bench/search/stopping.py.

    Example:
        >>> import numpy as np
        >>> from costhub.search.scheduler import TrialBatch
        >>> scheduler = TaskScheduler({"conv": 2.0}, trials=64, rule=SmallGain(worth=0.02))
        >>> scores = np.array([-0.1, -0.2, -0.3, -0.4])
        >>> scheduler.add("conv", TrialBatch(np.exp(-scores), scores, waiting=0.2))
        >>> scheduler.next_task()
        'conv'
        >>> scheduler.add("conv", TrialBatch(np.exp(-scores), scores, waiting=-0.6))
        >>> scheduler.next_task(), scheduler.stopped
        (None, 'One more batch of every kernel is expected to save 1 % of the latency (less than 2 %).')

        A task whose programs all failed has no latency to improve on, and gets more batches:

        >>> failing = TaskScheduler({"conv": 2.0}, trials=64, rule=SmallGain(patience=2))
        >>> failing.add("conv", TrialBatch(np.full(4, np.inf), scores, waiting=-0.6))
        >>> failing.next_task()
        'conv'
    """

    worth: float = 0.004
    """Share of the latency that one more batch of every task must be expected to save."""
    estimate: GainEstimate = field(default_factory=lambda: GainEstimate(record_gain=0.03))
    """The estimate for one task."""
    patience: int = 4
    """How many batches a task gets in which nothing has run."""

    def reason_to_stop(self, task: ScheduledTask, scheduler: TaskScheduler) -> str | None:
        """See `StopRule`; all tasks in which something has run end together."""
        if not math.isfinite(task.best_s) and len(task.batches) < self.patience:
            return None
        running = [each for each in scheduler.tasks.values() if math.isfinite(each.best_s)]
        latency_s = sum(each.weight * each.best_s for each in running)
        saved_s = sum(ExpectedGain(self.estimate)(each) for each in running)
        if not running or saved_s >= self.worth * latency_s:
            return None
        share = f"{saved_s / latency_s * 100:.2g} % of the latency (less than {self.worth * 100:.2g} %)"
        return f"One more batch of every kernel is expected to save {share}."
