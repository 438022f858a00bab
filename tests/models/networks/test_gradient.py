from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from costhub.dataset.programs import Programs
from costhub.models.networks.batches import Batch, Examples
from costhub.models.networks.gradient import StepRule, batch_loss, train_network
from costhub.models.networks.losses import OBJECTIVES, listnet_loss
from costhub.models.networks.mlp import SegmentSumNetwork
from costhub.models.networks.network_options import NetworkOptions
from costhub.models.networks.scaler import Scaler

OPTIONS = NetworkOptions(
    epochs=10,
    learning_rate=1e-2,
    weight_decay=1e-2,
    batch=64,
    chunk=16,
    objective="gap",
    listwise=0.2,
    patience=3,
)


def network() -> SegmentSumNetwork:
    return SegmentSumNetwork(6, 16, generator=torch.Generator().manual_seed(0))


def examples(programs: Programs) -> Examples:
    return Examples(programs, [Scaler.fit(programs.rows, bins=0)])


def loss_of_group(net: SegmentSumNetwork, found: Examples, group: int) -> float:
    return batch_loss(net, found.take(np.flatnonzero(found.group == group)), OPTIONS).item()


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_training_lowers_the_loss(objective: str, train: Programs) -> None:
    net, learned, options = network(), examples(train), replace(OPTIONS, objective=objective, listwise=0.0)
    batch = learned.take(np.arange(train.n))
    before = batch_loss(net, batch, options).item()

    train_network(net, learned, None, options=options, seed=0)

    assert batch_loss(net, batch, options).item() < 0.5 * before


def test_the_listwise_loss_has_the_weight_that_was_asked_for(train: Programs) -> None:
    net, batch = network(), examples(train).take(np.arange(train.n))
    alone, both = (batch_loss(net, batch, replace(OPTIONS, listwise=weight)).item() for weight in (0.0, 0.7))

    added = listnet_loss(net(*batch.inputs), batch.throughput, batch.group).item()
    assert both - alone == pytest.approx(0.7 * added, rel=1e-4)


def test_equal_seeds_give_equal_weights_and_leave_the_global_state_alone(train: Programs) -> None:
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1]
    nets = [network(), network(), network()]

    for net, seed in zip(nets, (1, 1, 2), strict=True):
        train_network(net, examples(train), None, options=OPTIONS, seed=seed)

    one, same, other = (net.score.weight for net in nets)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert np.array_equal(np.random.get_state()[1], numpy_state)


def test_training_stops_when_the_validation_loss_does_not_fall_and_keeps_the_best(train: Programs) -> None:
    # What is fast in training is slow here: every step makes the validation loss worse.
    opposite = examples(replace(train, latency_s=1e-6 / train.latency_s))
    net, seen = network(), dict[int, float]()

    train_network(net, examples(train), opposite, options=OPTIONS, seed=0, on_epoch=seen.__setitem__)

    assert list(seen) == list(range(1, 2 + OPTIONS.patience))
    assert list(seen.values()) == sorted(seen.values())
    kept = np.mean([loss_of_group(net, opposite, group) for group in range(6)])
    assert kept == pytest.approx(seen[1], rel=1e-4)


def test_a_large_group_is_validated_in_pieces(train: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("costhub.models.networks.gradient._VALID_PIECE", 7)
    valid, sizes, epochs = examples(train), list[int](), list[int]()
    take = valid.take
    monkeypatch.setattr(valid, "take", lambda places, **how: sizes.append(len(places)) or take(places, **how))

    train_network(
        network(), examples(train), valid, options=OPTIONS, seed=0, on_epoch=lambda epoch, _: epochs.append(epoch)
    )

    assert max(sizes) <= 7
    assert sum(sizes) == len(epochs) * train.n


def test_without_validation_all_epochs_run(train: Programs) -> None:
    seen: list[float] = []

    train_network(
        network(),
        examples(train),
        None,
        options=OPTIONS,
        seed=0,
        on_epoch=lambda _, valid_loss: seen.append(valid_loss),
    )

    assert len(seen) == OPTIONS.epochs
    assert all(map(math.isnan, seen))


@dataclass
class Recorded(StepRule):
    """Records its calls."""

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


def trained(programs: Programs, rule: StepRule | None) -> SegmentSumNetwork:
    net = network()
    examples = Examples(programs, [Scaler.fit(programs.rows, bins=0)])
    train_network(net, examples, None, options=replace(OPTIONS, epochs=2), seed=0, rule=rule)
    return net


def test_a_rule_is_called_at_every_step_in_order(train: Programs) -> None:
    rule = Recorded()
    steps = math.ceil(train.n / OPTIONS.batch)

    trained(train, rule)

    assert rule.calls == ["begin", *["epoch", *["loss", "before", "after"] * steps] * 2, "end"]
    assert 0 < min(rule.rates) < max(rule.rates) <= OPTIONS.learning_rate


def test_its_loss_is_the_one_that_is_learned(train: Programs) -> None:
    # Without a loss only the decay of AdamW is left, which moves all weights of a tensor by one factor.
    weight, before = trained(train, Recorded()).score.weight, network().score.weight

    ratio = (weight / before).detach()
    assert 0.99 < float(ratio.min()) <= float(ratio.max()) < 1.0
    assert torch.allclose(ratio, ratio[0, 0])


def test_the_gradient_it_can_ask_for_is_that_of_all_programs_and_changes_nothing(train: Programs) -> None:
    asked, plain = Recorded(), trained(train, None)

    class Asks(StepRule):
        def begin_epoch(self, network: nn.Module, gradient: Callable[[], None]) -> None:
            gradient()

    trained(train, asked)

    assert asked.gradient[0].abs().max() > 0
    assert torch.equal(trained(train, Asks()).score.weight, plain.score.weight)


def test_the_gradient_is_that_of_the_mean_over_all_programs_at_the_present_weights(train: Programs) -> None:
    """Batches of one size, so that the mean over all is the mean over the batches; by hand and by autograd."""
    options = replace(OPTIONS, objective="regression", batch=60, epochs=3)
    assert train.n % options.batch == 0
    net, learned = network(), examples(train)
    everything = learned.take(np.arange(train.n)).inputs
    best = {group: train.latency_s[train.group == group].min() for group in set(train.group.tolist())}
    wanted = torch.tensor([best[g] / s for g, s in zip(train.group.tolist(), train.latency_s, strict=True)])

    class Compares(StepRule):
        seen = 0

        def begin_epoch(self, network: nn.Module, gradient: Callable[[], None]) -> None:
            weights = list(network.parameters())
            gradient()
            found = torch.cat([w.grad.flatten() for w in weights if w.grad is not None])
            by_hand = torch.autograd.grad((network(*everything) - wanted.float()).square().mean(), weights)
            expected = torch.cat([each.flatten() for each in by_hand])
            torch.testing.assert_close(found / found.norm(), expected / expected.norm(), rtol=1e-3, atol=1e-5)
            self.seen += 1

    rule = Compares()
    train_network(net, learned, None, options=options, seed=0, rule=rule)

    assert rule.seen == options.epochs
