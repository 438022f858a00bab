"""Moses: the threshold form of its lottery ticket, its domain adversary, and its adaptive controller.

Zhao et al., *Moses: Efficient Exploitation of Cross-device Transferable Features for Tensor Program Optimization*,
2022.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from costhub.dataset.programs import Programs
from costhub.errors import ModelError
from costhub.models.networks.batches import Batch, Examples
from costhub.models.networks.gradient import StepRule
from costhub.models.networks.neural import NeuralModel
from costhub.models.networks.weights import draw_weights
from costhub.models.options import check_choice, check_ranges
from costhub.models.protocol import CostModel
from costhub.search.scheduler import ScheduledTask, TaskRule, TaskScheduler, TrialBatch, score_line
from costhub.transfer.methods.lottery import Lottery, Masked
from costhub.transfer.methods.method import adapt_sub_models
from costhub.transfer.stopping import BatchVerdict

_DISCRIMINATOR_HIDDEN = 64


@dataclass(frozen=True)
class MosesLottery(Lottery):
    """A lottery ticket with the threshold and the adversarial term of Moses (sections 3.4 and 3.3).

    Example:
        >>> MosesLottery(threshold=0.6).mask(torch.tensor([0.1, -0.9, 0.5, 0.0])).tolist()
        [False, True, False, False]
    """

    name = "moses"
    threshold: float = 0.0
    """Smallest xi, divided by the largest xi of the tensor, at which a parameter is transferable; 0 uses `ratio`
    instead."""
    domain: float = 0.0
    """Weight of the adversarial term, see `DomainAdversary`; it needs programs of the source."""
    scope: str = "tensor"
    """Where xi is ranked: within each `tensor`, or across the whole `network` at once."""
    drawn: str = "epoch"
    """When the mask is drawn: before each `epoch`, from the gradient over all programs, or in each `step`, from the
    gradient that the step computes anyway, which saves a pass per epoch."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("scope", self.scope, ("tensor", "network"))
        check_choice("drawn", self.drawn, ("epoch", "step"))
        check_ranges({"threshold": (self.threshold, 0.0, 1.0), "domain": (self.domain, 0.0, 1e3)})

    def check_source(self, *, given: bool) -> None:
        """Rejects an adversary without source programs, and source programs without an adversary.

        Args:
            given: Whether source programs will be given.

        Raises:
            ModelError: One of the two is the case.
        """
        if self.domain and not given:
            raise _needs_source()
        if given and not self.domain:
            raise ModelError(
                "Programs of the source are for the adversarial term, which is off: give it a weight, for example "
                "`--option domain=0.05`, or leave --source-data out."
            )

    def adapt(
        self, source: CostModel, target: Programs, *, seed: int, source_programs: Programs | None = None
    ) -> CostModel:
        """See `TransferMethod`.

        Raises:
            ModelError: The adversarial term is requested without source programs.
        """
        if not self.domain:
            return super().adapt(source, target, seed=seed)
        if source_programs is None:
            raise _needs_source()
        self.forget()
        as_read = [own for part, own in source.sub_models(source_programs) if isinstance(part, NeuralModel)]
        of_networks = iter(as_read)

        def tune(part: NeuralModel[Any], own: Programs, seed: int) -> None:
            examples = Examples(next(of_networks), part.scalers)
            adversary = DomainAdversary(examples, self.domain, seed)
            self.train_masked(part, own, seed, self.masked(adversary))

        return adapt_sub_models(source, target, seed=seed, network=tune)

    def tune(self, part: NeuralModel[Any], own: Programs, seed: int) -> None:
        """Adapts one network without source programs.

        Raises:
            ModelError: The adversarial term is requested.
        """
        if self.domain:
            raise _needs_source()
        super().tune(part, own, seed)

    def masked(self, beside: StepRule | None = None) -> Masked:
        """See `Lottery`."""
        kind = _MaskedInSteps if self.drawn == "step" else Masked
        masks = _over_network(self.mask) if self.scope == "network" else None
        return kind(self.mask, self.decay, beside or StepRule(), masks_of=masks)

    def mask(self, flow: Tensor) -> Tensor:
        """See `Lottery`; all parameters are transferable if every flow is 0."""
        if not self.threshold:
            return super().mask(flow)
        size = flow.abs()
        return size >= self.threshold * size.max()


class _MaskedInSteps(Masked):
    """Draws the mask in every step, from the gradient of the step; the last one of an epoch is noted."""

    def begin_epoch(self, network: nn.Module, gradient: Callable[[], None]) -> None:
        """Notes the last mask of the epoch before; the gradients of the steps suffice to draw others."""
        if self._masks:
            self.note()

    def end(self, network: nn.Module) -> None:
        """Notes the last mask of the last epoch."""
        if self._masks:
            self.note()
        super().end(network)

    def before_step(self, network: nn.Module) -> None:
        """Draws the mask, and remembers the weights."""
        self.draw(network)
        super().before_step(network)


def _over_network(mask: Callable[[Tensor], Tensor]) -> Callable[[Mapping[str, Tensor]], dict[str, Tensor]]:
    """Applies a mask to the parameters of all tensors as if they were one tensor."""

    def masks(flows: Mapping[str, Tensor]) -> dict[str, Tensor]:
        chosen = mask(torch.cat([flow.flatten() for flow in flows.values()]))
        parts = torch.split(chosen, [flow.numel() for flow in flows.values()])
        return {name: part.view_as(flows[name]) for name, part in zip(flows, parts, strict=True)}

    return masks


def _needs_source() -> ModelError:
    return ModelError(
        "The adversarial term compares with programs of the source: give some of them with --source-data, or "
        "`source_programs` in Python, or leave `domain` at 0."
    )


@dataclass
class DomainAdversary(StepRule):
    """A discriminator separates source programs from target programs; the network learns to mislead it.

    The discriminator reads the inputs of the network's last layer, `score`, through a layer that reverses the
    gradient (Ganin and Lempitsky, 2015), so one step trains both against each other.

    Args:
        source: Programs of the source, scaled for the network.
        weight: Beta, the factor of the discriminator's loss, which is added to the objective.
        seed: Draws the discriminator's weights and the source programs.
    """

    source: Examples
    weight: float
    seed: int
    _seen: list[Tensor] = field(default_factory=list)
    _parts: Any = None

    def begin(self, network: nn.Module) -> None:
        """Makes the discriminator, and records the inputs of the last layer."""
        last: nn.Linear = network.get_submodule("score")  # type: ignore[assignment]
        with torch.device("meta"):
            discriminator = nn.Sequential(
                nn.Linear(last.in_features, _DISCRIMINATOR_HIDDEN), nn.ReLU(), nn.Linear(_DISCRIMINATOR_HIDDEN, 1)
            )
        draw_weights(discriminator, torch.Generator().manual_seed(self.seed))
        discriminator.to(last.weight.device)
        hook = last.register_forward_pre_hook(lambda _, inputs: self._seen.append(inputs[0]))
        optimizer = torch.optim.Adam(discriminator.parameters(), lr=1e-3)
        self._parts = discriminator, hook, optimizer, np.random.default_rng(self.seed)

    def loss(self, network: nn.Module, batch: Batch, own: Tensor) -> Tensor:
        """The objective, plus beta times the binary cross-entropy of the discriminator."""
        discriminator, _, optimizer, rng = self._parts
        target = self._seen[-1]
        drawn = rng.integers(self.source.n, size=len(batch.group))
        network(*self.source.take(drawn, device=own.device).inputs)
        source = self._seen[-1]
        self._seen.clear()
        optimizer.zero_grad(set_to_none=True)
        logits = discriminator(_reverse_gradient(torch.cat([source, target]))).squeeze(-1)
        is_target = torch.cat([logits.new_zeros(len(source)), logits.new_ones(len(target))])
        return own + self.weight * functional.binary_cross_entropy_with_logits(logits, is_target)

    def after_step(self, network: nn.Module, rate: float) -> None:
        """Lets the discriminator take its own step."""
        self._parts[2].step()

    def end(self, network: nn.Module) -> None:
        """Stops recording."""
        self._parts[1].remove()
        self._parts = None
        self._seen.clear()


class GradientReversal(torch.autograd.Function):
    """Passes values on, and gradients with the opposite sign."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        """The values."""
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """The gradient with the opposite sign."""
        return -gradient


def _reverse_gradient(values: Tensor) -> Tensor:
    reversed_: Tensor = GradientReversal.apply(values)  # type: ignore[no-untyped-call]
    return reversed_


@dataclass(frozen=True)
class CoefficientOfVariation(TaskRule):
    """The adaptive controller of Moses (Zhao et al., 2022, section 3.5) for the task of a search.

    A task's trials are split into a measured and a predicted part. The measured part goes out in batches;
    after each one, the coefficient of variation sigma / mu of the model's outcome over the last ones is computed, and
    measuring ends early if it falls below a threshold. Moses gives no numbers. Here, the outcome is the
    predicted throughput: the scores of a model have a scale of their own, which `score_line` translates into log
    throughput, so that all models are judged alike. scripts/bench/transfer/controller.py chose the defaults.

    Example:
        >>> scores = [np.array([-1.0, -2.0, -3.0]), np.array([-0.50, -0.51, -0.52])]
        >>> batches = [TrialBatch(np.exp(-each), each) for each in scores]
        >>> rule = CoefficientOfVariation(trials=64, window=1)
        >>> rule.should_continue(batches[:1]), rule.should_continue(batches)
        (True, False)
    """

    trials: int = 0
    """All trials of the task; 0 for an equal part of those of the search."""
    share: float = 0.75
    """Largest share of the trials that is measured, in (0, 1]."""
    threshold: float = 0.01
    window: int = 2
    """Batches over which the coefficient is taken; until there are so many, measuring continues."""

    def __post_init__(self) -> None:
        if not 0.0 < self.share <= 1.0 or self.window < 1:
            raise ValueError(
                f"share must be above 0 and at most 1 and window at least 1, got {self.share} and {self.window}."
            )

    def should_continue(self, batches: Sequence[TrialBatch]) -> bool:
        """See `StopRule`."""
        if sum(batch.n for batch in batches) >= self.share * self.trials:
            return False
        if len(batches) < self.window:
            return True
        variation = coefficient_of_variation(batches[-self.window :])
        return variation is None or variation >= self.threshold

    def reason_to_stop(self, task: ScheduledTask, scheduler: TaskScheduler) -> str | None:
        """See `StopRule`."""
        trials = self.trials or scheduler.trials // len(scheduler.tasks)
        if replace(self, trials=trials).should_continue(task.batches):
            return None
        return (
            f"Of every kernel, {self.share:.0%} of its part of the trials were measured, or what the model predicted "
            f"varied by less than {self.threshold:.1%} over the last {self.window} batches.".replace("%", " %")
        )


@dataclass(frozen=True)
class SteadyAccuracy:
    """The adaptive controller of Moses (section 3.5) for an adaptation: it ends once the outcome no longer varies.

    The outcome is the share of pairs that the adapted model ranks correctly in an unseen batch, which has the
    same scale for every model; the coefficient of variation sigma / mu is taken over the last batches.
    scripts/bench/transfer/stopping.py chose the defaults.

    Example:
        >>> verdicts = [BatchVerdict(32 * i, {"adapted": share}, "adapted") for i, share in enumerate((0.6, 0.8, 0.81))]
        >>> rule = SteadyAccuracy(window=2, threshold=0.05)
        >>> rule.reason_to_stop(verdicts[:2]), rule.reason_to_stop(verdicts)
        (None, 'The share of correctly ordered pairs varied by 0.6 % over the last 2 batches (less than 5.0 %).')
    """

    window: int = 4
    """Batches over which the coefficient is taken."""
    threshold: float = 0.12

    def reason_to_stop(self, verdicts: Sequence[BatchVerdict]) -> str | None:
        """See `TransferStop`."""
        tested = [verdict.pairwise for verdict in verdicts if verdict.pairwise][-self.window :]
        if len(tested) < self.window:
            return None
        outcome = np.array([shares.get("adapted", 0.0) for shares in tested])
        variation = float(outcome.std() / outcome.mean()) if outcome.mean() else math.inf
        if variation >= self.threshold:
            return None
        return (
            f"The share of correctly ordered pairs varied by {variation:.1%} over the last {self.window} batches "
            f"(less than {self.threshold:.1%}).".replace("%", " %")
        )


def coefficient_of_variation(batches: Sequence[TrialBatch]) -> float | None:
    """Standard deviation / mean of the throughput predicted by the model for the programs of some batches.

    Returns:
        None if the measurements do not show what the scores mean: fewer than three programs ran, or the scores did
        not rise with the throughput.

    Example:
        >>> speed = np.array([1.0, 2.0, 3.0])
        >>> [round(coefficient_of_variation([TrialBatch(1 / speed, scale * np.log(speed))]), 6) for scale in (1.0, 9.0)]
        [0.408248, 0.408248]
    """
    line = score_line(batches)
    if line is None or not line.slope:
        return None
    scores = line.slope * np.concatenate([batch.scores for batch in batches])
    outcome = np.exp(scores - scores.max())  # The coefficient does not change, and nothing overflows.
    return float(outcome.std() / outcome.mean())
