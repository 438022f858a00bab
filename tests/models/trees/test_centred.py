from __future__ import annotations

import numpy as np
import pytest
import xgboost as xgb

from costhub.models.trees.centred import centred, centred_loss

NOTHING = xgb.DMatrix(np.zeros((1, 1)))


def loss(scores: np.ndarray, label: np.ndarray, group: np.ndarray) -> float:
    return 0.5 * float((centred(scores - label, group) ** 2).sum())


@pytest.fixture
def problem() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=12), rng.normal(size=12), rng.integers(0, 4, size=12)


def test_the_first_derivative_is_that_of_the_loss(problem: tuple[np.ndarray, ...]) -> None:
    scores, label, group = problem
    first, _ = centred_loss(label, group)(scores, NOTHING)

    for place in range(12):
        step = 1e-6 * (np.arange(12) == place)
        found = (loss(scores + step, label, group) - loss(scores - step, label, group)) / 2e-6
        assert found == pytest.approx(first[place], abs=1e-7)


def test_the_second_derivative_is_that_of_the_loss(problem: tuple[np.ndarray, ...]) -> None:
    scores, label, group = problem
    derivatives = centred_loss(label, group)
    _, second = derivatives(scores, NOTHING)

    for place in range(12):
        step = 1e-3 * (np.arange(12) == place)
        ahead, behind = (derivatives(scores + sign * step, NOTHING)[0][place] for sign in (1, -1))
        assert (ahead - behind) / 2e-3 == pytest.approx(second[place])


def test_the_level_of_a_group_does_not_count(problem: tuple[np.ndarray, ...]) -> None:
    scores, label, group = problem
    shift = np.array([5.0, -3.0, 0.0, 100.0])[group]

    np.testing.assert_allclose(
        centred_loss(label + shift, group)(scores, NOTHING), centred_loss(label, group)(scores, NOTHING)
    )


def test_it_is_the_mean_of_the_squared_differences_of_all_pairs() -> None:
    scores, label = np.array([0.0, 1.0, 5.0]), np.array([0.0, -1.0, 2.0])
    off = scores - label
    pairs = sum((off[i] - off[j]) ** 2 for i in range(3) for j in range(i))

    assert loss(scores, label, np.zeros(3, np.int64)) == pytest.approx(0.5 * pairs / 3)
