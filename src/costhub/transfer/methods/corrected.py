"""Provides Corrected: networks learn few weights, trees the source's errors, both more with more trials."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from costhub.dataset.programs import Programs
from costhub.models.networks.neural import NeuralModel
from costhub.models.protocol import CostModel
from costhub.models.trees.gbt import Gbt
from costhub.transfer.methods.fine_tune import FineTune
from costhub.transfer.methods.lottery import Lottery
from costhub.transfer.methods.method import adapt_leaves
from costhub.transfer.methods.prior import draw_back, share_of_source


@dataclass(frozen=True)
class Corrected:
    """A narrow lottery ticket for networks, `Gbt.correct` for trees, and the source as a prior for both.

    All three prevent the few programs of the target from erasing what the source knows: the ticket lets a
    tenth of the weights move, the trees see nothing but differences within workloads, and what was learned is
    weighted by the number of trials, so that 32 trials do not make a good source worse. The method gains most
    with a blend, whose network and trees are wrong about different programs.
    """

    name = "corrected"
    networks: FineTune | Lottery = field(default_factory=lambda: Lottery(ratio=0.1))
    """How networks learn."""
    prior: float = 128.0
    """How many trials on the target the source is worth, see `share_of_source`."""

    def __post_init__(self) -> None:
        if isinstance(self.networks, Lottery) and self.networks.domain:
            raise ValueError("The networks of Corrected learn from the target alone: give Lottery no domain.")

    def adapt(
        self, source: CostModel, target: Programs, *, seed: int, source_programs: Programs | None = None
    ) -> CostModel:
        """See `TransferMethod`."""
        if isinstance(self.networks, Lottery):
            self.networks.forget()
        kept = share_of_source(self.prior, target.n)
        return adapt_leaves(
            source,
            target,
            seed=seed,
            network=partial(self._tune, kept=kept),
            trees=partial(_correct, kept=kept),
        )

    def _tune(self, part: NeuralModel[Any], own: Programs, seed: int, kept: float) -> None:
        before = copy.deepcopy(part.networks)
        self.networks.tune(part, own, seed)
        draw_back(part.networks, before, kept)


def _correct(part: Gbt, own: Programs, seed: int, kept: float) -> None:
    """Corrects trees of the objective `log`; the scores of others have no scale, so these are updated."""
    if part.options.objective == "log":
        part.correct(own, seed=seed, weight=1.0 - kept)
    else:
        part.update(own, seed=seed)
