from __future__ import annotations

import math

import numpy as np
import pytest

from costhub.transfer.controller.batch import Batch
from costhub.transfer.controller.expected_gain import ExpectedGain
from costhub.transfer.controller.forecast import Forecast
from costhub.transfer.controller.task import Task


def task(latency_s: float, *, weight: float = 1.0, waiting: float = 0.0) -> Task:
    scores = np.linspace(-1.0, 0.0, 8)
    return Task("conv", weight, [Batch(latency_s * np.exp(-scores), scores, waiting)])


def test_it_is_the_time_that_the_network_gains() -> None:
    gain = ExpectedGain(Forecast(record_gain=0.0))

    assert gain(task(2e-3, weight=5.0, waiting=0.1)) == pytest.approx(5.0 * 2e-3 * 0.1)


def test_a_task_that_takes_longer_or_promises_more_comes_first() -> None:
    gain = ExpectedGain()

    assert gain(task(2.0)) > gain(task(1.0))
    assert gain(task(1.0, waiting=0.1)) > gain(task(1.0))


def test_a_task_of_which_nothing_ran_comes_last() -> None:
    assert ExpectedGain()(Task("conv", 1.0, [Batch(np.full(4, np.inf), np.zeros(4), 0.0)])) == -math.inf
