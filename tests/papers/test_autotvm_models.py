from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from costhub.dataset.programs import Programs
from costhub.errors import DataError, ModelError
from costhub.models.evaluate import evaluate
from costhub.models.folder import load_model, save_model
from costhub.models.train import describe_model
from costhub.papers.autotvm_models import (
    Ensemble,
    EnsembleOptions,
    bootstrap,
)

SMALL = EnsembleOptions(members=4, member="gbt(rounds=25,learning_rate=0.2,depth=4)")


@pytest.fixture(scope="module")
def model(train: Programs) -> Ensemble:
    model = Ensemble(feature_spec="demo@1", options=SMALL)
    model.fit(train, None, seed=0, progress=False)
    return model


def test_a_bootstrap_keeps_the_size_of_every_group_and_leaves_out_a_third(train: Programs) -> None:
    devices = replace(train, device=np.arange(train.n) % 2, device_ids=("a", "b"))

    drawn = bootstrap(devices, np.random.default_rng(0))

    assert drawn.n == train.n
    np.testing.assert_array_equal(np.bincount(drawn.group), np.bincount(devices.group))
    left_out = 1.0 - len(np.unique(drawn.latency_s)) / len(np.unique(train.latency_s))
    assert 0.3 < left_out < 0.45  # (1 - 1 / n)^n, that is 1 / e


def test_a_bootstrap_is_drawn_again_until_two_programs_differ() -> None:
    pair = Programs.from_list([np.ones((1, 2))] * 2, np.array([0, 0]), ("w",), np.array([1e-3, 2e-3]))

    for seed in range(20):
        assert len(set(bootstrap(pair, np.random.default_rng(seed)).latency_s)) == 2


def test_members_differ_and_the_score_is_their_mean(model: Ensemble, unseen: Programs) -> None:
    mean, std = model.predict_with_spread(unseen.rows, unseen.counts)
    by_member = np.stack([m.predict(unseen.rows, unseen.counts) for m in model.members])

    np.testing.assert_array_equal(mean, model.predict(unseen.rows, unseen.counts))
    np.testing.assert_allclose(mean, by_member.mean(axis=0))
    np.testing.assert_allclose(std, by_member.std(axis=0, ddof=1))
    assert np.median(std) > 1e-3


def test_it_ranks_at_least_as_well_as_its_members_on_average(model: Ensemble, unseen: Programs) -> None:
    alone = np.mean([evaluate(member, unseen).pairwise for member in model.members])

    assert evaluate(model, unseen).pairwise > max(alone, 0.75)


def test_the_spread_is_wider_where_the_members_are_wrong(model: Ensemble, unseen: Programs) -> None:
    # What the ensemble is for: within groups, the error is larger where the members disagree.
    mean, std = model.predict_with_spread(unseen.rows, unseen.counts)
    error = np.abs(mean - unseen.throughput())
    wide = std > np.median(std)

    assert error[wide].mean() > error[~wide].mean()


def test_a_folder_holds_a_sub_folder_for_each_member(
    model: Ensemble, train: Programs, unseen: Programs, tmp_path: Path
) -> None:
    info = describe_model(model, train, device_id="acme-one", seed=0, licence="Apache-2.0")

    loaded, _ = load_model(save_model(model, tmp_path / "model", info))

    assert isinstance(loaded, Ensemble)
    assert sorted(p.name for p in (tmp_path / "model").iterdir() if p.is_dir()) == [
        f"member_{number}" for number in range(4)
    ]
    for found, expected in zip(
        loaded.predict_with_spread(unseen.rows, unseen.counts),
        model.predict_with_spread(unseen.rows, unseen.counts),
        strict=True,
    ):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"members": 5}, "for each of the 5 members"),
        ({"member": "gbt(rounds=0)"}, "rounds must be between"),
        ({"member": "gbt(round=3)"}, "no option of gbt"),
        ({"member": "ensemble"}, "a member must be one of"),
        ({"member": "mlp"}, "mlp model"),
        ({"fitted": None}, "needs fitted"),
        ({"columns": 7}, r"config\.json describes 7"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(
    model: Ensemble, tmp_path: Path, changes: dict[str, object], sentence: str
) -> None:
    model.save_weights(tmp_path)
    loaded = Ensemble(feature_spec="demo@1")

    with pytest.raises(ModelError, match=sentence):
        loaded.load_weights(tmp_path, {**model.config(), **changes})
    assert loaded.columns is None


def test_a_member_that_names_a_spec_is_refused() -> None:
    with pytest.raises(ValueError, match="leave :SPEC out"):
        EnsembleOptions(member="gbt:per_store@1")


def test_nothing_to_learn_from_is_refused(train: Programs) -> None:
    with pytest.raises(DataError, match="nothing to learn"):
        Ensemble(feature_spec="demo@1").fit(train.select(np.array([0])), None, seed=0, progress=False)
