"""What every rule keeps."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.papers.moses import CoefficientOfVariation
from costhub.papers.task_scheduling import ExpectedGainStop, GradientBased, Plateau, fewest_batches_first
from costhub.search.scheduler import GainEstimate, ScheduledTask, TaskRule, TrialBatch


def task(*latencies: float, weight: float = 1.0) -> ScheduledTask:
    return ScheduledTask("conv", weight, [TrialBatch(np.array([s]), np.zeros(1), 0.0) for s in latencies])


def test_before_the_window_is_full_only_the_mean_counts() -> None:
    assert GradientBased()(task(9.0, 6.0, 6.0)) == pytest.approx(0.8 * 6.0 / 3)


def test_the_fall_over_the_window_is_added() -> None:
    assert GradientBased(alpha=0.5, window=2)(task(20.0, 9.0, 6.0, 5.0)) == pytest.approx(0.5 * 4.0 / 2 + 0.5 * 5.0 / 4)


def test_weights_multiply() -> None:
    assert GradientBased()(task(3.0, 2.0, weight=7.0)) == pytest.approx(7 * GradientBased()(task(3.0, 2.0)))


def test_a_task_of_which_nothing_ran_comes_last_and_its_first_success_is_no_fall() -> None:
    assert GradientBased()(task(np.inf, np.inf)) == -math.inf
    assert GradientBased()(task(np.inf, np.inf, np.inf, 4.0)) == pytest.approx(0.8 * 4.0 / 4)


def test_the_task_with_fewer_batches_comes_first_whatever_they_hold() -> None:
    batch = TrialBatch(np.ones(9), np.zeros(9))

    assert fewest_batches_first(ScheduledTask("relu", 0.1, [batch])) > fewest_batches_first(
        ScheduledTask("conv", 99.0, [batch, batch])
    )


def told(*latencies: float) -> list[TrialBatch]:
    return [TrialBatch(np.array([ms]), np.zeros(1), waiting=0.0) for ms in latencies]


def test_a_gain_within_the_batches_that_count_goes_on_and_an_older_one_does_not() -> None:
    rule = Plateau(batches=3, gain=0.01)

    assert rule.should_continue(told(10.0, 8.0, 8.0, 8.0))
    assert not rule.should_continue(told(10.0, 8.0, 8.0, 8.0, 8.0))


@pytest.mark.parametrize(("gain", "should_continue"), [(0.019, True), (0.021, False)])
def test_small_gains_add_up_over_the_batches(gain: float, should_continue: bool) -> None:
    assert Plateau(batches=2, gain=gain).should_continue(told(1.0, 0.99, 0.98)) is should_continue


def test_a_worse_batch_is_no_gain() -> None:
    assert not Plateau(batches=1).should_continue(told(1.0, 2.0))


def test_the_first_program_that_runs_is_a_gain() -> None:
    assert Plateau(batches=2).should_continue(told(np.inf, np.inf, np.inf, 1.0))


def test_no_batches_at_all_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Plateau(batches=0)


def batch(waiting: float) -> TrialBatch:
    scores = np.linspace(-1.0, 0.0, 8)
    return TrialBatch(np.exp(-scores), scores, waiting)


def test_it_ends_where_the_estimate_falls_below_the_threshold() -> None:
    rule = ExpectedGainStop(threshold=0.02, estimate=GainEstimate(record_gain=0.0))

    assert rule.should_continue([batch(0.03)])
    assert not rule.should_continue([batch(0.01)])


def test_it_ends_where_nothing_waits() -> None:
    assert not ExpectedGainStop().should_continue([batch(-np.inf)])


def test_a_threshold_of_nothing_never_ends() -> None:
    assert ExpectedGainStop(threshold=0.0).should_continue([batch(-9.0)] * 500)


def test_a_higher_threshold_ends_no_later() -> None:
    batches = [batch(waiting) for waiting in np.linspace(0.2, -0.5, 30)]
    ends = [
        next(count for count in range(1, 31) if not ExpectedGainStop(t).should_continue(batches[:count]))
        for t in (0.005, 0.01, 0.02, 0.05)
    ]

    assert ends == sorted(ends, reverse=True)
    assert len(set(ends)) > 1


RULES = (CoefficientOfVariation(trials=64), Plateau(), ExpectedGainStop())


def search(seed: int, count: int, *, failing: float = 0.2) -> list[TrialBatch]:
    """A made search whose model is half right."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        scores = rng.normal(scale=0.3, size=4)
        latency_s = 1e-3 * np.exp(-scores + rng.normal(scale=0.3, size=4))
        latency_s[rng.random(4) < failing] = np.inf
        found.append(TrialBatch(latency_s, scores, waiting=float(rng.normal(scale=0.3))))
    return found


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
@given(seed=st.integers(0, 50), count=st.integers(1, 20), factor=st.floats(1e-3, 1e3))
def test_the_unit_of_latency_and_the_level_of_scores_do_not_matter(
    rule: TaskRule, seed: int, count: int, factor: float
) -> None:
    batches = search(seed, count)
    other = [TrialBatch(factor * b.latency_s, b.scores - 0.7, b.waiting - 0.7) for b in batches]

    assert rule.should_continue(batches) == rule.should_continue(other)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_every_rule_begins_and_ends_a_search_that_no_longer_gains(rule: TaskRule) -> None:
    flat = [TrialBatch(np.full(4, 1e-3), np.full(4, -0.5), waiting=-0.5)] * 20

    assert rule.should_continue(flat[:1])
    assert not rule.should_continue(flat)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_a_task_of_which_nothing_runs_ends_at_last(rule: TaskRule) -> None:
    failed = search(0, 20, failing=1.0)

    assert rule.should_continue(failed[:1])
    assert not rule.should_continue(failed)
