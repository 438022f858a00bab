"""Provides Momentum: the model that scores slowly follows the one that learns (Pruner's siamese model)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from costhub.dataset.programs import Programs
from costhub.models.networks.neural import NeuralModel
from costhub.models.protocol import CostModel
from costhub.models.training.step_rule import StepRule
from costhub.transfer.methods.method import adapt_leaves


@dataclass(frozen=True)
class Momentum:
    """Networks are fine-tuned, and after every step a slow copy moves a little towards them.

    The slow copy, which begins as the source, is the result: Pruner's momentum (MoA-Pruner, ASPLOS 2025)
    keeps 0.99 of it in each step. Trees continue from the source's trees.
    """

    name = "momentum"
    keep: float = 0.99
    """Weight of the slow copy when a step averages it with the networks."""
    epochs: int = 30
    learning_rate: float = 1e-3

    def adapt(
        self, source: CostModel, target: Programs, *, seed: int, source_programs: Programs | None = None
    ) -> CostModel:
        """See `TransferMethod`."""
        return adapt_leaves(source, target, seed=seed, network=self.tune)

    def tune(self, part: NeuralModel[Any], own: Programs, seed: int) -> None:
        """Changes one network; the programs are as it reads them."""
        part.fine_tune(
            own, epochs=self.epochs, learning_rate=self.learning_rate, seed=seed, rule=SlowCopy(self.keep)
        )


@dataclass
class SlowCopy(StepRule):
    """Keeps a slow copy of the weights, and puts it in their place at the end."""

    keep: float
    _slow: dict[str, Tensor] = field(default_factory=dict)

    def begin(self, network: nn.Module) -> None:
        """The slow copy begins as the network."""
        self._slow = {name: weight.detach().clone() for name, weight in network.named_parameters()}

    def after_step(self, network: nn.Module, rate: float) -> None:
        """The slow copy follows."""
        for name, weight in network.named_parameters():
            self._slow[name].lerp_(weight.detach(), 1.0 - self.keep)

    def end(self, network: nn.Module) -> None:
        """The slow copy is the result."""
        with torch.no_grad():
            for name, weight in network.named_parameters():
                weight.copy_(self._slow[name])
