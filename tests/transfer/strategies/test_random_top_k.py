from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from costhub.transfer.strategies.ground import Ground
from costhub.transfer.strategies.random_top_k import Random, RandomTopK


def test_the_best_of_a_pool_are_better_than_random_ones(
    new_ground: Callable[..., Ground], likes: Callable[[Any], float]
) -> None:
    ground = new_ground()
    RandomTopK(pool=64).begin(ground).explore(8)
    best = [likes(program.schedule) for program in ground.best_new(8)]

    assert ground._cost_model.asked == [64]
    assert min(best) > np.mean([likes(program.schedule) for program in ground.random(32)])


def test_random_asks_no_model(ground: Ground) -> None:
    Random().begin(ground).explore(8)

    assert ground._cost_model.asked == []
    assert ground.best_new(8) == []
