"""Provides Frozen: the source model as it is, what every other method has to beat."""

from __future__ import annotations

import copy
from dataclasses import dataclass

from costhub.dataset.programs import Programs
from costhub.models.protocol import CostModel


@dataclass(frozen=True)
class Frozen:
    """Learns nothing."""

    name = "frozen"

    def adapt(
        self, source: CostModel, target: Programs, *, seed: int, source_programs: Programs | None = None
    ) -> CostModel:
        """A copy, see `TransferMethod`."""
        return copy.deepcopy(source)
