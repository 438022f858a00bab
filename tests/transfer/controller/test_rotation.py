from __future__ import annotations

import numpy as np

from costhub.transfer.controller.batch import Batch
from costhub.transfer.controller.rotation import in_rotation
from costhub.transfer.controller.task import Task


def test_the_task_with_fewer_batches_comes_first_whatever_they_hold() -> None:
    batch = Batch(np.ones(9), np.zeros(9))

    assert in_rotation(Task("relu", 0.1, [batch])) > in_rotation(Task("conv", 99.0, [batch, batch]))
