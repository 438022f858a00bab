from __future__ import annotations

import math

import numpy as np

from costhub.transfer.controller.batch import Batch
from costhub.transfer.controller.task import Task


def test_a_task_counts_its_trials_and_knows_its_best() -> None:
    task = Task("conv", 2.0)
    assert (task.trials, task.best_s, task.exhausted) == (0, math.inf, False)

    task.batches += [Batch(np.array([3.0, np.inf]), np.zeros(2)), Batch(np.array([4.0]), np.zeros(1))]

    assert (task.trials, task.best_s) == (3, 3.0)
