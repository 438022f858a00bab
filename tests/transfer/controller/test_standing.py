"""Where a search stands: trials, tasks, the latency of all, and what may still be gained."""

from __future__ import annotations

import numpy as np
import pytest

from costhub.transfer.controller.allot import Allotment
from costhub.transfer.controller.batch import Batch
from costhub.transfer.controller.standing import standing

WEIGHTS = {"conv": 3.0, "relu": 1.0}


def batch(latency_s: float, waiting: float = 0.0) -> Batch:
    return Batch(np.full(4, latency_s), np.zeros(4), waiting=waiting)


def test_it_counts_what_an_earlier_search_has_measured() -> None:
    allotment = Allotment(WEIGHTS, trials=30)
    allotment.add("conv", Batch(np.full(20, 5e-6), np.zeros(20), waiting=0.0))

    now = standing(allotment)

    assert (now.trials, now.most, now.begun, now.tasks) == (20, 30, 1, 2)
    assert now.latency_us is None
    assert now.gain is None


def test_the_gain_is_a_share_of_the_latency_of_all() -> None:
    allotment = Allotment(WEIGHTS, trials=10)
    allotment.add("conv", batch(4e-6))
    allotment.add("relu", batch(2e-6, waiting=-np.inf))  # nothing waits, so nothing is gained

    now = standing(allotment)

    assert (now.trials, now.begun, now.latency_us) == (8, 2, pytest.approx(14.0))
    assert now.gain == pytest.approx(0.05 * 12 / 14)  # a record by chance: a tenth, in every second batch


def test_there_is_no_gain_where_nobody_knows_what_waits() -> None:
    allotment = Allotment({"conv": 1.0}, trials=10)
    allotment.add("conv", batch(4e-6))

    assert standing(allotment, foreseen=False).gain is None
