"""The rules that end a search before its trials are spent."""

from __future__ import annotations

import numpy as np
import pytest

from costhub.search.options import SEARCH_STOPS
from costhub.search.scheduler import GainEstimate, TaskScheduler, TrialBatch, search_progress
from costhub.search.stopping import SmallGain
from costhub.transfer.stopping import SpendAll

SCORES = np.array([-0.1, -0.2, -0.3, -0.4])


def batch(waiting: float, *, scale: float = 1.0) -> TrialBatch:
    """Four programs whose scores are right; `waiting` is the score of what comes next."""
    return TrialBatch(scale * np.exp(-SCORES), SCORES, waiting=waiting)


def scheduler_of(rule: SmallGain | SpendAll, **weights: float) -> TaskScheduler:
    return TaskScheduler(weights, trials=64, rule=rule)


def foreseen(worth: float) -> SmallGain:
    """A rule that counts what the model foresees alone."""
    return SmallGain(worth=worth, estimate=GainEstimate(record_gain=0.0))


def test_a_search_goes_on_as_long_as_the_next_batch_promises_enough() -> None:
    scheduler = scheduler_of(foreseen(0.05), conv=1.0)
    scheduler.add("conv", batch(waiting=-0.04))  # 6 % better than the best so far

    assert scheduler.next_task() == "conv"
    assert scheduler.stopped is None


def test_it_ends_where_the_next_batch_promises_less_and_says_how_much() -> None:
    scheduler = scheduler_of(foreseen(0.05), conv=1.0)
    scheduler.add("conv", batch(waiting=-0.06))

    assert scheduler.next_task() is None
    assert scheduler.stopped == (
        "One more batch of every kernel is expected to save 4 % of the latency (less than 5 %)."
    )


def test_a_kernel_that_takes_little_of_the_time_does_not_keep_the_search_going() -> None:
    small, large = (scheduler_of(foreseen(0.01), large=99.0, small=weight) for weight in (1.0, 99.0))
    for scheduler in (small, large):
        scheduler.add("large", batch(waiting=-0.3))
        scheduler.add("small", batch(waiting=0.1))  # promises 20 %

    assert small.next_task() is None
    assert large.next_task() == "small"


def test_every_kernel_gets_a_first_batch() -> None:
    scheduler = scheduler_of(foreseen(0.5), first=1.0, second=1e-6)
    scheduler.add("first", batch(waiting=-9.0))

    assert scheduler.next_task() == "second"


def test_a_kernel_of_which_nothing_ran_is_tried_some_times() -> None:
    scheduler = scheduler_of(SmallGain(patience=3), conv=1.0)
    taken = 0
    while scheduler.next_task() is not None:
        scheduler.add("conv", TrialBatch(np.full(4, np.inf), SCORES, waiting=0.0))
        taken += 1

    assert taken == 16  # nothing runs at all: no rule can say what the rest would bring

    rule = SmallGain(worth=0.05, estimate=GainEstimate(record_gain=0.0), patience=3)
    both = scheduler_of(rule, conv=1.0, relu=1.0)
    both.add("relu", batch(waiting=-0.5))
    for _ in range(3):
        both.add("conv", TrialBatch(np.full(4, np.inf), SCORES, waiting=0.0))
        both.add("relu", batch(waiting=-0.5))
    assert both.next_task() is None


def test_a_kernel_of_which_nothing_ran_gets_its_batches_although_the_others_are_done() -> None:
    rule = SmallGain(worth=0.05, estimate=GainEstimate(record_gain=0.0), patience=3)
    scheduler = scheduler_of(rule, conv=1.0, relu=1.0)
    measured = []
    while (name := scheduler.next_task()) is not None:
        failed = TrialBatch(np.full(4, np.inf), SCORES, waiting=0.0)
        scheduler.add(name, failed if name == "conv" else batch(waiting=-0.5))
        measured.append(name)

    assert measured == ["conv", "relu", "conv", "conv"]


def test_records_by_chance_keep_a_search_going_for_a_while_only() -> None:
    taken = []
    for worth in (0.005, 0.01):
        scheduler = scheduler_of(SmallGain(worth=worth, estimate=GainEstimate(record_gain=0.03)), conv=1.0)
        while scheduler.next_task() is not None:
            scheduler.add("conv", batch(waiting=-9.0))
        taken.append(len(scheduler.tasks["conv"].batches))

    assert taken == [6, 3]


def test_progress_expects_what_the_rule_compares() -> None:
    """The first two have equal batches, but one has an estimate of its own; the rule of the third has none."""
    rules = (SmallGain(worth=0.01, estimate=GainEstimate(record_gain=0.03)), foreseen(0.01), SpendAll())
    gains = []
    for rule in rules:
        scheduler = scheduler_of(rule, conv=1.0)
        scheduler.add("conv", batch(waiting=-9.0))
        gains.append(search_progress(scheduler).gain)

    assert gains == pytest.approx([0.015, 0.0, 0.05])


def test_never_spends_all_trials() -> None:
    scheduler = scheduler_of(SpendAll(), conv=1.0)
    while scheduler.next_task() is not None:
        scheduler.add("conv", batch(waiting=-9.0))

    assert (scheduler.left, scheduler.stopped) == (0, None)


@pytest.mark.parametrize("name", ["gain", "never", "variation"])
def test_every_rule_can_be_made_by_its_name(name: str) -> None:
    scheduler = TaskScheduler({"conv": 1.0}, trials=400, rule=SEARCH_STOPS.find(name)())
    scheduler.add("conv", batch(waiting=0.3))

    assert scheduler.next_task() == "conv"
