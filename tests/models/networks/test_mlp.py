from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from costhub.dataset.features.combined import combine
from costhub.dataset.programs import Programs
from costhub.errors import ModelError
from costhub.models.evaluate import evaluate
from costhub.models.networks.mlp import Mlp, SegmentSumNetwork
from costhub.models.networks.network_options import FORMS, MlpOptions
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
    options = MlpOptions(hidden=16, learning_rate=1e-2, form=form, objective=objective, epochs=20, batch=32, chunk=16)
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
        np.concatenate([model.predict(one.rows, one.counts) for one in map(unseen.select, np.eye(80, dtype=bool))]),
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


every_form = pytest.mark.parametrize("form", FORMS)


def network(seed: int = 0, form: str = "costhub") -> SegmentSumNetwork:
    return SegmentSumNetwork(3, 8, form=form, generator=torch.Generator().manual_seed(seed))


@every_form
def test_a_program_is_the_sum_of_its_encoded_rows(form: str) -> None:
    torch.manual_seed(0)
    rows, net = torch.randn(4, 3), network(form=form)

    together = net(rows, torch.tensor([3, 1]))
    shuffled = net(rows[[2, 0, 1, 3]], torch.tensor([3, 1]))

    torch.testing.assert_close(together, shuffled)
    assert not torch.isclose(net(rows, torch.tensor([4])), together[0])


@every_form
def test_programs_without_rows_get_the_score_of_an_empty_sum(form: str) -> None:
    rows, net = torch.ones(2, 3), network(form=form)

    scores = net(rows, torch.tensor([0, 2, 0]))

    assert scores[0] == scores[2] != scores[1]
    assert net(rows[:0], torch.tensor([0])).tolist() == [scores[0].item()]
    assert net(rows[:0], torch.zeros(0, dtype=torch.int64)).shape == (0,)


def test_the_form_of_moses_has_two_hidden_layers_and_is_linear_in_their_sum() -> None:
    net, rows = network(form="moses"), torch.ones(2, 3)

    assert [tuple(weight.shape) for weight in net.parameters() if weight.ndim == 2] == [
        (8, 3),
        (8, 8),
        (1, 8),
    ]
    one, two, none = net(torch.cat([rows[:1], rows]), torch.tensor([1, 2, 0]))
    torch.testing.assert_close(two - none, 2 * (one - none))


def test_the_form_of_tenset_adds_the_sum_to_both_layers() -> None:
    net = network(form="tenset")
    with torch.no_grad():
        for layer in (net.decode_1, net.decode_2):
            layer.weight.zero_()
            layer.bias.zero_()
    rows = torch.ones(2, 3)
    one, two, none = net(torch.cat([rows[:1], rows]), torch.tensor([1, 2, 0]))

    # With layers that add nothing, what is left is the sum itself.
    torch.testing.assert_close(two - none, 2 * (one - none))
    assert one != none


def test_every_part_has_an_encoder_of_its_own() -> None:
    net = SegmentSumNetwork([3, 2], 8, generator=torch.Generator().manual_seed(0))
    rows, other, counts = torch.ones(2, 3), torch.ones(1, 2), torch.tensor([1, 1])

    scores = net(rows, counts, other, torch.tensor([1, 0]))

    assert scores[0] != scores[1]
    assert {name.rpartition(".")[0] for name, _ in net.named_parameters()} == {
        "encode_1",
        "encode_2",
        "part_1_encode_1",
        "part_1_encode_2",
        "decode_1",
        "decode_2",
        "score",
    }


def test_weights_come_from_the_generator_and_nothing_else() -> None:
    before = torch.get_rng_state()

    one, same, other = network(1), network(1), network(2)

    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), same.parameters(), strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_initial_weights_stay_within_the_bound_of_their_layer() -> None:
    net = network()

    assert 0 < float(net.get_parameter("encode_1.bias").detach().abs().max()) <= 3**-0.5
    assert 0 < float(net.score.weight.detach().abs().max()) <= 8**-0.5
