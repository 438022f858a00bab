from __future__ import annotations

import numpy as np
import pytest

from costhub.transfer.controller.batch import Batch
from costhub.transfer.controller.plateau import Plateau


def told(*latencies: float) -> list[Batch]:
    return [Batch(np.array([ms]), np.zeros(1), waiting=0.0) for ms in latencies]


def test_a_gain_within_the_batches_that_count_goes_on_and_an_older_one_does_not() -> None:
    rule = Plateau(batches=3, gain=0.01)

    assert rule.goes_on(told(10.0, 8.0, 8.0, 8.0))
    assert not rule.goes_on(told(10.0, 8.0, 8.0, 8.0, 8.0))


@pytest.mark.parametrize(("gain", "goes_on"), [(0.019, True), (0.021, False)])
def test_small_gains_add_up_over_the_batches(gain: float, goes_on: bool) -> None:
    assert Plateau(batches=2, gain=gain).goes_on(told(1.0, 0.99, 0.98)) is goes_on


def test_a_worse_batch_is_no_gain() -> None:
    assert not Plateau(batches=1).goes_on(told(1.0, 2.0))


def test_the_first_program_that_runs_is_a_gain() -> None:
    assert Plateau(batches=2).goes_on(told(np.inf, np.inf, np.inf, 1.0))


def test_no_batches_at_all_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Plateau(batches=0)
