from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.transfer.controller.allot import Allotment
from costhub.transfer.controller.batch import Batch
from costhub.transfer.controller.gradient import Gradient
from costhub.transfer.controller.plateau import Plateau
from costhub.transfer.controller.rotation import in_rotation
from costhub.transfer.controller.task import Priority


def batch(latency_s: float, *, each: int = 4, waiting: float = 0.0) -> Batch:
    return Batch(latency_s * np.linspace(1.0, 2.0, each), np.zeros(each), waiting)


def order(allotment: Allotment, curves: dict[str, list[float]]) -> list[str]:
    """Measures to the end; the last batch of a curve leaves nothing to wait."""
    found = []
    while (name := allotment.next_task()) is not None:
        done = len(allotment.tasks[name].batches)
        last = done + 1 == len(curves[name])
        each = min(4, allotment.left)
        allotment.add(name, batch(curves[name][done], each=each, waiting=-math.inf if last else 0.0))
        found.append(name)
    return found


@given(
    weights=st.lists(st.floats(0.1, 50.0), min_size=1, max_size=5),
    trials=st.integers(0, 90),
    seed=st.integers(0, 9),
)
@pytest.mark.parametrize("priority", [None, Gradient(), in_rotation])
def test_the_budget_is_spent_to_the_last_trial_and_every_task_begins_first(
    weights: list[float], trials: int, seed: int, priority: Priority | None
) -> None:
    rng = np.random.default_rng(seed)
    curves = {f"t{i}": rng.random(40).tolist() for i in range(len(weights))}
    allotment = Allotment(dict(zip(curves, weights, strict=True)), trials=trials, priority=priority)

    found = order(allotment, curves)

    assert allotment.left == 0
    assert sum(task.trials for task in allotment.tasks.values()) == trials
    assert found[: len(curves)] == list(curves)[: len(found)]


def test_in_rotation_all_tasks_take_turns() -> None:
    allotment = Allotment({"a": 9.0, "b": 1.0, "c": 1.0}, trials=24, priority=in_rotation)

    assert order(allotment, {name: [1.0] * 9 for name in "abc"}) == list("abcabc")


def test_what_a_task_leaves_goes_to_those_that_still_gain() -> None:
    curves = {"flat": [1.0] * 20, "gains": [0.9**step for step in range(20)]}
    allotment = Allotment(
        {"flat": 100.0, "gains": 1.0}, trials=48, priority=in_rotation, rule=Plateau(batches=2)
    )

    found = order(allotment, curves)

    assert (found.count("flat"), found.count("gains")) == (3, 9)


def test_measuring_is_over_where_the_rule_has_ended_all_tasks() -> None:
    allotment = Allotment({"a": 1.0, "b": 1.0}, trials=400, rule=Plateau(batches=2))

    assert len(order(allotment, {"a": [1.0] * 90, "b": [1.0] * 90})) == 6
    assert allotment.left == 400 - 24


def test_a_task_without_programs_left_is_passed_over() -> None:
    allotment = Allotment({"small": 100.0, "large": 1.0}, trials=24)

    assert order(allotment, {"small": [1.0] * 2, "large": [1.0] * 9}).count("small") == 2


def test_a_task_that_is_closed_is_not_measured_even_before_its_first_batch() -> None:
    allotment = Allotment({"none": 9.0, "some": 1.0, "gone": 9.0}, trials=24)
    allotment.close("none")
    allotment.add("gone", batch(1.0))
    allotment.close("gone")

    assert set(order(allotment, {"some": [1.0] * 9})) == {"some"}


def test_the_task_that_takes_most_of_the_network_gets_most() -> None:
    allotment = Allotment({"often": 20.0, "once": 1.0}, trials=80)

    found = order(allotment, {"often": [1.0] * 40, "once": [1.0] * 40})

    assert found.count("often") > 3 * found.count("once") > 0


def test_the_latency_is_the_weighted_sum_of_the_best() -> None:
    allotment = Allotment({"a": 2.0, "b": 3.0}, trials=100)
    allotment.add("a", batch(5.0))
    assert allotment.latency_s == math.inf

    allotment.add("b", batch(7.0))
    allotment.add("b", batch(1.0))

    assert allotment.latency_s == pytest.approx(2 * 5.0 + 3 * 1.0)


@pytest.mark.parametrize("weights", [{}, {"a": 0.0}, {"a": 1.0, "b": math.inf}])
def test_weights_that_compare_nothing_are_refused(weights: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="weight above 0"):
        Allotment(weights, trials=8)


def test_an_unknown_task_is_refused() -> None:
    with pytest.raises(KeyError):
        Allotment({"a": 1.0}, trials=8).add("b", batch(1.0))


def test_first_batches_share_a_budget_that_is_too_small_for_whole_ones() -> None:
    allotment = Allotment({"conv": 1.0, "relu": 1.0, "pool": 1.0}, trials=10)

    sizes = []
    while (name := allotment.next_task()) is not None and len(sizes) < 3:
        sizes.append(allotment.most)
        allotment.add(name, Batch(np.ones(sizes[-1]), np.zeros(sizes[-1]), waiting=0.0))

    assert sizes == [3, 3, 4]
    assert allotment.left == 0
