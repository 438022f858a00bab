from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from costhub.dataset.programs import Programs
from costhub.errors import DataError
from costhub.models.evaluation.evaluate import evaluate
from costhub.models.training.stream_trees import fit_trees
from costhub.models.trees.gbt import Gbt, GbtOptions


def blocks_of(programs: Programs) -> list[Programs]:
    """A block for each workload."""
    return [programs.of_workloads({name}) for name in programs.workload_ids]


@pytest.mark.parametrize("external", [True, False])
@pytest.mark.parametrize("objective", ["regression", "rank", "lambdarank"])
def test_trees_from_blocks_rank_as_those_of_all_programs_at_once(
    objective: str, external: bool, train: Programs, unseen: Programs, tmp_path: Path
) -> None:
    options = GbtOptions(objective=objective, rounds=40, learning_rate=0.2)
    whole, streamed = (Gbt(feature_spec="demo@1", options=options) for _ in range(2))
    whole.fit(train, None, seed=0, progress=False)

    fit_trees(streamed, blocks_of(train), None, seed=0, external=external, cache=tmp_path, progress=False)

    assert evaluate(streamed, unseen).pairwise > 0.75
    assert abs(evaluate(streamed, unseen).pairwise - evaluate(whole, unseen).pairwise) < 0.05
    assert list(tmp_path.iterdir()) == [], "the files go when training ends"


def test_equal_seeds_give_equal_trees(train: Programs, unseen: Programs) -> None:
    scores = []
    for _ in range(2):
        model = Gbt(feature_spec="demo@1", options=GbtOptions(rounds=12))
        fit_trees(model, blocks_of(train), unseen, seed=3, progress=False)
        scores.append(model.predict(unseen.rows, unseen.counts))

    assert np.array_equal(*scores)


def test_training_stops_on_validation(train: Programs) -> None:
    noise = Programs(
        train.rows, train.counts, train.workload, train.workload_ids,
        np.random.default_rng(0).uniform(1e-3, 2e-3, size=train.n),
    )  # fmt: skip
    model = Gbt(feature_spec="demo@1", options=GbtOptions(rounds=300, learning_rate=0.3, patience=3))

    fit_trees(model, blocks_of(train), noise, seed=0, progress=False)

    assert model.booster is not None
    assert model.booster.num_boosted_rounds() < 20


def test_a_streamed_model_is_saved_and_loaded_like_any(train: Programs, tmp_path: Path) -> None:
    model = Gbt(feature_spec="demo@1", options=GbtOptions(rounds=5))
    fit_trees(model, blocks_of(train), None, seed=0, progress=False)
    model.save_weights(tmp_path)
    loaded = Gbt(feature_spec="demo@1")
    loaded.load_weights(tmp_path, model.config())

    assert np.array_equal(loaded.predict(train.rows, train.counts), model.predict(train.rows, train.counts))


def test_programs_that_tell_nothing_are_refused(train: Programs) -> None:
    alone = [train.select(np.array([place])) for place in (0, 40, 80)]

    with pytest.raises(DataError, match="nothing to learn from 3 programs"):
        fit_trees(Gbt(feature_spec="demo@1"), alone, None, seed=0, progress=False)


def test_an_error_while_a_block_is_read_is_the_one_that_is_raised(train: Programs) -> None:
    class Broken(list[Programs]):
        def __getitem__(self, number: int) -> Programs:  # type: ignore[override]
            raise DataError("The parts keep breaking.")

    with pytest.raises(DataError, match="keep breaking"):
        fit_trees(Gbt(feature_spec="demo@1"), Broken([train]), None, seed=0, progress=False)
