"""Provides Lottery: only transferable parameters learn, the others decay (Moses)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from costhub.dataset.programs import Programs
from costhub.errors import ModelError
from costhub.models.networks.batches import Batch, Examples
from costhub.models.networks.gradient import StepRule
from costhub.models.networks.neural import NeuralModel
from costhub.models.protocol import CostModel, sub_models
from costhub.papers.moses import DomainAdversary
from costhub.transfer.methods.method import adapt_sub_models

LayerShares = dict[str, float]
"""Layer -> share of its parameters that is transferable."""


@dataclass(frozen=True)
class Lottery:
    """Fine-tuning of a lottery ticket (Zhao et al., Moses, 2022, section 3.4).

    Before every epoch, xi = |w * dL/dw| is computed for each parameter w over all programs of the target and
    divided by the largest xi of its tensor. A parameter with a high xi is transferable and takes the gradient
    steps of the epoch; all others only decay. Trees, which have no such parameters, are updated.

    Example:
        >>> Lottery(ratio=0.3).name
        'lottery'
    """

    name = "lottery"
    ratio: float | None = 0.5
    """Share of each tensor's parameters, those with the highest xi, that are transferable; None takes the
    threshold instead."""
    threshold: float = 0.5
    """Normalised xi from which on a parameter is transferable; used only if `ratio` is None."""
    decay: float = 1e-2
    """lambda: a step at learning rate a multiplies the other parameters by (1 - a * lambda)."""
    domain: float = 0.0
    """Weight of the adversarial term, see `DomainAdversary`; it needs programs of the source."""
    epochs: int = 30
    learning_rate: float = 1e-3
    shares: list[list[LayerShares]] = field(default_factory=list, compare=False)
    """Filled by `adapt`: for each network, the transferable shares in every epoch, for `--explain`."""
    kept: list[list[LayerShares]] = field(default_factory=list, compare=False)
    """Filled by `adapt`: for each network, from its second epoch on, how much of the mask stayed, see
    `Masked`."""

    def adapt(
        self, source: CostModel, target: Programs, *, seed: int, source_programs: Programs | None = None
    ) -> CostModel:
        """See `TransferMethod`.

        Raises:
            ModelError: The adversarial term is asked for without programs of the source.
        """
        if self.domain and source_programs is None:
            raise ModelError("The adversarial term compares with programs of the source; give some of them.")
        self.forget()
        of_networks = iter(_as_networks_read(source, source_programs))
        return adapt_sub_models(
            source,
            target,
            seed=seed,
            network=lambda part, own, own_seed: self.tune(part, own, own_seed, next(of_networks, None)),
        )

    def tune(self, part: NeuralModel[Any], own: Programs, seed: int, source_programs: Programs | None = None) -> None:
        """Changes one network; both kinds of programs as it reads them."""
        adversary = StepRule()
        if self.domain and source_programs is not None:
            adversary = DomainAdversary(Examples(source_programs, part.scalers), self.domain, seed)
        rule = Masked(self.ratio, self.threshold, self.decay, adversary)
        part.fine_tune(own, epochs=self.epochs, learning_rate=self.learning_rate, seed=seed, rule=rule)
        self.shares.extend(rule.shares)
        self.kept.extend(rule.kept)

    def forget(self) -> None:
        """Empties what is told of the masks, before networks learn anew."""
        self.shares.clear()
        self.kept.clear()


def _as_networks_read(source: CostModel, programs: Programs | None) -> list[Programs]:
    """The programs as each network of the source reads them."""
    if programs is None:
        return []
    return [own for part, own in sub_models(source, programs) if isinstance(part, NeuralModel)]


@dataclass
class Masked(StepRule):
    """Lets the transferable parameters learn, and all others decay."""

    ratio: float | None
    threshold: float
    decay: float
    adversary: StepRule = field(default_factory=StepRule)
    """The adversarial term, or nothing."""
    shares: list[list[LayerShares]] = field(default_factory=list)
    """For each network that was trained, the transferable shares in every epoch."""
    kept: list[list[LayerShares]] = field(default_factory=list)
    """For each network, from its second epoch on, the share of the parameters transferable an epoch before
    that still are. A mask drawn independently of the last one would keep as large a share of them as of all
    parameters: that in `shares`."""
    _mask: dict[str, Tensor] = field(default_factory=dict)
    _before: dict[str, Tensor] = field(default_factory=dict)

    def begin(self, network: nn.Module) -> None:
        """Begins the tale of this network; the adversary gets to know it."""
        self.shares.append([])
        self.kept.append([])
        self._mask = {}
        self.adversary.begin(network)

    def begin_epoch(self, network: nn.Module, gradient: Callable[[], None]) -> None:
        """Draws the mask anew."""
        gradient()
        weights = [(name, w, w.grad) for name, w in network.named_parameters() if w.grad is not None]
        last, self._mask = (
            self._mask,
            {
                name: transferable(w.detach() * grad, ratio=self.ratio, threshold=self.threshold)
                for name, w, grad in weights
            },
        )
        self.shares[-1].append({name: float(mask.float().mean()) for name, mask in self._mask.items()})
        if last:
            self.kept[-1].append({name: kept_share(last[name], mask) for name, mask in self._mask.items()})

    def loss(self, network: nn.Module, batch: Batch, own: Tensor) -> Tensor:
        """The objective, and the adversarial term where there is one."""
        return self.adversary.loss(network, batch, own)

    def before_step(self, network: nn.Module) -> None:
        """Remembers the weights."""
        self._before = {name: w.detach().clone() for name, w in network.named_parameters()}

    def after_step(self, network: nn.Module, rate: float) -> None:
        """Takes back the step of every parameter that is not transferable, and lets it decay instead."""
        with torch.no_grad():
            for name, weight in network.named_parameters():
                if name in self._mask:
                    decayed = self._before[name] * (1.0 - rate * self.decay)
                    weight.copy_(torch.where(self._mask[name], weight, decayed))
        self.adversary.after_step(network, rate)

    def end(self, network: nn.Module) -> None:
        """The adversary lets go of the network."""
        self.adversary.end(network)


def transferable(flow: Tensor, *, ratio: float | None, threshold: float = 0.5) -> Tensor:
    """Which parameters of a tensor are transferable.

    Args:
        flow: Weight times gradient of each; only the size counts.
        ratio: Share of the tensor with the largest sizes, rounded up; None takes the threshold.
        threshold: Of the size, normalised by the tensor's largest.

    Returns:
        True where transferable; all True where every flow is 0, since then nothing tells them apart.

    Example:
        >>> transferable(torch.tensor([0.1, -0.9, 0.5, 0.0]), ratio=0.5).tolist()
        [False, True, True, False]
        >>> transferable(torch.tensor([0.1, -0.9, 0.5, 0.0]), ratio=None, threshold=0.6).tolist()
        [False, True, False, False]
    """
    size = flow.abs()
    if not size.any():
        return torch.ones_like(size, dtype=torch.bool)
    if ratio is None:
        return size >= threshold * size.max()
    kept = torch.zeros(size.numel(), dtype=torch.bool, device=size.device)
    kept[size.flatten().topk(math.ceil(ratio * size.numel())).indices] = True
    return kept.view_as(size)


def kept_share(before: Tensor, now: Tensor) -> float:
    """How much of a mask stayed.

    Args:
        before: Which parameters were transferable, at least one of them.
        now: Which of the same parameters are transferable now.

    Returns:
        Of those that were transferable, the share that still is: 1 where all of them stayed.

    Example:
        >>> kept_share(torch.tensor([True, True, False]), torch.tensor([True, False, True]))
        0.5
    """
    return float(now[before].float().mean())
