"""Provides ResidualTrees: the source model stays, local trees learn what it leaves (AutoTVM, eq. 4)."""

from __future__ import annotations

import copy
from dataclasses import dataclass

from costhub.dataset.programs import Programs
from costhub.models.compound.residual import Residual
from costhub.models.protocol import CostModel


@dataclass(frozen=True)
class ResidualTrees:
    """Global plus local model, see `Residual`; of a source that is one, the local part is trained anew."""

    name = "residual"

    def adapt(
        self, source: CostModel, target: Programs, *, seed: int, source_programs: Programs | None = None
    ) -> CostModel:
        """See `TransferMethod`."""
        kept = copy.deepcopy(source)
        model = kept if isinstance(kept, Residual) else Residual(feature_spec=kept.feature_spec, base=kept)
        model.update(target, seed=seed)
        return model
