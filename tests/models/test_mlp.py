from __future__ import annotations

import copy
from dataclasses import fields

import numpy as np
import pytest
import torch

from costhub.dataset.programs import Programs
from costhub.errors import ModelError
from costhub.models.mlp import Mlp, MlpOptions
from costhub.models.network import SegmentSumNetwork
from costhub.models.scaler import Scaler

SMALL = MlpOptions(hidden=8, epochs=3, members=2)


@pytest.fixture
def model(train: Programs) -> Mlp:
    model = Mlp(feature_spec="demo@1", options=SMALL)
    model.fit(train, None, seed=0, progress=False)
    return model


def test_predictions_are_pinned() -> None:
    """Weights by formula, scores worked out once: a change of the forward pass cannot go unseen."""
    model = Mlp(feature_spec="demo@1", options=MlpOptions(hidden=2))
    none = np.zeros(0, np.float32)
    mean, inverse_std = np.array([1.0, 0.0], np.float32), np.array([0.5, 2.0], np.float32)
    model.scaler = Scaler(mean, inverse_std, none.astype(np.int64), none, none)
    network = SegmentSumNetwork(2, 2, generator=torch.Generator())
    with torch.no_grad():
        for number, weight in enumerate(network.parameters()):
            # 1, -2, 3, -4, ... in quarters, signs turned in every second layer, so that some units are off.
            order = torch.arange(weight.numel()).reshape(weight.shape)
            weight.copy_((-1.0) ** (order + number // 2) * (order + 1) / 4 + 0.25)
    model.networks = [network]
    rows = np.array([[3.0, 0.5], [-1.0, 1.0], [100.0, 100.0]], np.float32)

    found = model.predict(rows, np.array([2, 0, 1]))

    # From the same sums in plain numpy; all numbers are multiples of powers of two, so they are exact.
    np.testing.assert_allclose(found, [0.44921875, 0.625, 0.771484375], rtol=1e-12)


def test_scores_are_the_mean_of_the_members(model: Mlp, unseen: Programs) -> None:
    alone = []
    for network in model.networks:
        single = copy.deepcopy(model)
        single.networks = [network]
        alone.append(single.predict(unseen.rows, unseen.counts))

    np.testing.assert_allclose(model.predict(unseen.rows, unseen.counts), np.mean(alone, axis=0))
    assert not np.allclose(alone[0], alone[1])


def test_blocks_of_any_size_give_the_same_scores(
    model: Mlp, unseen: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = model.predict(unseen.rows, unseen.counts)
    # One row per block is less than most programs have: such a program is a block of its own.
    for rows in (1, 3, 50):
        monkeypatch.setattr("costhub.models.mlp._BLOCK_ROWS", rows)
        np.testing.assert_allclose(model.predict(unseen.rows, unseen.counts), whole, rtol=1e-12)


def test_learning_more_leaves_the_scaler_and_the_global_random_state(model: Mlp, unseen: Programs) -> None:
    assert model.scaler is not None
    before, state = copy.deepcopy(model.scaler), torch.get_rng_state()

    model.update(unseen, seed=0)
    model.fine_tune(unseen, epochs=2, learning_rate=1e-3, seed=0)

    for field in fields(Scaler):
        assert np.array_equal(getattr(model.scaler, field.name), getattr(before, field.name))
    assert torch.equal(torch.get_rng_state(), state)


def test_a_learning_rate_of_zero_changes_nothing(model: Mlp, unseen: Programs) -> None:
    before = model.predict(unseen.rows, unseen.counts)

    model.fine_tune(unseen, epochs=2, learning_rate=0.0, seed=0)

    np.testing.assert_array_equal(model.predict(unseen.rows, unseen.counts), before)


def test_programs_without_rows_teach_nothing(model: Mlp, unseen: Programs) -> None:
    before = model.predict(unseen.rows, unseen.counts)
    empty = Programs(
        np.zeros((0, 0), np.float32),
        np.zeros(2, np.int64),
        np.zeros(2, np.int64),
        ("w",),
        np.array([1e-3, 2e-3]),
    )

    model.update(empty, seed=0)

    np.testing.assert_array_equal(model.predict(unseen.rows, unseen.counts), before)


def test_the_larger_form_of_moses_is_an_option(train: Programs) -> None:
    model = Mlp(feature_spec="demo@1", options=MlpOptions(hidden=512, epochs=1))
    model.fit(train, None, seed=0, progress=False)

    assert model.networks[0].encode_2.weight.shape == (512, 512)


@pytest.mark.parametrize("members", [1, 3])
def test_validation_without_any_order_is_ignored(members: int, train: Programs) -> None:
    single = train.select(np.array([0]))
    options = MlpOptions(hidden=8, epochs=2, members=members)
    with_it, without = (Mlp(feature_spec="demo@1", options=options) for _ in range(2))

    with_it.fit(train, single, seed=0, progress=False)
    without.fit(train, None, seed=0, progress=False)

    np.testing.assert_allclose(
        with_it.predict(train.rows, train.counts), without.predict(train.rows, train.counts), rtol=1e-6
    )


def test_options_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="hidden must be between 1 and 4096, got 0"):
        MlpOptions(hidden=0)


def test_an_unfitted_model_cannot_be_fine_tuned(train: Programs) -> None:
    with pytest.raises(ModelError, match="no weights yet"):
        Mlp(feature_spec="demo@1").fine_tune(train, epochs=1, learning_rate=1e-3, seed=0)
