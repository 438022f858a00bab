from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from costhub.dataset.programs import Programs
from costhub.hub.catalogue.hubs import EMBEDDED
from costhub.models.compound.blend import Blend
from costhub.models.protocol import CostModel
from costhub.models.trees.gbt import Gbt
from costhub.transfer.methods.corrected import Corrected, share_of_source, shrink_to_source
from costhub.transfer.methods.lottery import Lottery
from costhub.transfer.methods.method import FineTune


def test_the_source_counts_less_the_more_was_learned_from() -> None:
    shares = [share_of_source(128, trials) for trials in (1, 32, 128, 512, 10**6)]

    assert shares == sorted(shares, reverse=True)
    assert shares[2] == 0.5
    assert shares[-1] < 0.001


def test_without_a_prior_nothing_of_the_source_is_kept() -> None:
    assert share_of_source(0, 0) == share_of_source(0, 32) == 0.0


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_every_weight_goes_the_same_share_of_the_way(share: float) -> None:
    torch.manual_seed(0)
    before = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    now = copy.deepcopy(before)
    with torch.no_grad():
        for weight in now.parameters():
            weight.add_(torch.randn_like(weight))
    learned = copy.deepcopy(now)

    shrink_to_source([now], [before], share)

    for moved, new, old in zip(now.parameters(), learned.parameters(), before.parameters(), strict=True):
        torch.testing.assert_close(moved, (1 - share) * new + share * old)


def test_only_the_last_time_is_told_of_the_masks(sources: dict[str, CostModel], measured_here: Programs) -> None:
    networks = Lottery(ratio=0.1, epochs=3)

    for _ in range(2):
        Corrected(networks).adapt(sources["blend"], measured_here, seed=0)

    assert [len(epochs) for epochs in networks.shares] == [3]
    assert [len(epochs) for epochs in networks.kept] == [2]


def test_trees_are_corrected_and_networks_learn_as_they_are_told(
    sources: dict[str, CostModel], measured_here: Programs
) -> None:
    by_hand = copy.deepcopy(sources["gbt"])
    assert isinstance(by_hand, Gbt)
    by_hand.correct(measured_here, seed=2)
    scores = {}
    for networks in (Lottery(ratio=0.1), FineTune()):
        adapted = Corrected(networks, prior=0).adapt(sources["blend"], measured_here, seed=2)
        alone = networks.adapt(sources["blend"], measured_here, seed=2)
        assert isinstance(adapted, Blend)
        assert isinstance(alone, Blend)
        own = adapted.members[1].predict(measured_here.rows, measured_here.counts)
        np.testing.assert_array_equal(own, alone.members[1].predict(measured_here.rows, measured_here.counts))
        scores[networks.name] = own

    found = (
        Corrected(prior=0)
        .adapt(sources["gbt"], measured_here, seed=2)
        .predict(measured_here.rows, measured_here.counts)
    )
    np.testing.assert_array_equal(found, by_hand.predict(measured_here.rows, measured_here.counts))
    assert not np.array_equal(scores["lottery"], scores["fine-tune"])


@pytest.mark.parametrize("arch", ["mlp", "gbt", "blend"])
def test_the_more_the_source_counts_the_less_is_learned(
    arch: str, sources: dict[str, CostModel], measured_here: Programs
) -> None:
    source = sources[arch].predict(measured_here.rows, measured_here.counts)

    moved = []
    for prior in (0.0, 64.0, 1e3, 1e6):
        adapted = Corrected(prior=prior).adapt(sources[arch], measured_here, seed=2)
        moved.append(float(np.abs(adapted.predict(measured_here.rows, measured_here.counts) - source).mean()))

    assert moved == sorted(moved, reverse=True)
    assert moved[-1] < 0.01 * moved[0]


def tree_objectives(config: object) -> Iterator[str]:
    """The objective of every `Gbt` in the configuration of a model."""
    if isinstance(config, dict):
        if {"rounds", "objective"} <= set(config):
            yield config["objective"]
        for value in config.values():
            yield from tree_objectives(value)
    elif isinstance(config, list):
        for value in config:
            yield from tree_objectives(value)


SHIPPED = sorted((EMBEDDED / "models").glob("*/*/config.json"))
WITH_TREES = ("gbt", "blend", "conditioned")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: str(path.parent.name))
def test_the_trees_of_shipped_models_are_corrected(path: Path) -> None:
    config = json.loads(path.read_text(encoding="utf-8"))

    # Of another objective, `costhub adapt` would only grow twenty more trees, without a prior.
    assert set(tree_objectives(config)) == ({"log"} if config["arch"] in WITH_TREES else set())


@pytest.mark.parametrize("prior", [-32.0, float("nan"), float("inf")])
def test_a_prior_that_no_number_of_trials_can_be_weighed_against_is_refused(prior: float) -> None:
    with pytest.raises(ValueError, match="prior must be between 0 and 1e\\+09"):
        Corrected(prior=prior)
