"""The score of a replayed search: between random search and the optimum, and nothing that a strategy can bend."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.errors import DataError
from costhub.search.replay.judge import ReplaySettings, budget, expected_best, play, replay, score_of
from costhub.search.replay.strategies import RandomOrder
from costhub.testing import made_replay

LATENCIES = st.lists(st.floats(1e-6, 1.0), min_size=2, max_size=7).map(np.array)


@given(LATENCIES)
def test_the_expectation_is_that_over_all_draws(latency_s: np.ndarray) -> None:
    n = len(latency_s)

    found = expected_best(latency_s, n)

    for drawn in range(1, n + 1):
        best = [min(own) for own in combinations(latency_s.tolist(), drawn)]
        assert found[drawn - 1] == pytest.approx(np.mean(best), rel=1e-9)


@given(LATENCIES)
def test_the_budget_is_the_first_trial_that_comes_near_enough(latency_s: np.ndarray) -> None:
    expected = expected_best(latency_s, len(latency_s))
    goal = np.median(latency_s) - 0.95 * (np.median(latency_s) - latency_s.min())
    trials = budget(latency_s)

    assert trials == len(latency_s) or expected[trials - 1] <= goal
    assert trials == 1 or expected[trials - 2] > goal


def test_scores_lie_between_random_search_and_the_optimum() -> None:
    by_chance = np.array([3.0, 2.0, 1.5])

    assert score_of(np.full(3, 1.0), by_chance, 1.0) == 1.0
    assert score_of(by_chance, by_chance, 1.0) == 0.0
    assert score_of(np.array([5.0, 3.0, 2.0]), by_chance, 1.0) == pytest.approx(-1.0)
    assert score_of(np.array([3.0, 1.0]), np.array([3.0, 1.0]), 1.0) == 0.0  # nothing is left to gain at the second


class Oracle:
    """Knows the latencies, by which it is told from an honest search."""

    latency_s: np.ndarray = np.zeros(0)
    sign = 1.0

    def __init__(self, task: Any, *, model: Any, seed: int) -> None:
        self.rest = np.argsort(self.sign * self.latency_s)

    def ask(self, count: int) -> np.ndarray:
        first, self.rest = self.rest[:count], self.rest[count:]
        return first

    def tell(self, programs: np.ndarray, latency_s: np.ndarray) -> None:
        assert np.array_equal(latency_s, self.latency_s[programs])


def oracle(workload: Any, sign: float) -> type[Oracle]:
    return type("Known", (Oracle,), {"latency_s": workload.latency_s, "sign": sign})


def no_model(seed: int) -> None:
    return None


def test_the_best_first_is_one_the_worst_first_is_below_chance() -> None:
    workload = made_replay()
    settings = ReplaySettings(batch=1, seeds=1)

    assert replay(workload, oracle(workload, 1.0), no_model, settings).score == pytest.approx(1.0)
    assert replay(workload, oracle(workload, -1.0), no_model, settings).score < -0.5


def test_random_search_scores_zero_in_the_mean() -> None:
    found = replay(made_replay(), RandomOrder, no_model, ReplaySettings(seeds=400))

    assert abs(found.score) < 0.08
    assert np.allclose(found.curve, found.random_curve, rtol=0.1)


def test_trials_are_spent_exactly_and_the_same_seed_repeats() -> None:
    workload = made_replay()
    settings = ReplaySettings(batch=5, seeds=2, trials=12)

    found = replay(workload, RandomOrder, no_model, settings)

    assert [len(own) for own in found.chosen] == [12, 12]
    assert found.chosen[0] != found.chosen[1]
    assert found == replay(workload, RandomOrder, no_model, settings)
    assert replay(workload, RandomOrder, no_model, ReplaySettings(seeds=1, trials=10**6)).trials == workload.task.n


def test_a_strategy_sees_no_latency_before_it_is_told() -> None:
    task = made_replay().task

    assert set(task.programs.latency_s.tolist()) == {1.0}


@pytest.mark.parametrize(
    ("ask", "match"),
    [
        (lambda count: [], "returned no program"),
        (lambda count: [0, 0], "named twice"),
        (lambda count: [64], "program 64, which does not exist"),
        (lambda count: [-1], "program -1, which does not exist"),
        (lambda count: [0], "measured before"),
        (lambda count: None, "must return positions"),
        (lambda count: ["first"], "must return positions"),
    ],
)
def test_what_cannot_be_measured_is_refused(ask: Callable[[int], Any], match: str) -> None:
    class Wrong(RandomOrder):
        def ask(self, count: int) -> Any:
            return ask(count)

    with pytest.raises(DataError, match=match):
        play(made_replay(), Wrong, None, batch=4, trials=8, seed=0)


@pytest.mark.parametrize("name", ["batch", "seeds", "trials"])
def test_numbers_below_one_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1"):
        ReplaySettings(**{name: 0})
