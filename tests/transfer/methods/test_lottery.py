from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from costhub.dataset.programs import Programs
from costhub.models.architectures import new_model
from costhub.models.networks.batches import Batch, Examples
from costhub.models.networks.gradient import StepRule
from costhub.models.networks.mlp import Mlp
from costhub.models.protocol import CostModel
from costhub.transfer.methods.lottery import Lottery, Masked, kept_share, transferable
from costhub.transfer.methods.method import FineTune

Models = dict[str, CostModel]


def weights(model: CostModel) -> dict[str, Tensor]:
    assert isinstance(model, Mlp)
    return dict(model.networks[0].named_parameters())


class OneTensor(nn.Module):
    """Four weights, of which each has another product with its gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor([0.0, 10.0, -1.0, 0.01]))


def masked(network: OneTensor, gradient: list[float], rule: Masked) -> list[bool]:
    """Begins an epoch in which the loss has this gradient; which weights a step of 1 then moves."""

    def fill() -> None:
        network.w.grad = torch.tensor(gradient)

    rule.begin_epoch(network, fill)
    rule.before_step(network)
    before = network.w.detach().clone()
    with torch.no_grad():
        network.w += 1.0
    rule.after_step(network, rate=0.1)
    moved = network.w.detach() - before
    network.w.data.copy_(before)
    return [bool(step == 1.0) for step in moved]


def test_a_parameter_is_transferable_where_weight_times_gradient_is_large() -> None:
    """The first weight has the largest gradient, the second the largest size; neither has the largest product."""
    network, rule = OneTensor(), Masked(Lottery(ratio=0.25).mask, decay=0.5)
    rule.begin(network)

    assert masked(network, [10.0, 0.0, 1.0, 0.01], rule) == [False, False, True, False]


def test_the_mask_is_drawn_anew_every_epoch() -> None:
    network, rule = OneTensor(), Masked(Lottery(ratio=0.25).mask, decay=0.5)
    rule.begin(network)
    masked(network, [10.0, 0.0, 1.0, 0.01], rule)

    assert masked(network, [10.0, 5.0, 1.0, 0.01], rule) == [False, True, False, False]
    assert rule.kept == [[{"w": 0.0}]]


def test_all_other_parameters_shrink_by_rate_times_decay() -> None:
    network, rule = OneTensor(), Masked(Lottery(ratio=0.25).mask, decay=0.5)
    rule.begin(network)
    network.w.grad = torch.tensor([10.0, 0.0, 1.0, 0.01])
    rule.begin_epoch(network, lambda: None)
    rule.before_step(network)
    with torch.no_grad():
        network.w.fill_(7.0)

    rule.after_step(network, rate=0.1)

    torch.testing.assert_close(network.w.detach(), torch.tensor([0.0, 9.5, 7.0, 0.0095]))


@pytest.mark.parametrize("ratio", [0.01, 0.3, 0.5, 0.7])
def test_the_share_of_every_layer_is_the_ratio(ratio: float, sources: Models, measured_here: Programs) -> None:
    method = Lottery(ratio=ratio, epochs=3)

    method.adapt(sources["mlp"], measured_here, seed=0)

    [epochs] = method.shares
    sizes = {name: w.numel() for name, w in weights(sources["mlp"]).items()}
    assert len(epochs) == 3
    for shares in epochs:
        # The bias of the last layer moves all scores alike, so nothing flows into it and it is left free.
        expected = {name: math.ceil(ratio * n) / n for name, n in sizes.items() if name != "score.bias"}
        assert {name: shares[name] for name in expected} == pytest.approx(expected)


def test_the_share_kept_is_told_from_the_second_epoch_on(sources: Models, measured_here: Programs) -> None:
    for ratio, rate in ((1.0, 1e-2), (0.3, 1e-2), (0.3, 0.0)):
        method = Lottery(ratio=ratio, epochs=4, learning_rate=rate)

        method.adapt(sources["mlp"], measured_here, seed=0)

        [epochs] = method.kept
        assert [shares.keys() for shares in epochs] == [method.shares[0][0].keys()] * 3
        kept = np.array([share for shares in epochs for share in shares.values()])
        assert ((kept >= 0) & (kept <= 1)).all()
        # Where all are free, or none has moved, all stay; otherwise some of them give way to others.
        assert (kept == 1).all() == (ratio == 1.0 or rate == 0.0)


def test_of_what_was_transferable_the_part_that_still_is_was_kept() -> None:
    before = torch.tensor([[True, True], [True, False]])

    assert kept_share(before, torch.tensor([[True, False], [False, True]])) == pytest.approx(1 / 3)
    assert kept_share(before, torch.ones(2, 2, dtype=torch.bool)) == 1.0
    assert kept_share(before, ~before) == 0.0


def test_every_member_of_a_network_has_a_tale_of_its_own(source_programs: Programs, measured_here: Programs) -> None:
    two = new_model("mlp", feature_spec="demo@1", options={"hidden": 8, "epochs": 1, "members": 2})
    two.fit(source_programs, None, seed=0, progress=False)
    method = Lottery(epochs=3)

    for _ in range(2):  # and a second time the tale of the first is forgotten
        method.adapt(two, measured_here, seed=0)

    assert [len(epochs) for epochs in method.shares] == [3, 3]
    assert [len(epochs) for epochs in method.kept] == [2, 2]


def test_what_is_not_transferable_only_decays(sources: Models, measured_here: Programs) -> None:
    method = Lottery(ratio=0.1, epochs=1, learning_rate=1e-2, decay=0.5)

    adapted = weights(method.adapt(sources["mlp"], measured_here, seed=0))

    for name, before in weights(sources["mlp"]).items():
        if name == "score.bias":
            continue
        ratio = (adapted[name] / before).detach().flatten()
        # One step, at the half of the highest rate where the schedule's single step stands.
        decayed = ratio[(ratio - ratio.median()).abs() < 1e-5]
        assert len(decayed) >= 0.85 * len(ratio)
        assert 1 - 1e-2 * 0.5 <= float(decayed[0]) < 1.0


def test_with_all_transferable_it_is_fine_tuning(sources: Models, measured_here: Programs) -> None:
    every = Lottery(ratio=1.0, epochs=4).adapt(sources["mlp"], measured_here, seed=2)
    plain = FineTune(epochs=4).adapt(sources["mlp"], measured_here, seed=2)

    for name, weight in weights(every).items():
        torch.testing.assert_close(weight, weights(plain)[name], rtol=0, atol=0)


def test_where_nothing_flows_everything_is_free() -> None:
    assert transferable(torch.zeros(3), ratio=0.1).all()


def test_the_weights_that_learn_are_those_that_autograd_names(
    source_programs: Programs, measured_here: Programs
) -> None:
    """A whole adaptation of one epoch, which has one step here; xi is taken by hand."""
    options = {"hidden": 8, "bins": 0, "epochs": 3, "objective": "regression"}
    source = new_model("mlp", feature_spec="demo@1", options=options)
    source.fit(source_programs, None, seed=0, progress=False)
    assert isinstance(source, Mlp)
    latency_s, workload = measured_here.latency_s, measured_here.workload
    wanted = [latency_s[workload == own].min() / s for own, s in zip(workload, latency_s, strict=True)]
    inputs = Examples(measured_here, source.scalers).take(np.arange(measured_here.n)).inputs
    loss = (source.networks[0](*inputs) - torch.tensor(wanted).float()).square().mean()
    before = weights(source)
    gradient = dict(zip(before, torch.autograd.grad(loss, list(before.values())), strict=True))
    rate = 1e-2 * 0.5 * (1 + math.cos(math.pi * (0.5 - 0.1) / 0.9))  # in the middle of the schedule

    adapted = Lottery(ratio=0.25, epochs=1, learning_rate=1e-2, decay=0.5).adapt(source, measured_here, seed=0)

    for name, now in weights(adapted).items():
        old, xi = before[name].detach().flatten(), (before[name] * gradient[name]).detach().abs().flatten()
        learned = ~torch.isclose(now.detach().flatten(), old * (1 - rate * 0.5), rtol=1e-6, atol=1e-9)
        assert int(learned.sum()) == math.ceil(0.25 * len(xi)), name
        assert xi[learned].min() >= xi[~learned].max() * (1 - 1e-4) if len(xi) > 1 else learned.all(), name


class Told(StepRule):
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def begin(self, network: nn.Module) -> None:
        self.told.append("begin")

    def loss(self, network: nn.Module, batch: Batch, own: Tensor) -> Tensor:
        self.told.append("loss")
        return 3.0 * own

    def after_step(self, network: nn.Module, rate: float) -> None:
        self.told.append(f"step at {rate}")

    def end(self, network: nn.Module) -> None:
        self.told.append("end")


def test_a_rule_beside_the_masks_hears_of_everything() -> None:
    network, beside = OneTensor(), Told()
    rule = Masked(Lottery(ratio=0.25).mask, 0.5, beside)
    batch = Batch((), torch.zeros(1), torch.zeros(1, dtype=torch.int64))

    rule.begin(network)
    assert float(rule.loss(network, batch, torch.tensor(2.0))) == 6.0
    assert masked(network, [10.0, 0.0, 1.0, 0.01], rule) == [False, False, True, False]
    rule.end(network)

    assert beside.told == ["begin", "loss", "step at 0.1", "end"]
