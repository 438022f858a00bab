"""Provides Corrected: networks learn few weights, trees the source's errors, and both learn more with more trials."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import nn

from costhub.dataset.programs import Programs
from costhub.models.networks.neural import NeuralModel
from costhub.models.options import check_ranges
from costhub.models.protocol import CostModel
from costhub.models.trees.gbt import Gbt
from costhub.transfer.methods.lottery import Lottery
from costhub.transfer.methods.method import FineTune, adapt_sub_models


def share_of_source(prior: float, trials: int) -> float:
    """The share of the source that stays if it counts as much as `prior` trials on the target.

    A mean is shrunk towards prior knowledge in the same way: the variance of what few trials teach falls with
    their number, whereas the bias of the source does not.

    Args:
        prior: How many trials the source is worth; 0 keeps everything that was learned.
        trials: How many trials were learned from.

    Example:
        >>> [share_of_source(128, trials) for trials in (32, 128, 384)]
        [0.8, 0.5, 0.25]
    """
    return prior / (prior + trials) if prior else 0.0


def shrink_to_source(networks: Sequence[nn.Module], before: Sequence[nn.Module], share: float) -> None:
    """Moves the weights of networks back towards where they came from.

    For small steps, the scores are a weighted mean of the scores before and after learning (Wortsman et al.,
    "Robust fine-tuning of zero-shot models", 2022), and scoring costs no more than with one network.

    Args:
        networks: Changed in place.
        before: The same networks with the weights that they had before learning.
        share: How far to go back: 0 changes nothing, 1 undoes all learning.

    Example:
        >>> now, then = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
        >>> _ = nn.init.constant_(now.weight, 3.0), nn.init.constant_(then.weight, 1.0)
        >>> shrink_to_source([now], [then], 0.25)
        >>> now.weight.item()
        2.5
    """
    with torch.no_grad():
        for network, old in zip(networks, before, strict=True):
            for weight, was in zip(network.parameters(), old.parameters(), strict=True):
                weight.lerp_(was, share)


@dataclass(frozen=True)
class Corrected:
    """A narrow lottery ticket for networks, `Gbt.correct` for trees, and the source as a prior for both.

    All three prevent the few programs of the target from erasing what the source knows: the ticket lets a
    tenth of the weights move, the trees see only differences within workloads, and what was learned is
    weighted by the number of trials, so that 32 trials do not make a good source worse. The method gains most
    with a blend, whose network and trees are wrong about different programs.
    """

    name = "corrected"
    networks: FineTune | Lottery = field(default_factory=lambda: Lottery(ratio=0.1))
    """How networks learn."""
    prior: float = 128.0
    """How many trials on the target the source is worth, see `share_of_source`."""

    def __post_init__(self) -> None:
        check_ranges({"prior": (self.prior, 0.0, 1e9)})

    def adapt(
        self, source: CostModel, target: Programs, *, seed: int, source_programs: Programs | None = None
    ) -> CostModel:
        """See `TransferMethod`."""
        if isinstance(self.networks, Lottery):
            self.networks.forget()
        kept = share_of_source(self.prior, target.n)
        return adapt_sub_models(
            source,
            target,
            seed=seed,
            network=partial(self._tune, kept=kept),
            trees=partial(_correct, kept=kept),
        )

    def _tune(self, part: NeuralModel[Any], own: Programs, seed: int, kept: float) -> None:
        before = copy.deepcopy(part.networks)
        self.networks.tune(part, own, seed)
        shrink_to_source(part.networks, before, kept)


def _correct(part: Gbt, own: Programs, seed: int, kept: float) -> None:
    """Corrects trees with the objective `log`; the scores of others have no scale, so those trees are updated."""
    if part.options.objective == "log":
        part.correct(own, seed=seed, weight=1.0 - kept)
    else:
        part.update(own, seed=seed)
