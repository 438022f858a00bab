"""Provides Allotment: shares a budget of trials over several tasks, batch by batch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from costhub.transfer.controller.batch import Batch
from costhub.transfer.controller.expected_gain import ExpectedGain
from costhub.transfer.controller.stop_rule import StopRule
from costhub.transfer.controller.task import Priority, Task


class Allotment:
    """Which task is measured next, until the budget is spent or no task is worth measuring.

    Every task gets one batch first. Then the next one goes to the task of the highest priority among those
    that have programs left and that the rule has not ended; what a task leaves goes to the others.

    Args:
        weights: Task -> how often it occurs in the network.
        trials: Programs to measure, of all tasks together.
        priority: Compares tasks; by the time that the network is expected to gain, by default.
        rule: Ends the measuring of a task; without one, the whole budget is spent.

    Raises:
        ValueError: There are no tasks, or a weight is not positive.

    Example:
        >>> import numpy as np
        >>> allotment = Allotment({"conv": 8.0, "relu": 1.0}, trials=12)
        >>> order = []
        >>> while (name := allotment.next_task()) is not None:
        ...     order.append(name)
        ...     allotment.add(name, Batch(np.array([1.0, 1.1, 1.2]), np.zeros(3), waiting=0.0))
        >>> order
        ['conv', 'relu', 'conv', 'conv']
    """

    def __init__(
        self,
        weights: Mapping[str, float],
        *,
        trials: int,
        priority: Priority | None = None,
        rule: StopRule | None = None,
    ) -> None:
        if not weights or not all(0.0 < weight < math.inf for weight in weights.values()):
            raise ValueError(f"Each task needs a weight above 0, got {dict(weights)}.")
        self.tasks = {name: Task(name, weight) for name, weight in weights.items()}
        self.trials = trials
        self.priority = ExpectedGain() if priority is None else priority
        self.rule = rule

    @property
    def left(self) -> int:
        """Trials that are not spent; the last batch may have to be a smaller one."""
        return max(0, self.trials - sum(task.trials for task in self.tasks.values()))

    @property
    def latency_s(self) -> float:
        """Weighted sum of the best latencies in seconds; infinite while a task has none."""
        return sum(task.weight * task.best_s for task in self.tasks.values())

    @property
    def most(self) -> int:
        """How many trials the next batch may take, so that each task gets a first one."""
        fresh = sum(not task.batches and not task.exhausted for task in self.tasks.values())
        return max(1, self.left // fresh) if fresh else self.left

    def next_task(self) -> str | None:
        """The name of the task to measure next, None where measuring is over.

        Of equals the one that came first.
        """
        if not self.left:
            return None
        for task in self.tasks.values():
            if not task.batches and not task.exhausted:
                return task.name
        open_tasks = [task for task in self.tasks.values() if task.batches and self._goes_on(task)]
        return max(open_tasks, key=self.priority).name if open_tasks else None

    def add(self, name: str, batch: Batch) -> None:
        """Tells what was measured of a task.

        Raises:
            KeyError: There is no such task.
        """
        task = self.tasks[name]
        task.batches.append(batch)
        task.exhausted = batch.waiting == -math.inf

    def foresee(self, name: str, waiting: float) -> None:
        """Tells what waits after the last batch of a task, see `Batch.waiting`.

        Raises:
            KeyError: There is no such task.
        """
        task = self.tasks[name]
        self.add(name, replace(task.batches.pop(), waiting=waiting))

    def close(self, name: str) -> None:
        """Tells that a task has no more programs; its trials go to the others.

        Raises:
            KeyError: There is no such task.
        """
        self.tasks[name].exhausted = True

    def _goes_on(self, task: Task) -> bool:
        return not task.exhausted and (self.rule is None or self.rule.goes_on(task.batches))
