"""Provides Brief: each part of a model learns as its architecture does when there is no time."""

from __future__ import annotations

from dataclasses import dataclass

from costhub.dataset.programs import Programs
from costhub.models.protocol import CostModel
from costhub.transfer.methods.method import adapt_leaves


@dataclass(frozen=True)
class Brief:
    """A few passes at a low rate for networks, twenty trees more for trees (`CostModel.update`).

    A search learns from one workload, a few programs at a time, and waits for it.
    """

    name = "brief"

    def adapt(
        self, source: CostModel, target: Programs, *, seed: int, source_programs: Programs | None = None
    ) -> CostModel:
        """See `TransferMethod`."""
        return adapt_leaves(source, target, seed=seed, network=_update)


def _update(part: CostModel, own: Programs, seed: int) -> None:
    part.update(own, seed=seed)
