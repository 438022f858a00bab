"""Where a search stands: trials, tasks, the latency of all, and what may still be gained."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.papers.task_scheduling import GradientBased, Plateau, fewest_batches_first
from costhub.search.scheduler import (
    ExpectedGain,
    GainEstimate,
    Priority,
    ScheduledTask,
    TaskRule,
    TaskScheduler,
    TrialBatch,
    best_after,
    score_line,
    search_progress,
)


def test_a_failed_program_is_not_ok_and_never_the_best() -> None:
    batches = [TrialBatch(np.array(ms), np.zeros(2)) for ms in ([np.inf, np.inf], [np.inf, 2.0], [3.0, 1.0])]

    assert [batch.is_ok.sum() for batch in batches] == [0, 1, 2]
    assert best_after(batches).tolist() == [math.inf, 2.0, 1.0]


def test_nothing_waits_where_nothing_is_said() -> None:
    assert TrialBatch(np.ones(1), np.zeros(1)).waiting == -math.inf


@pytest.mark.parametrize(("latencies", "scores"), [((2,), (3,)), ((0,), (0,)), ((2, 1), (2, 1))])
def test_a_batch_has_a_score_for_each_program(latencies: tuple[int], scores: tuple[int]) -> None:
    with pytest.raises(ValueError, match="one latency and one score"):
        TrialBatch(np.ones(latencies), np.ones(scores))


def test_a_task_counts_its_trials_and_knows_its_best() -> None:
    task = ScheduledTask("conv", 2.0)
    assert (task.trials, task.best_s, task.exhausted) == (0, math.inf, False)

    task.batches += [TrialBatch(np.array([3.0, np.inf]), np.zeros(2)), TrialBatch(np.array([4.0]), np.zeros(1))]

    assert (task.trials, task.best_s) == (3, 3.0)


FORESEEN = GainEstimate(record_gain=0.0)


def made(noise: float, *, waiting: float, seed: int = 0, scale: float = 1.0, each: int = 50) -> TrialBatch:
    """A batch whose log speed is its score but for normal noise."""
    rng = np.random.default_rng(seed)
    speed = rng.normal(scale=0.2, size=each)
    return TrialBatch(np.exp(-speed - rng.normal(scale=noise, size=each)), scale * speed, scale * waiting)


def test_a_model_that_is_right_is_taken_at_its_word() -> None:
    batch = made(1e-9, waiting=0.0)
    better = replace(batch, waiting=float(batch.scores.max()) + 0.07)

    assert FORESEEN([batch]) == pytest.approx(0.0, abs=1e-6)
    assert FORESEEN([better]) == pytest.approx(0.07, abs=1e-6)


def test_the_gain_is_the_mean_of_what_programs_like_it_would_gain() -> None:
    batch = made(0.1, waiting=0.5, each=4000)
    best = -np.log(batch.latency_s.min())
    speed = 0.5 + np.random.default_rng(1).normal(scale=0.1, size=100_000)

    assert FORESEEN([batch]) == pytest.approx(np.maximum(speed - best, 0.0).mean(), rel=0.1)


def test_promises_that_were_not_kept_are_discounted() -> None:
    # The picks of a batch are those that the model is most wrong about: all are slower than their scores.
    batch = made(0.01, waiting=0.0)
    kept = replace(batch, waiting=float(batch.scores.max()) + 0.05)
    broken = replace(kept, latency_s=batch.latency_s * np.exp(0.3))

    assert FORESEEN([replace(batch, latency_s=np.exp(-batch.scores)), broken]) < 0.5 * FORESEEN([kept])


@given(scale=st.floats(0.01, 100.0), seed=st.integers(0, 20), waiting=st.floats(-0.5, 0.5))
def test_the_scale_of_scores_does_not_matter(scale: float, seed: int, waiting: float) -> None:
    batches = [[made(0.1, waiting=waiting, seed=seed, scale=s, each=8)] for s in (1.0, scale)]

    assert FORESEEN(batches[0]) == pytest.approx(FORESEEN(batches[1]), abs=1e-9)


@given(seed=st.integers(0, 20), low=st.floats(-1.0, 1.0), more=st.floats(0.0, 1.0))
def test_a_better_program_that_waits_never_lowers_the_gain(seed: int, low: float, more: float) -> None:
    batch = made(0.1, waiting=low, seed=seed, each=8)

    assert FORESEEN([batch]) <= FORESEEN([replace(batch, waiting=low + more)]) + 1e-12


def test_a_model_that_is_always_wrong_promises_nothing() -> None:
    batch = made(1e-3, waiting=5.0)
    reversed_scores = replace(batch, scores=-batch.scores)
    level = replace(batch, scores=np.zeros(batch.n))

    assert FORESEEN([reversed_scores]) == pytest.approx(FORESEEN([level]), abs=1e-3)


def test_failures_make_a_gain_less_likely() -> None:
    batch = made(0.01, waiting=0.8)
    failed = TrialBatch(np.full(50, np.inf), np.zeros(50), waiting=0.8)

    half = TrialBatch(
        *(np.concatenate(parts) for parts in ((batch.latency_s, failed.latency_s), (batch.scores, failed.scores))),
        waiting=0.8,
    )

    assert FORESEEN([half]) == pytest.approx(0.5 * FORESEEN([batch]))
    assert FORESEEN([failed]) == 0.0


def test_only_the_last_batches_show_how_right_the_model_is_but_the_best_is_of_all() -> None:
    last = [made(0.1, waiting=0.6, seed=seed) for seed in (2, 3)]
    noisy = made(0.5, waiting=0.0, seed=1)
    slow, fast = (replace(noisy, latency_s=factor * noisy.latency_s) for factor in (1e3, 1e-3))
    told = GainEstimate(window=2, record_gain=0.0)

    assert told([slow, *last]) == told(last) > 0.0
    assert told([fast, *last]) == pytest.approx(0.0, abs=1e-9)


def test_records_by_chance_become_rare() -> None:
    spent = replace(made(1e-9, waiting=0.0), waiting=-9.0)

    assert [GainEstimate(record_gain=0.3)([spent] * count) for count in (1, 2, 9)] == pytest.approx([0.15, 0.1, 0.03])


def test_where_nothing_waits_nothing_is_gained() -> None:
    assert GainEstimate()([replace(made(0.1, waiting=0.0), waiting=-np.inf)]) == 0.0


@pytest.mark.parametrize("options", [(0, 0.1), (2, -0.1)])
def test_options_out_of_range_are_refused(options: tuple[int, float]) -> None:
    with pytest.raises(ValueError, match="record_gain not negative"):
        GainEstimate(*options)


def task(latency_s: float, *, weight: float = 1.0, waiting: float = 0.0) -> ScheduledTask:
    scores = np.linspace(-1.0, 0.0, 8)
    return ScheduledTask("conv", weight, [TrialBatch(latency_s * np.exp(-scores), scores, waiting)])


def test_it_is_the_time_that_the_network_gains() -> None:
    gain = ExpectedGain(GainEstimate(record_gain=0.0))

    assert gain(task(2e-3, weight=5.0, waiting=0.1)) == pytest.approx(5.0 * 2e-3 * 0.1)


def test_a_task_that_takes_longer_or_promises_more_comes_first() -> None:
    gain = ExpectedGain()

    assert gain(task(2.0)) > gain(task(1.0))
    assert gain(task(1.0, waiting=0.1)) > gain(task(1.0))


def test_a_task_of_which_nothing_ran_comes_last() -> None:
    assert ExpectedGain()(ScheduledTask("conv", 1.0, [TrialBatch(np.full(4, np.inf), np.zeros(4), 0.0)])) == -math.inf


def batch(latency_s: float, *, each: int = 4, waiting: float = 0.0) -> TrialBatch:
    return TrialBatch(latency_s * np.linspace(1.0, 2.0, each), np.zeros(each), waiting)


def order(scheduler: TaskScheduler, curves: dict[str, list[float]]) -> list[str]:
    """Measures to the end; the last batch of a curve leaves nothing to wait."""
    found = []
    while (name := scheduler.next_task()) is not None:
        done = len(scheduler.tasks[name].batches)
        last = done + 1 == len(curves[name])
        each = min(4, scheduler.left)
        scheduler.add(name, batch(curves[name][done], each=each, waiting=-math.inf if last else 0.0))
        found.append(name)
    return found


@given(
    weights=st.lists(st.floats(0.1, 50.0), min_size=1, max_size=5),
    trials=st.integers(0, 90),
    seed=st.integers(0, 9),
)
@pytest.mark.parametrize("priority", [None, GradientBased(), fewest_batches_first])
def test_the_budget_is_spent_to_the_last_trial_and_every_task_begins_first(
    weights: list[float], trials: int, seed: int, priority: Priority | None
) -> None:
    rng = np.random.default_rng(seed)
    curves = {f"t{i}": rng.random(40).tolist() for i in range(len(weights))}
    scheduler = TaskScheduler(dict(zip(curves, weights, strict=True)), trials=trials, priority=priority)

    found = order(scheduler, curves)

    assert scheduler.left == 0
    assert sum(task.trials for task in scheduler.tasks.values()) == trials
    assert found[: len(curves)] == list(curves)[: len(found)]


def test_a_first_batch_that_was_interrupted_is_completed_before_others_get_more() -> None:
    scheduler = TaskScheduler({"a": 1.0, "b": 1.0}, trials=20, first=8)
    scheduler.add("a", batch(1.0, each=2))

    assert (scheduler.fresh, scheduler.next_task(), scheduler.most) == (2, "a", 6)
    scheduler.add("a", batch(1.0, each=6))
    assert (scheduler.fresh, scheduler.next_task(), scheduler.most) == (1, "b", 12)
    scheduler.add("b", batch(9.0, each=3))
    assert (scheduler.next_task(), scheduler.most) == ("b", 5)
    scheduler.close("b")
    assert (scheduler.fresh, scheduler.next_task(), scheduler.most) == (0, "a", 9)


def test_in_rotation_all_tasks_take_turns() -> None:
    scheduler = TaskScheduler({"a": 9.0, "b": 1.0, "c": 1.0}, trials=24, priority=fewest_batches_first)

    assert order(scheduler, {name: [1.0] * 9 for name in "abc"}) == list("abcabc")


def test_what_a_task_leaves_goes_to_those_that_still_gain() -> None:
    curves = {"flat": [1.0] * 20, "gains": [0.9**step for step in range(20)]}
    scheduler = TaskScheduler(
        {"flat": 100.0, "gains": 1.0}, trials=48, priority=fewest_batches_first, rule=Plateau(batches=2)
    )

    found = order(scheduler, curves)

    assert (found.count("flat"), found.count("gains")) == (3, 9)


def test_a_rule_is_asked_in_the_order_of_priority_until_it_lets_a_task_go_on() -> None:
    class AllBut(TaskRule):
        asked: ClassVar[list[str]] = []

        def reason_to_stop(self, task: ScheduledTask, scheduler: TaskScheduler) -> str | None:
            self.asked.append(task.name)
            return None if task.name == "large" else f"{task.name} is done."

    weights = {"small": 1.0, "large": 2.0, "huge": 3.0, "twin": 2.0}
    scheduler = TaskScheduler(weights, trials=400, priority=lambda task: task.weight, rule=AllBut())
    for name in weights:
        scheduler.add(name, batch(1.0))

    assert (scheduler.next_task(), scheduler.stopped) == ("large", None)
    assert AllBut.asked == ["huge", "large"]
    scheduler.close("large")
    assert (scheduler.next_task(), scheduler.stopped) == (None, "twin is done.")


def test_measuring_is_over_where_the_rule_has_ended_all_tasks() -> None:
    scheduler = TaskScheduler({"a": 1.0, "b": 1.0}, trials=400, rule=Plateau(batches=2))

    assert len(order(scheduler, {"a": [1.0] * 90, "b": [1.0] * 90})) == 6
    assert scheduler.left == 400 - 24


def test_a_task_without_programs_left_is_passed_over() -> None:
    scheduler = TaskScheduler({"small": 100.0, "large": 1.0}, trials=24)

    assert order(scheduler, {"small": [1.0] * 2, "large": [1.0] * 9}).count("small") == 2


def test_a_task_that_is_closed_is_not_measured_even_before_its_first_batch() -> None:
    scheduler = TaskScheduler({"none": 9.0, "some": 1.0, "gone": 9.0}, trials=24)
    scheduler.close("none")
    scheduler.add("gone", batch(1.0))
    scheduler.close("gone")

    assert set(order(scheduler, {"some": [1.0] * 9})) == {"some"}


def test_the_task_that_takes_most_of_the_network_gets_most() -> None:
    scheduler = TaskScheduler({"often": 20.0, "once": 1.0}, trials=80)

    found = order(scheduler, {"often": [1.0] * 40, "once": [1.0] * 40})

    assert found.count("often") > 3 * found.count("once") > 0


def test_the_latency_is_the_weighted_sum_of_the_best() -> None:
    scheduler = TaskScheduler({"a": 2.0, "b": 3.0}, trials=100)
    scheduler.add("a", batch(5.0))
    assert scheduler.latency_s == math.inf

    scheduler.add("b", batch(7.0))
    scheduler.add("b", batch(1.0))

    assert scheduler.latency_s == pytest.approx(2 * 5.0 + 3 * 1.0)


@pytest.mark.parametrize("weights", [{}, {"a": 0.0}, {"a": 1.0, "b": math.inf}])
def test_weights_that_compare_nothing_are_refused(weights: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="weight above 0"):
        TaskScheduler(weights, trials=8)


def test_an_unknown_task_is_refused() -> None:
    with pytest.raises(KeyError):
        TaskScheduler({"a": 1.0}, trials=8).add("b", batch(1.0))


def test_first_batches_share_a_budget_that_is_too_small_for_whole_ones() -> None:
    scheduler = TaskScheduler({"conv": 1.0, "relu": 1.0, "pool": 1.0}, trials=10)

    sizes = []
    while (name := scheduler.next_task()) is not None and len(sizes) < 3:
        sizes.append(scheduler.most)
        scheduler.add(name, TrialBatch(np.ones(sizes[-1]), np.zeros(sizes[-1]), waiting=0.0))

    assert sizes == [3, 3, 4]
    assert scheduler.left == 0


WEIGHTS = {"conv": 3.0, "relu": 1.0}


def batch_standing(latency_s: float, waiting: float = 0.0) -> TrialBatch:
    return TrialBatch(np.full(4, latency_s), np.zeros(4), waiting=waiting)


def test_it_counts_what_an_earlier_search_has_measured() -> None:
    scheduler = TaskScheduler(WEIGHTS, trials=30)
    scheduler.add("conv", TrialBatch(np.full(20, 5e-6), np.zeros(20), waiting=0.0))

    now = search_progress(scheduler)

    assert (now.trials, now.most, now.begun, now.tasks) == (20, 30, 1, 2)
    assert now.latency_us is None
    assert now.gain is None


def test_the_gain_is_a_share_of_the_latency_of_all() -> None:
    scheduler = TaskScheduler(WEIGHTS, trials=10)
    scheduler.add("conv", batch_standing(4e-6))
    scheduler.add("relu", batch_standing(2e-6, waiting=-np.inf))  # nothing waits, so nothing is gained

    now = search_progress(scheduler)

    assert (now.trials, now.begun, now.latency_us) == (8, 2, pytest.approx(14.0))
    assert now.gain == pytest.approx(0.05 * 12 / 14)  # a record by chance: a tenth, in every second batch


def test_there_is_no_gain_where_nobody_knows_what_waits() -> None:
    scheduler = TaskScheduler({"conv": 1.0}, trials=10)
    scheduler.add("conv", batch_standing(4e-6))

    assert search_progress(scheduler, foreseen=False).gain is None


def test_equal_scores_give_a_level_line_however_their_mean_is_rounded() -> None:
    for score in (1.5 + 6 * 2.0**-52, 0.1, -0.7, 1e6 / 3):
        line = score_line([TrialBatch(np.array([1e-3, 2e-3, 3e-3, 5e-3, 7e-3])[:n], np.full(n, score)) for n in (3, 5)])
        assert line is not None
        assert line.slope == 0.0
