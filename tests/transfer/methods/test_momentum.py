from __future__ import annotations

import pytest
import torch

from costhub.dataset.programs import Programs
from costhub.models.networks.mlp import Mlp
from costhub.models.protocol import CostModel
from costhub.papers.pruner import Momentum
from costhub.transfer.methods.method import FineTune

Models = dict[str, CostModel]


def distance(one: CostModel, other: CostModel) -> float:
    assert isinstance(one, Mlp)
    assert isinstance(other, Mlp)
    pairs = zip(one.networks[0].parameters(), other.networks[0].parameters(), strict=True)
    return float(torch.stack([(a - b).detach().norm() for a, b in pairs]).norm())


def test_the_slow_copy_stays_nearer_to_the_source(sources: Models, target: Programs) -> None:
    source, fast = sources["mlp"], FineTune().adapt(sources["mlp"], target, seed=0)
    found = [Momentum(keep=keep).adapt(source, target, seed=0) for keep in (0.0, 0.9, 0.99)]

    away = [distance(model, source) for model in found]

    assert away[0] == pytest.approx(distance(fast, source))
    assert away[0] > away[1] > away[2] > 0


def test_keeping_all_is_the_source(sources: Models, target: Programs) -> None:
    assert distance(Momentum(keep=1.0).adapt(sources["mlp"], target, seed=0), sources["mlp"]) == 0.0
