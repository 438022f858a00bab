"""The strategies of the replay benchmark, among made programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costhub.search.replay.judge import ReplaySettings, replay
from costhub.search.replay.strategies import REPLAY_STRATEGIES, GeneticOrder, ModelOrder, RandomOrder
from costhub.search.search_model import SearchModel
from costhub.testing import made_replay
from costhub.transfer.methods.method import Frozen


class TileModel:
    """Ranks by the sizes of the tiles; frozen, as a model that only predicts is."""

    arch, feature_spec = "tiles", "made@1"

    def __init__(self, sign: float = 1.0) -> None:
        self.sign = sign

    def predict(self, rows: np.ndarray, counts: np.ndarray) -> np.ndarray:
        return self.sign * (rows[:, 0] + rows[:, 1]).astype(float)


def led(sign: float) -> Any:
    model: Any = TileModel(sign)
    return lambda seed: SearchModel(model, method=Frozen(), seed=seed)


def score(name: str, models: Any = None, **settings: int) -> float:
    factory, models = REPLAY_STRATEGIES[name], models or (lambda seed: None)
    workloads = [made_replay(side=12, seed=s) for s in range(3)]
    return float(np.mean([replay(own, factory, models, ReplaySettings(**settings)).score for own in workloads]))


def test_a_good_model_leads_to_a_good_score_and_a_wrong_one_below_chance() -> None:
    good, wrong = score("model", led(1.0), batch=4, seeds=2), score("model", led(-1.0), batch=4, seeds=2)

    assert good > 0.6
    assert wrong < 0 < good


@pytest.mark.parametrize("name", ["genetic", "nearest"])
def test_searches_by_knobs_are_better_than_chance_where_knobs_matter(name: str) -> None:
    assert score(name, batch=4, seeds=6) > 0.2


def test_a_few_of_each_batch_are_random() -> None:
    """Of forty, two: a model that is wrong everywhere must not starve the search."""
    task = made_replay(side=12).task
    model: Any = TileModel()
    search = ModelOrder(task, model=SearchModel(model, method=Frozen()), seed=0)
    ranked = np.argsort(-model.predict(task.programs.rows, task.programs.counts), kind="stable")

    asked = search.ask(40)

    assert len(set(asked.tolist())) == 40
    assert len(set(asked.tolist()) - set(ranked[:60].tolist())) in (1, 2)


def test_the_model_is_taught_what_was_told() -> None:
    taught: list[tuple[int, list[float]]] = []

    class Noting(SearchModel):
        def update(self, task_id: str, features: Any, latency_s: Any) -> None:
            taught.append((len(features), latency_s.tolist()))

    model: Any = TileModel()
    search = ModelOrder(made_replay().task, model=Noting(model), seed=0)
    search.tell(np.array([3, 1]), np.array([0.2, 0.1]))

    assert taught == [(2, [0.2, 0.1])]
    assert not {1, 3} & set(search.ask(60).tolist())


def test_a_strategy_that_needs_a_model_says_so() -> None:
    with pytest.raises(TypeError, match="needs a model"):
        ModelOrder(made_replay().task, model=None, seed=0)


def test_parents_with_complementary_knobs_have_the_best_child() -> None:
    """One parent has the best first knob, the other the best second one; a child may have both."""
    task = made_replay(side=8).task
    hits = 0
    for seed in range(60):
        search = GeneticOrder(task, model=None, seed=seed)
        search.tell(np.array([6 * 8, 6]), np.array([1e-3, 1e-3]))
        hits += 6 * 8 + 6 in search.ask(8).tolist()

    assert hits > 14  # by chance, an eighth of sixty


def test_the_same_seed_asks_for_the_same() -> None:
    task = made_replay().task
    first, again, other = (RandomOrder(task, model=None, seed=seed).ask(9).tolist() for seed in (3, 3, 4))

    assert first == again
    assert first != other
