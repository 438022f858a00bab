from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.models.acquisition import expected_improvement, upper_confidence_bound


def test_the_upper_bound_adds_so_many_spreads() -> None:
    mean, std = np.array([1.0, -2.0, 0.5]), np.array([0.0, 1.0, 0.25])

    np.testing.assert_allclose(upper_confidence_bound(mean, std, 2.0), [1.0, 0.0, 1.0])
    np.testing.assert_array_equal(upper_confidence_bound(mean, std, 0.0), mean)


def test_the_improvement_is_the_mean_gain_of_draws_from_the_normal_distribution() -> None:
    mean, std, best = np.array([0.3, 0.0, -0.5, 1.2]), np.array([0.5, 1.0, 0.8, 0.1]), 0.4
    draws = np.random.default_rng(0).normal(size=(400_000, 1)) * std + mean

    sampled = np.maximum(draws - best, 0.0).mean(axis=0)

    np.testing.assert_allclose(expected_improvement(mean, std, best), sampled, atol=4e-3)


def test_the_improvement_is_the_integral_of_the_gain() -> None:
    mean, std, best = 0.2, 0.7, 0.9
    f = np.linspace(best, mean + 12 * std, 200_001)
    density = np.exp(-0.5 * ((f - mean) / std) ** 2) / (std * math.sqrt(2 * math.pi))

    integral = float(((f - best) * density).sum() * (f[1] - f[0]))

    assert expected_improvement(np.array([mean]), np.array([std]), best)[0] == pytest.approx(integral, rel=1e-6)


def test_at_the_best_the_improvement_is_the_spread_over_the_root_of_two_pi() -> None:
    std = np.array([0.5, 2.0])

    np.testing.assert_allclose(expected_improvement(np.ones(2), std, 1.0), std / math.sqrt(2 * math.pi))


def test_without_spread_the_improvement_is_the_gain_itself() -> None:
    np.testing.assert_array_equal(expected_improvement(np.array([2.0, 1.0, -3.0]), np.zeros(3), 1.0), [1.0, 0.0, 0.0])


@given(st.floats(-50, 50), st.floats(0, 50, allow_subnormal=False), st.floats(-50, 50), st.floats(0.01, 10))
def test_the_improvement_is_never_negative_and_grows_with_mean_and_spread(
    mean: float, std: float, best: float, more: float
) -> None:
    grid = np.array([mean, mean + more, mean]), np.array([std, std, std + more])

    base, higher, wider = expected_improvement(*grid, best)

    assert base >= max(mean - best, 0.0) - 1e-12
    assert higher >= base - 1e-12
    assert wider >= base - 1e-12


def test_far_below_the_best_the_improvement_still_orders_candidates() -> None:
    found = expected_improvement(np.array([-8.0, -9.0, -10.0]), np.ones(3), 0.0)

    assert (np.diff(found) < 0.0).all()
    assert found[-1] > 0.0


@pytest.mark.parametrize("std", [[-0.1, 1.0], [float("nan"), 1.0], [1.0]])
def test_a_spread_that_is_none_is_refused(std: list[float]) -> None:
    with pytest.raises(ValueError, match="one spread of 0 or more"):
        upper_confidence_bound(np.zeros(2), np.array(std), 1.0)
    with pytest.raises(ValueError, match="one spread of 0 or more"):
        expected_improvement(np.zeros(2), np.array(std), 0.0)
