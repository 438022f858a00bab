from __future__ import annotations

import numpy as np
import pytest

from costhub.transfer.selection.epsilon_greedy import epsilon_greedy

WAITING = np.arange(100)[::-1]


def chosen(count: int, epsilon: float, seed: int) -> list[int]:
    return epsilon_greedy(WAITING, count, lambda n: WAITING[:n], epsilon=epsilon, seed=seed).tolist()


@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.5, 1.0])
def test_a_share_is_chosen_at_random_after_the_others(epsilon: float) -> None:
    found = [chosen(8, epsilon, seed) for seed in range(400)]
    greedy = [next((i for i, place in enumerate(f) if place != 99 - i), 8) for f in found]

    # A random candidate may happen to be the best that is left; of 100 it hardly ever is.
    assert np.mean(greedy) / 8 == pytest.approx(1 - epsilon, abs=0.04)
    assert all(len(set(f)) == 8 for f in found)


def test_without_a_model_all_are_equally_likely() -> None:
    counts = np.bincount(np.concatenate([chosen(10, 1.0, seed) for seed in range(1000)]), minlength=100)

    assert 60 < counts.min() < counts.max() < 150


def test_fewer_waiting_than_wanted_are_all_chosen() -> None:
    assert sorted(chosen(500, 0.3, 0)) == list(range(100))
    assert chosen(0, 0.3, 0) == []
