from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.dataset.programs import Programs
from costhub.errors import DataError, ModelError
from costhub.models.evaluate import evaluate
from costhub.models.folder import load_model, save_model
from costhub.models.train import describe_model
from costhub.papers.autotvm_models import (
    Ensemble,
    EnsembleOptions,
    bootstrap,
    expected_improvement,
    upper_confidence_bound,
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
