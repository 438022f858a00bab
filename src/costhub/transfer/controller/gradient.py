"""Provides Gradient: the next task by the formula of TVM's scheduler, for comparison."""

from __future__ import annotations

import math
from dataclasses import dataclass

from costhub.transfer.controller.batch import best_after
from costhub.transfer.controller.task import Task


@dataclass(frozen=True)
class Gradient:
    """What `GradientBased`, the default scheduler of TVM MetaSchedule, asks of a task.

    weight * (alpha * (best of w batches ago - best) / w + (1 - alpha) * best / n) for n batches, the first
    term being 0 before there are more than w. It is the objective's gradient in *Ansor* (Zheng et al., 2020,
    section 6) without the term on similar tasks. A task of which nothing ran comes last, as there.

    Example:
        >>> import numpy as np
        >>> from costhub.transfer.controller.batch import Batch
        >>> task = Task("conv", 2.0, [Batch(np.array([ms]), np.zeros(1)) for ms in (9.0, 8.0, 6.0, 6.0)])
        >>> round(Gradient()(task), 6)  # 2 * (0.2 * (9 - 6) / 3 + 0.8 * 6 / 4)
        2.8
    """

    alpha: float = 0.2
    window: int = 3

    def __call__(self, task: Task) -> float:
        """See `Priority`, in seconds."""
        best = best_after(task.batches)
        if not math.isfinite(best[-1]):
            return -math.inf
        count, back = len(best), len(best) - 1 - self.window
        # TVM holds 1e10 seconds for what failed, which would make a first success the largest gain of all.
        fell = best[back] - best[-1] if back >= 0 and math.isfinite(best[back]) else 0.0
        return float(task.weight * (self.alpha * fell / self.window + (1.0 - self.alpha) * best[-1] / count))
