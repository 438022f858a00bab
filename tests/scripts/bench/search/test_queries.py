"""What a model notes of the scores that a strategy asks for."""

from __future__ import annotations

import numpy as np
import pytest

from costhub.dataset.programs import Programs
from costhub.models.trees.gbt import Gbt, GbtOptions
from scripts.bench.search.queries import STRATEGIES, CountingTrees


def programs() -> Programs:
    rows = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
    ones = np.ones(40, np.int64)
    return Programs(rows, ones, 0 * ones, ("w",), np.exp(rows[:, 0]).astype(float))


def test_every_new_best_is_noted_with_the_programs_scored_until_then() -> None:
    own, options = programs(), GbtOptions(objective="log", rounds=20)
    model, plain = CountingTrees(feature_spec="demo@1", options=options), Gbt(feature_spec="demo@1", options=options)
    for each in (model, plain):
        each.fit(own, None, seed=0, progress=False)
    scores = plain.predict(own.rows, own.counts)

    model.begin()
    for part in (slice(0, 15), slice(15, 40)):
        np.testing.assert_array_equal(model.predict(own.rows[part], own.counts[part]), scores[part])

    assert model.asked == 40
    best = np.maximum.accumulate(scores)
    assert dict(model.course) == {
        place + 1: round(float(score), 5) for place, score in enumerate(scores) if place == 0 or score > best[place - 1]
    }
    model.begin()
    assert (model.asked, model.course) == (0, [])


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_strategy_takes_its_queries_from_one_batch(name: str) -> None:
    strategy = STRATEGIES[name](1024)

    sizes = {
        "random": lambda s: s.pool,
        "evolutionary": lambda s: s.sized("default").population * (s.generations + 1),
        "annealing": lambda s: s.chains * s.steps,
        "ppo": lambda s: s.programs * s.steps * s.episodes,
    }
    assert sizes[name](strategy) == 1024
