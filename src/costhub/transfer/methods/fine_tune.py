"""Provides FineTune: all weights take gradient steps on what the target has measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from costhub.dataset.programs import Programs
from costhub.models.networks.neural import NeuralModel
from costhub.models.protocol import CostModel
from costhub.transfer.methods.method import adapt_leaves


@dataclass(frozen=True)
class FineTune:
    """Networks take plain gradient steps, trees continue from the source's trees."""

    name = "fine-tune"
    epochs: int = 30
    learning_rate: float = 1e-3

    def adapt(
        self, source: CostModel, target: Programs, *, seed: int, source_programs: Programs | None = None
    ) -> CostModel:
        """See `TransferMethod`."""
        return adapt_leaves(source, target, seed=seed, network=self.tune)

    def tune(self, part: NeuralModel[Any], own: Programs, seed: int) -> None:
        """Changes one network; the programs are as it reads them."""
        part.fine_tune(own, epochs=self.epochs, learning_rate=self.learning_rate, seed=seed)
