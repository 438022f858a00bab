from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from costhub.dataset.programs import Programs
from costhub.models.networks.network import SegmentSumNetwork
from costhub.models.networks.scaler import Scaler
from costhub.models.training.batches import Batch, Examples
from costhub.models.training.gradient import Schedule, train_network
from costhub.models.training.step_rule import StepRule

SCHEDULE = Schedule(
    epochs=2, learning_rate=1e-2, weight_decay=1e-2, batch=64, chunk=16, objective="gap", listwise=0.2,
    patience=3,
)  # fmt: skip


@dataclass
class Noted(StepRule):
    """Writes down what it is told."""

    calls: list[str] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    gradient: list[Tensor] = field(default_factory=list)

    def begin(self, network: nn.Module) -> None:
        self.calls.append("begin")

    def begin_epoch(self, network: SegmentSumNetwork, gradient: Callable[[], None]) -> None:  # type: ignore[override]
        gradient()
        assert network.score.weight.grad is not None
        self.gradient.append(network.score.weight.grad.clone())
        self.calls.append("epoch")

    def loss(self, network: nn.Module, batch: Batch, own: Tensor) -> Tensor:
        self.calls.append("loss")
        return 0.0 * own

    def before_step(self, network: nn.Module) -> None:
        self.calls.append("before")

    def after_step(self, network: nn.Module, rate: float) -> None:
        self.calls.append("after")
        self.rates.append(rate)

    def end(self, network: nn.Module) -> None:
        self.calls.append("end")


def network() -> SegmentSumNetwork:
    return SegmentSumNetwork(6, 16, generator=torch.Generator().manual_seed(0))


def trained(programs: Programs, rule: StepRule | None) -> SegmentSumNetwork:
    net = network()
    examples = Examples(programs, [Scaler.fit(programs.rows, bins=0)])
    train_network(net, examples, None, schedule=SCHEDULE, seed=0, rule=rule)
    return net


def test_a_rule_is_told_of_everything_in_order(train: Programs) -> None:
    rule = Noted()
    steps = math.ceil(train.n / SCHEDULE.batch)

    trained(train, rule)

    assert rule.calls == ["begin", *["epoch", *["loss", "before", "after"] * steps] * 2, "end"]
    assert 0 < min(rule.rates) < max(rule.rates) <= SCHEDULE.learning_rate


def test_its_loss_is_the_one_that_is_learned(train: Programs) -> None:
    # Without a loss only the decay of AdamW is left, which moves all weights of a tensor by one factor.
    weight, before = trained(train, Noted()).score.weight, network().score.weight

    ratio = (weight / before).detach()
    assert 0.99 < float(ratio.min()) <= float(ratio.max()) < 1.0
    assert torch.allclose(ratio, ratio[0, 0])


def test_the_gradient_it_can_ask_for_is_that_of_all_programs_and_changes_nothing(train: Programs) -> None:
    asked, plain = Noted(), trained(train, None)

    class Asks(StepRule):
        def begin_epoch(self, network: nn.Module, gradient: Callable[[], None]) -> None:
            gradient()

    trained(train, asked)

    assert asked.gradient[0].abs().max() > 0
    assert torch.equal(trained(train, Asks()).score.weight, plain.score.weight)
