"""Provides Lottery: only transferable parameters learn, while the others decay (Moses)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from costhub.dataset.programs import Programs
from costhub.models.networks.batches import Batch
from costhub.models.networks.gradient import StepRule
from costhub.models.networks.neural import NeuralModel
from costhub.models.options import check_ranges
from costhub.models.protocol import CostModel
from costhub.transfer.methods.method import adapt_sub_models

LayerShares = dict[str, float]
"""Layer -> share of its parameters that are transferable."""


@dataclass(frozen=True)
class Lottery:
    """Fine-tuning of a lottery ticket (Zhao et al., Moses, 2022, section 3.4).

    Before every epoch, xi = |w * dL/dw| is computed for each parameter w over all programs of the target. The
    parameters with the highest xi of every tensor are transferable and take the gradient steps of the epoch;
    all others only decay. Trees, which have no such parameters, are updated.

    Example:
        >>> Lottery(ratio=0.3).name
        'lottery'
    """

    name = "lottery"
    ratio: float = 0.5
    """Share of each tensor's parameters, those with the highest xi, that are transferable."""
    decay: float = 1e-2
    """lambda: a step at learning rate a multiplies the other parameters by (1 - a * lambda)."""
    epochs: int = 30
    """Passes over the programs of the target, each with a new mask."""
    learning_rate: float = 1e-3
    """Peak learning rate; it rises over the first tenth of the steps, and then falls as a cosine."""
    shares: list[list[LayerShares]] = field(default_factory=list, init=False, repr=False, compare=False)
    """Filled by `adapt`: for each network, the transferable shares in every epoch, for `--explain`."""
    kept: list[list[LayerShares]] = field(default_factory=list, init=False, repr=False, compare=False)
    """Filled by `adapt`: for each network, from its second epoch on, how much of the mask stayed, see
    `Masked`."""

    def __post_init__(self) -> None:
        check_ranges(
            {
                "ratio": (self.ratio, 0.0, 1.0),
                "decay": (self.decay, 0.0, 1e3),
                "epochs": (self.epochs, 1, 10_000),
                "learning_rate": (self.learning_rate, 0.0, 1.0),
            }
        )

    def adapt(
        self, source: CostModel, target: Programs, *, seed: int, source_programs: Programs | None = None
    ) -> CostModel:
        """See `TransferMethod`."""
        self.forget()
        return adapt_sub_models(source, target, seed=seed, network=self.tune)

    def tune(self, part: NeuralModel[Any], own: Programs, seed: int) -> None:
        """Changes one network; the programs are as it reads them."""
        self.train_masked(part, own, seed, self.masked())

    def masked(self, beside: StepRule | None = None) -> Masked:
        """The rule for a training run, with another one alongside it."""
        return Masked(self.mask, self.decay, beside or StepRule())

    def mask(self, flow: Tensor) -> Tensor:
        """Which parameters of a tensor are transferable, given their weight times gradient."""
        return transferable(flow, ratio=self.ratio)

    def train_masked(self, part: NeuralModel[Any], own: Programs, seed: int, rule: Masked) -> None:
        """Trains one network under a rule, and keeps what the rule notes about its masks."""
        part.fine_tune(own, epochs=self.epochs, learning_rate=self.learning_rate, seed=seed, rule=rule)
        self.shares.extend(rule.shares)
        self.kept.extend(rule.kept)

    def forget(self) -> None:
        """Clears the notes on masks before networks learn again."""
        self.shares.clear()
        self.kept.clear()


def trees_note(method: object, source: CostModel, programs: Programs) -> str | None:
    """What a lottery does with a source that has no networks and therefore no weights to mask; None for any other.

    Args:
        method: How the source is adapted.
        source: A fitted model.
        programs: Some programs, as the source reads them.
    """
    parts = [part for part, _ in source.sub_models(programs)] if isinstance(method, Lottery) else []
    if not parts or any(isinstance(part, NeuralModel) for part in parts):
        return None
    return (
        f"The source ({source.arch}) has no network, so there are no weights to mask: its trees are updated, as "
        "fine-tune does. The method corrected learns its errors instead."
    )


@dataclass
class Masked(StepRule):
    """Lets the transferable parameters learn, and all others decay."""

    mask: Callable[[Tensor], Tensor]
    """Given weight times gradient of each parameter of a tensor, says which of them are transferable."""
    decay: float
    beside: StepRule = field(default_factory=StepRule)
    """Another rule for the same training, such as an adversarial term."""
    shares: list[list[LayerShares]] = field(default_factory=list)
    """For each network that was trained, the transferable shares in every epoch."""
    kept: list[list[LayerShares]] = field(default_factory=list)
    """For each network, from its second epoch on, the share of the parameters transferable an epoch before
    that still are. A mask drawn independently of the last one would keep as large a share of them as of all
    parameters: that in `shares`."""
    masks_of: Callable[[Mapping[str, Tensor]], dict[str, Tensor]] | None = None
    """The same for all tensors at once; by default each is considered by itself."""
    _masks: dict[str, Tensor] = field(default_factory=dict)
    _noted: dict[str, Tensor] = field(default_factory=dict)
    """The masks whose shares were noted last."""
    _before: dict[str, Tensor] = field(default_factory=dict)

    def begin(self, network: nn.Module) -> None:
        """Begins the notes on this network."""
        self.shares.append([])
        self.kept.append([])
        self._masks, self._noted = {}, {}
        self.beside.begin(network)

    def begin_epoch(self, network: nn.Module, gradient: Callable[[], None]) -> None:
        """Draws new masks."""
        gradient()
        self.draw(network)
        self.note()

    def draw(self, network: nn.Module) -> None:
        """Draws the masks from the current gradients of the weights."""
        weights = [(name, w, w.grad) for name, w in network.named_parameters() if w.grad is not None]
        flows = {name: w.detach() * grad for name, w, grad in weights}
        each = self.masks_of or (lambda flows: {name: self.mask(flow) for name, flow in flows.items()})
        self._masks = each(flows)

    def note(self) -> None:
        """Notes the shares of the current masks, as those of an epoch."""
        self.shares[-1].append({name: float(mask.float().mean()) for name, mask in self._masks.items()})
        if last := self._noted:
            stayed = {name: kept_share(last[name], mask) for name, mask in self._masks.items() if last[name].any()}
            self.kept[-1].append(stayed)
        self._noted = self._masks

    def loss(self, network: nn.Module, batch: Batch, own: Tensor) -> Tensor:
        """The objective, plus what the rule alongside this one adds."""
        return self.beside.loss(network, batch, own)

    def before_step(self, network: nn.Module) -> None:
        """Remembers the weights."""
        self._before = {name: w.detach().clone() for name, w in network.named_parameters()}

    def after_step(self, network: nn.Module, rate: float) -> None:
        """Takes back the step of every parameter that is not transferable, and lets it decay instead."""
        with torch.no_grad():
            for name, weight in network.named_parameters():
                if name in self._masks:
                    decayed = self._before[name] * (1.0 - rate * self.decay)
                    weight.copy_(torch.where(self._masks[name], weight, decayed))
        self.beside.after_step(network, rate)

    def end(self, network: nn.Module) -> None:
        """The training has ended, also for the rule alongside this one."""
        self.beside.end(network)


def transferable(flow: Tensor, *, ratio: float) -> Tensor:
    """Which parameters of a tensor are transferable.

    Args:
        flow: Weight times gradient of each; only the magnitude counts.
        ratio: Share of the tensor with the largest magnitudes, rounded up.

    Returns:
        True where transferable; all True if every flow is 0, since then nothing tells them apart.

    Example:
        >>> transferable(torch.tensor([0.1, -0.9, 0.5, 0.0]), ratio=0.5).tolist()
        [False, True, True, False]
    """
    size = flow.abs()
    if not size.any():
        return torch.ones_like(size, dtype=torch.bool)
    chosen = torch.zeros(size.numel(), dtype=torch.bool, device=size.device)
    chosen[size.flatten().topk(math.ceil(ratio * size.numel())).indices] = True
    return chosen.view_as(size)


def kept_share(before: Tensor, now: Tensor) -> float:
    """How much of a mask stayed.

    Args:
        before: Which parameters were transferable, at least one of them.
        now: Which of the same parameters are transferable now.

    Returns:
        Of those that were transferable, the share that still are: 1 if all of them stayed.

    Example:
        >>> kept_share(torch.tensor([True, True, False]), torch.tensor([True, False, True]))
        0.5
    """
    return float(now[before].float().mean())
