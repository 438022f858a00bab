"""Provides Brief: each part of a model learns by its architecture's own short update."""

from __future__ import annotations

from dataclasses import dataclass

from costhub.dataset.programs import Programs
from costhub.models.protocol import CostModel
from costhub.transfer.methods.method import adapt_leaves


@dataclass(frozen=True)
class Brief:
    """Trains networks for a few passes at a low rate, and grows twenty more trees (`CostModel.update`).

    This is for searches, which learn from one workload, a few programs at a time, and wait for the learning.
    """

    name = "brief"

    def adapt(
        self, source: CostModel, target: Programs, *, seed: int, source_programs: Programs | None = None
    ) -> CostModel:
        """See `TransferMethod`."""
        return adapt_leaves(source, target, seed=seed, network=_update)


def _update(part: CostModel, own: Programs, seed: int) -> None:
    part.update(own, seed=seed)
