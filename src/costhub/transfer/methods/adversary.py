"""Provides DomainAdversary: a term that makes source and target look alike to the last layer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from costhub.models.networks.initial_weights import draw_weights
from costhub.models.training.batches import Batch, Examples
from costhub.models.training.step_rule import StepRule

_HIDDEN = 64


@dataclass
class DomainAdversary(StepRule):
    """A discriminator tells source programs from target programs; the network learns to mislead it.

    The discriminator reads the inputs of the network's last layer, `score`, through a layer that reverses the
    gradient (Ganin and Lempitsky, 2015), so one step trains both against each other.

    Args:
        source: Programs of the source, scaled as the network reads them.
        weight: beta, the factor of the discriminator's loss, which is added to the objective.
        seed: Draws the discriminator's weights and the source programs.
    """

    source: Examples
    weight: float
    seed: int
    _seen: list[Tensor] = field(default_factory=list)
    _parts: Any = None

    def begin(self, network: nn.Module) -> None:
        """Makes the discriminator, and listens to what the last layer reads."""
        last: nn.Linear = network.get_submodule("score")  # type: ignore[assignment]
        with torch.device("meta"):
            judge = nn.Sequential(nn.Linear(last.in_features, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, 1))
        draw_weights(judge, torch.Generator().manual_seed(self.seed))
        judge.to(last.weight.device)
        hook = last.register_forward_pre_hook(lambda _, inputs: self._seen.append(inputs[0]))
        optimizer = torch.optim.Adam(judge.parameters(), lr=1e-3)
        self._parts = judge, hook, optimizer, np.random.default_rng(self.seed)

    def loss(self, network: nn.Module, batch: Batch, own: Tensor) -> Tensor:
        """The objective, plus beta times the binary cross-entropy of telling the domains apart."""
        judge, _, optimizer, rng = self._parts
        target = self._seen[-1]
        drawn = rng.integers(self.source.n, size=len(batch.group))
        network(*self.source.take(drawn, device=own.device).inputs)
        source = self._seen[-1]
        self._seen.clear()
        optimizer.zero_grad(set_to_none=True)
        verdict = judge(_reversed(torch.cat([source, target]))).squeeze(-1)
        truth = torch.cat([verdict.new_zeros(len(source)), verdict.new_ones(len(target))])
        return own + self.weight * functional.binary_cross_entropy_with_logits(verdict, truth)

    def after_step(self, network: nn.Module, rate: float) -> None:
        """The discriminator takes its own step."""
        self._parts[2].step()

    def end(self, network: nn.Module) -> None:
        """Stops listening."""
        self._parts[1].remove()
        self._parts = None
        self._seen.clear()


class Reversed(torch.autograd.Function):
    """Passes values on, and gradients with the opposite sign."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        """The values."""
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """The gradient, turned round."""
        return -gradient


def _reversed(values: Tensor) -> Tensor:
    found: Tensor = Reversed.apply(values)  # type: ignore[no-untyped-call]
    return found
