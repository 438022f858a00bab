from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from costhub.dataset.features.combined import combine
from costhub.dataset.programs import Programs
from costhub.errors import ModelError
from costhub.models.evaluation.evaluate import evaluate
from costhub.models.networks.mlp import Mlp, MlpOptions
from costhub.models.networks.network import FORMS, SegmentSumNetwork
from costhub.models.networks.scaler import Scaler


def test_predictions_are_pinned() -> None:
    """Weights by formula, scores worked out once: a change of the forward pass cannot go unseen."""
    model = Mlp(feature_spec="demo@1", options=MlpOptions(hidden=2))
    none = np.zeros(0, np.float32)
    mean, inverse_std = np.array([1.0, 0.0], np.float32), np.array([0.5, 2.0], np.float32)
    model.scalers = (Scaler(mean, inverse_std, none.astype(np.int64), none, none),)
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


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("objective", ["regression", "rank"])
def test_every_form_learns_under_every_kind_of_objective(
    form: str, objective: str, train: Programs, unseen: Programs
) -> None:
    options = MlpOptions(
        hidden=16, learning_rate=1e-2, form=form, objective=objective, epochs=20, batch=32, chunk=16
    )
    model = Mlp(feature_spec="demo@1", options=options)
    model.fit(train, None, seed=0, progress=False)

    assert evaluate(model, unseen).pairwise > 0.8


def test_a_folder_from_before_some_options_has_their_old_meaning(train: Programs, tmp_path: Path) -> None:
    model = Mlp(feature_spec="demo@1", options=MlpOptions(hidden=8, epochs=1))
    model.fit(train, None, seed=0, progress=False)
    model.save_weights(tmp_path)
    config = json.loads(json.dumps(model.config()))
    del config["objective"], config["form"]

    loaded = Mlp(feature_spec="demo@1")
    loaded.load_weights(tmp_path, config)

    assert (loaded.options.objective, loaded.options.form) == ("gap", "costhub")


def test_options_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match="hidden must be between 1 and 4096, got 0"):
        MlpOptions(hidden=0)
    with pytest.raises(ValueError, match="form must be one of costhub, tenset, moses, got 'mose'"):
        MlpOptions(form="mose")


def both_parts(programs: int, *, seed: int) -> Programs:
    """Rows of two feature specs; how fast a program is depends on a column of each."""
    rng = np.random.default_rng(seed)
    parts = []
    for width in (172, 123):
        counts = rng.integers(1, 4, programs)
        rows = np.zeros((int(counts.sum()), width), np.float32)
        rows[:, 1] = rng.normal(size=len(rows))
        parts.append((rows, counts))
    rows, counts = combine(parts)
    cost = np.sum([np.add.reduceat(own[:, 1], np.cumsum(n) - n) for own, n in parts], axis=0)
    return Programs(rows, counts, np.arange(programs) % 4, ("a", "b", "c", "d"), np.exp(cost).astype(float))


def test_the_parts_of_a_composite_spec_are_encoded_by_themselves(tmp_path: Path) -> None:
    spec, unseen = "per_store@1+relation@1", both_parts(80, seed=1)
    model = Mlp(feature_spec=spec, options=MlpOptions(hidden=16, epochs=40, learning_rate=1e-2))
    model.fit(both_parts(240, seed=0), None, seed=0, progress=False)
    model.save_weights(tmp_path)
    loaded = Mlp(feature_spec=spec)
    loaded.load_weights(tmp_path, json.loads(json.dumps(model.config())))

    # Half of the spread comes from each part: one alone would order two thirds of the pairs.
    assert evaluate(model, unseen).pairwise > 0.85
    assert [scaler.columns for scaler in model.scalers] == [172, 123]
    scores = model.predict(unseen.rows, unseen.counts)
    np.testing.assert_array_equal(loaded.predict(unseen.rows, unseen.counts), scores)
    np.testing.assert_allclose(
        np.concatenate(
            [model.predict(one.rows, one.counts) for one in map(unseen.select, np.eye(80, dtype=bool))]
        ),
        scores,
        rtol=1e-9,
    )


def test_a_composite_spec_of_another_width_is_refused(train: Programs) -> None:
    with pytest.raises(ModelError, match=r"per_store@1\+relation@1 have 173 columns, got 6"):
        Mlp(feature_spec="per_store@1+relation@1").fit(train, None, seed=0, progress=False)


def test_the_form_of_tenset_is_of_one_part() -> None:
    model = Mlp(feature_spec="per_store@1+relation@1", options=MlpOptions(form="tenset", epochs=1))

    with pytest.raises(ModelError, match="form tenset reads one feature spec"):
        model.fit(both_parts(8, seed=0), None, seed=0, progress=False)
