"""Provides Corrected: few weights of networks learn, and trees learn what the source gets wrong."""

from __future__ import annotations

from dataclasses import dataclass, field

from costhub.dataset.programs import Programs
from costhub.models.protocol import CostModel
from costhub.models.trees.gbt import Gbt
from costhub.transfer.methods.fine_tune import FineTune
from costhub.transfer.methods.lottery import Lottery
from costhub.transfer.methods.method import adapt_leaves


@dataclass(frozen=True)
class Corrected:
    """A narrow lottery ticket for networks, `Gbt.correct` for trees.

    Both keep what the source knows from being unlearned by the few programs of the target: the ticket lets a
    tenth of the weights move, the trees see nothing but differences within workloads. It gains most with a
    blend, whose network and trees are wrong about different programs.
    """

    name = "corrected"
    networks: FineTune | Lottery = field(default_factory=lambda: Lottery(ratio=0.1))
    """How networks learn."""

    def adapt(
        self, source: CostModel, target: Programs, *, seed: int, source_programs: Programs | None = None
    ) -> CostModel:
        """See `TransferMethod`."""
        if isinstance(self.networks, Lottery):
            self.networks.forget()
        return adapt_leaves(source, target, seed=seed, network=self.networks.tune, trees=_correct)


def _correct(part: Gbt, own: Programs, seed: int) -> None:
    """Trees of ranks have no scale on which to correct them; they continue."""
    if part.options.objective == "log":
        part.correct(own, seed=seed)
    else:
        part.update(own, seed=seed)
