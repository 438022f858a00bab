from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from costhub.dataset.programs import Programs
from costhub.models.architectures import new_model
from costhub.models.networks.mlp import Mlp
from costhub.models.protocol import CostModel
from costhub.transfer.methods.lottery import Lottery, kept_share, transferable
from costhub.transfer.methods.method import FineTune

Models = dict[str, CostModel]


def weights(model: CostModel) -> dict[str, Tensor]:
    assert isinstance(model, Mlp)
    return dict(model.networks[0].named_parameters())


@pytest.mark.parametrize("ratio", [0.01, 0.3, 0.5, 0.7])
def test_the_share_of_every_layer_is_the_ratio(ratio: float, sources: Models, measured_here: Programs) -> None:
    method = Lottery(ratio=ratio, epochs=3)

    method.adapt(sources["mlp"], measured_here, seed=0)

    [epochs] = method.shares
    sizes = {name: w.numel() for name, w in weights(sources["mlp"]).items()}
    assert len(epochs) == 3
    for shares in epochs:
        # The bias of the last layer moves all scores alike, so nothing flows into it and it is left free.
        expected = {name: math.ceil(ratio * n) / n for name, n in sizes.items() if name != "score.bias"}
        assert {name: shares[name] for name in expected} == pytest.approx(expected)


def test_the_share_kept_is_told_from_the_second_epoch_on(sources: Models, measured_here: Programs) -> None:
    for ratio, rate in ((1.0, 1e-2), (0.3, 1e-2), (0.3, 0.0)):
        method = Lottery(ratio=ratio, epochs=4, learning_rate=rate)

        method.adapt(sources["mlp"], measured_here, seed=0)

        [epochs] = method.kept
        assert [shares.keys() for shares in epochs] == [method.shares[0][0].keys()] * 3
        kept = np.array([share for shares in epochs for share in shares.values()])
        assert ((kept >= 0) & (kept <= 1)).all()
        # Where all are free, or none has moved, all stay; otherwise some of them give way to others.
        assert (kept == 1).all() == (ratio == 1.0 or rate == 0.0)


def test_of_what_was_transferable_the_part_that_still_is_was_kept() -> None:
    before = torch.tensor([[True, True], [True, False]])

    assert kept_share(before, torch.tensor([[True, False], [False, True]])) == pytest.approx(1 / 3)
    assert kept_share(before, torch.ones(2, 2, dtype=torch.bool)) == 1.0
    assert kept_share(before, ~before) == 0.0


def test_every_member_of_a_network_has_a_tale_of_its_own(source_programs: Programs, measured_here: Programs) -> None:
    two = new_model("mlp", feature_spec="demo@1", options={"hidden": 8, "epochs": 1, "members": 2})
    two.fit(source_programs, None, seed=0, progress=False)
    method = Lottery(epochs=3)

    for _ in range(2):  # and a second time the tale of the first is forgotten
        method.adapt(two, measured_here, seed=0)

    assert [len(epochs) for epochs in method.shares] == [3, 3]
    assert [len(epochs) for epochs in method.kept] == [2, 2]


def test_what_is_not_transferable_only_decays(sources: Models, measured_here: Programs) -> None:
    method = Lottery(ratio=0.1, epochs=1, learning_rate=1e-2, decay=0.5)

    adapted = weights(method.adapt(sources["mlp"], measured_here, seed=0))

    for name, before in weights(sources["mlp"]).items():
        if name == "score.bias":
            continue
        ratio = (adapted[name] / before).detach().flatten()
        # One step, at the half of the highest rate where the schedule's single step stands.
        decayed = ratio[(ratio - ratio.median()).abs() < 1e-5]
        assert len(decayed) >= 0.85 * len(ratio)
        assert 1 - 1e-2 * 0.5 <= float(decayed[0]) < 1.0


def test_with_all_transferable_it_is_fine_tuning(sources: Models, measured_here: Programs) -> None:
    every = Lottery(ratio=1.0, epochs=4).adapt(sources["mlp"], measured_here, seed=2)
    plain = FineTune(epochs=4).adapt(sources["mlp"], measured_here, seed=2)

    for name, weight in weights(every).items():
        torch.testing.assert_close(weight, weights(plain)[name], rtol=0, atol=0)


def test_where_nothing_flows_everything_is_free() -> None:
    assert transferable(torch.zeros(3), ratio=0.1).all()
