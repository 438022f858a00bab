from __future__ import annotations

import math

import numpy as np
import pytest

from costhub.transfer.controller.batch import Batch
from costhub.transfer.controller.gradient import Gradient
from costhub.transfer.controller.task import Task


def task(*latencies: float, weight: float = 1.0) -> Task:
    return Task("conv", weight, [Batch(np.array([s]), np.zeros(1), 0.0) for s in latencies])


def test_before_the_window_is_full_only_the_mean_counts() -> None:
    assert Gradient()(task(9.0, 6.0, 6.0)) == pytest.approx(0.8 * 6.0 / 3)


def test_the_fall_over_the_window_is_added() -> None:
    assert Gradient(alpha=0.5, window=2)(task(20.0, 9.0, 6.0, 5.0)) == pytest.approx(
        0.5 * 4.0 / 2 + 0.5 * 5.0 / 4
    )


def test_weights_multiply() -> None:
    assert Gradient()(task(3.0, 2.0, weight=7.0)) == pytest.approx(7 * Gradient()(task(3.0, 2.0)))


def test_a_task_of_which_nothing_ran_comes_last_and_its_first_success_is_no_fall() -> None:
    assert Gradient()(task(np.inf, np.inf)) == -math.inf
    assert Gradient()(task(np.inf, np.inf, np.inf, 4.0)) == pytest.approx(0.8 * 4.0 / 4)
