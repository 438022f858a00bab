from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from costhub.dataset.programs import Programs
from costhub.errors import ModelError
from costhub.models import gbt
from costhub.models.evaluate import evaluate
from costhub.models.gbt import WEIGHTS, Gbt, GbtOptions

SMALL = GbtOptions(rounds=12, learning_rate=0.3, depth=3)


@pytest.fixture(scope="module")
def model(train: Programs) -> Gbt:
    model = Gbt(feature_spec="demo@1", options=SMALL)
    model.fit(train, None, seed=0, progress=False)
    return model


@pytest.mark.parametrize("objective", ["rank", "regression"])
def test_either_objective_learns_from_workloads_in_any_order(
    objective: str, train: Programs, unseen: Programs
) -> None:
    mixed = train.select(np.random.default_rng(0).permutation(train.n))
    model = Gbt(feature_spec="demo@1", options=GbtOptions(objective=objective, rounds=40, learning_rate=0.2))
    model.fit(mixed, None, seed=0, progress=False)

    assert evaluate(model, unseen).pairwise > 0.75


def test_training_stops_on_validation_and_keeps_the_best_trees(train: Programs) -> None:
    options = GbtOptions(rounds=300, learning_rate=0.3, patience=3)
    noise = Programs(
        train.rows, train.counts, train.workload, train.workload_ids,
        np.random.default_rng(0).uniform(1e-3, 2e-3, size=train.n),
    )  # fmt: skip
    model = Gbt(feature_spec="demo@1", options=options)
    model.fit(train, noise, seed=0, progress=False)

    assert model.booster is not None
    assert model.booster.num_boosted_rounds() < 20


def test_an_update_adds_trees_to_those_that_are_there(train: Programs, unseen: Programs) -> None:
    model = Gbt(feature_spec="demo@1", options=SMALL)
    model.fit(train, None, seed=0, progress=False)
    assert model.booster is not None
    before = model.booster

    model.update(unseen, seed=0)

    rounds = SMALL.rounds + SMALL.update_rounds
    assert (before.num_boosted_rounds(), model.booster.num_boosted_rounds()) == (SMALL.rounds, rounds)


def test_a_file_with_another_number_of_features_is_refused(model: Gbt, tmp_path: Path) -> None:
    model.save_weights(tmp_path)

    with pytest.raises(ModelError, match=r"reads 19 features, but config\.json describes 22"):
        Gbt(feature_spec="demo@1").load_weights(tmp_path, {**model.config(), "columns": 7})


def test_a_missing_file_is_named(model: Gbt, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"lacks model\.ubj"):
        Gbt(feature_spec="demo@1").load_weights(tmp_path, model.config())


def test_a_file_beyond_any_cost_model_is_not_read(
    model: Gbt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.save_weights(tmp_path)
    monkeypatch.setattr(gbt, "MAX_BYTES", 10)

    with pytest.raises(ModelError, match="more than 10 bytes"):
        Gbt(feature_spec="demo@1").load_weights(tmp_path, model.config())


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_file_cut_short_is_refused_in_a_sentence(model: Gbt, tmp_path: Path, share: float) -> None:
    model.save_weights(tmp_path)
    whole = (tmp_path / WEIGHTS).read_bytes()
    (tmp_path / WEIGHTS).write_bytes(whole[: int(share * len(whole))])

    with pytest.raises(ModelError, match="cannot be read as an XGBoost model") as error:
        Gbt(feature_spec="demo@1").load_weights(tmp_path, model.config())
    assert "\n" not in str(error.value)


def test_bytes_that_are_no_model_are_refused(model: Gbt, tmp_path: Path) -> None:
    for seed in range(10):
        (tmp_path / WEIGHTS).write_bytes(random.Random(seed).randbytes(1000))
        with pytest.raises(ModelError, match="cannot be read as an XGBoost model"):
            Gbt(feature_spec="demo@1").load_weights(tmp_path, model.config())


def test_an_unknown_objective_is_refused() -> None:
    with pytest.raises(ValueError, match="objective must be one of rank, regression, got 'best'"):
        GbtOptions(objective="best")
