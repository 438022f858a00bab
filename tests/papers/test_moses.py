from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from costhub.dataset.programs import Programs
from costhub.errors import ModelError
from costhub.models.networks.batches import Batch, Examples
from costhub.models.networks.mlp import Mlp, SegmentSumNetwork
from costhub.models.networks.scaler import Scaler
from costhub.models.protocol import CostModel
from costhub.papers.moses import (
    CoefficientOfVariation,
    DomainAdversary,
    GradientReversal,
    MosesLottery,
    SteadyAccuracy,
    coefficient_of_variation,
)
from costhub.search.scheduler import TaskScheduler, TrialBatch
from costhub.transfer.methods.corrected import Corrected
from costhub.transfer.stopping import BatchVerdict

Models = dict[str, CostModel]


def weights(model: CostModel) -> dict[str, Tensor]:
    assert isinstance(model, Mlp)
    return dict(model.networks[0].named_parameters())


def set_up(programs: Programs, weight: float) -> tuple[SegmentSumNetwork, DomainAdversary, Batch]:
    network = SegmentSumNetwork(5, 8, generator=torch.Generator().manual_seed(0))
    examples = Examples(programs, [Scaler.fit(programs.rows, bins=0)])
    adversary = DomainAdversary(examples, weight, seed=0)
    adversary.begin(network)
    return network, adversary, examples.take(torch.arange(32).numpy())


def test_a_reversed_gradient_has_the_other_sign() -> None:
    values = torch.tensor([1.0, -2.0], requires_grad=True)

    passed = GradientReversal.apply(values)
    (3.0 * passed).sum().backward()

    assert passed.tolist() == values.tolist()
    assert values.grad is not None
    assert values.grad.tolist() == [-3.0, -3.0]


def test_the_term_is_the_verdict_on_both_domains(source_programs: Programs) -> None:
    network, adversary, batch = set_up(source_programs, weight=2.0)
    network(*batch.inputs)

    found = adversary.loss(network, batch, torch.tensor(1.0))

    # Nobody can tell a domain from itself: about log 2 in a discriminator that has not learned.
    assert 1.0 + 2.0 * 0.4 < found.item() < 1.0 + 2.0 * 1.0


def test_the_term_is_the_cross_entropy_of_telling_source_from_target(source_programs: Programs) -> None:
    network, adversary, batch = set_up(source_programs, weight=2.0)
    read: list[Tensor] = []
    network.score.register_forward_pre_hook(lambda _, inputs: read.append(inputs[0].detach()))  # type: ignore[operator, union-attr]
    network(*batch.inputs)
    discriminator = adversary._parts[0]

    found = adversary.loss(network, batch, torch.tensor(1.0))

    of_target, of_source = read
    assert not torch.equal(of_target, of_source)
    chance = [torch.sigmoid(discriminator(own)).detach() for own in (of_target, of_source)]
    entropy = -torch.cat([chance[0].log(), (1 - chance[1]).log()]).mean()
    assert found.item() == pytest.approx(1.0 + 2.0 * entropy.item(), rel=1e-5)


def test_the_adversary_changes_no_mask(sources: Models, measured_here: Programs, source_programs: Programs) -> None:
    method = MosesLottery(ratio=0.25, domain=0.1, epochs=1)

    method.adapt(sources["mlp"], measured_here, seed=0, source_programs=source_programs)

    [[shares]] = method.shares
    assert shares["encode_1.weight"] == pytest.approx(0.25, abs=0.01)


def test_the_discriminator_learns_what_the_network_learns_to_hide(
    source_programs: Programs, measured_here: Programs
) -> None:
    network, adversary, _ = set_up(source_programs, weight=1.0)
    far = Examples(measured_here, [Scaler.fit(measured_here.rows - 2.0, bins=0)])  # scaled as something far away
    batch = far.take(torch.arange(64).numpy())
    losses = []
    for _ in range(200):
        network.zero_grad()
        network(*batch.inputs)
        found = adversary.loss(network, batch, torch.tensor(0.0))
        found.backward()  # type: ignore[no-untyped-call]
        adversary.after_step(network, 1e-3)
        losses.append(found.item())

    assert losses[-1] < 0.8 * losses[0]
    gradient = network.encode_1.weight.grad  # type: ignore[union-attr]
    assert gradient is not None
    with torch.no_grad():  # a step down the network's gradient makes the discriminator's work harder
        network.encode_1.weight -= 0.05 * gradient / gradient.norm()  # type: ignore[operator, misc]
    network(*batch.inputs)
    assert adversary.loss(network, batch, torch.tensor(0.0)).item() > losses[-1]


def test_it_stops_listening(source_programs: Programs) -> None:
    network, adversary, batch = set_up(source_programs, weight=1.0)

    adversary.end(network)
    network(*batch.inputs)

    assert adversary._seen == []


def test_a_threshold_chooses_fewer_where_one_parameter_dominates() -> None:
    flow = torch.tensor([[10.0, 0.1], [-6.0, 0.0]])

    assert MosesLottery(threshold=0.5).mask(flow).tolist() == [[True, False], [True, False]]
    assert MosesLottery(threshold=0.9).mask(flow).tolist() == [[True, False], [False, False]]


def test_the_adversarial_term_changes_what_is_learned(
    sources: Models, measured_here: Programs, source_programs: Programs
) -> None:
    found = [
        weights(
            MosesLottery(domain=domain, epochs=2).adapt(
                sources["mlp"], measured_here, seed=0, source_programs=source_programs
            )
        )["encode_1.weight"]
        for domain in (0.0, 0.5, 0.5)
    ]

    assert not torch.equal(found[0], found[1])
    assert torch.equal(found[1], found[2])


class TwoTensors(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.small = nn.Parameter(torch.tensor([1.0, 1.0]))
        self.large = nn.Parameter(torch.tensor([1.0, 1.0]))


def freed(method: MosesLottery, *gradients: tuple[list[float], list[float]], epoch: int = 0) -> list[list[bool]]:
    """Which parameters move in each of some steps with these gradients; the epoch begins with those of `epoch`."""
    network, rule, moved = TwoTensors(), method.masked(), []
    rule.begin(network)

    def fill(number: int) -> None:
        for weight, gradient in zip(network.parameters(), gradients[number], strict=True):
            weight.grad = torch.tensor(gradient)

    rule.begin_epoch(network, lambda: fill(epoch))
    for number in range(len(gradients)):
        fill(number)
        rule.before_step(network)
        with torch.no_grad():
            for weight in network.parameters():
                weight.fill_(2.0)
        rule.after_step(network, rate=0.0)
        moved.append([bool(w == 2.0) for weight in network.parameters() for w in weight])
        with torch.no_grad():
            for weight in network.parameters():
                weight.fill_(1.0)
    return moved


def test_xi_is_ranked_in_each_tensor_or_over_all_of_them() -> None:
    flow = ([0.1, 0.2], [5.0, 9.0])

    assert freed(MosesLottery(ratio=0.5), flow) == [[False, True, False, True]]
    assert freed(MosesLottery(ratio=0.5, scope="network"), flow) == [[False, False, True, True]]


def test_a_threshold_over_all_tensors_is_a_share_of_the_largest_of_all() -> None:
    flow = ([0.1, 0.2], [5.0, 9.0])

    assert freed(MosesLottery(threshold=0.5), flow) == [[True, True, True, True]]
    assert freed(MosesLottery(threshold=0.5, scope="network"), flow) == [[False, False, True, True]]


def test_the_mask_of_a_step_is_drawn_by_its_own_gradient() -> None:
    steps = ([1.0, 3.0], [1.0, 3.0]), ([3.0, 1.0], [3.0, 1.0])

    assert freed(MosesLottery(drawn="epoch"), *steps) == [[False, True, False, True]] * 2
    assert freed(MosesLottery(drawn="step"), *steps, epoch=1) == [
        [False, True, False, True],
        [True, False, True, False],
    ]


def test_every_form_of_the_ticket_adapts_a_network(sources: Models, measured_here: Programs) -> None:
    for options in ({"scope": "network"}, {"drawn": "step"}, {"scope": "network", "drawn": "step", "ratio": 0.01}):
        method = MosesLottery(epochs=3, **options)  # type: ignore[arg-type]

        adapted = method.adapt(sources["mlp"], measured_here, seed=0)

        assert np.isfinite(adapted.predict(measured_here.rows, measured_here.counts)).all()
        values = [share for epochs in (*method.shares, *method.kept) for each in epochs for share in each.values()]
        assert values
        assert np.isfinite(values).all()
        assert [len(epochs) for epochs in method.shares] == [3]
        assert [len(epochs) for epochs in method.kept] == [2]


def test_other_words_are_refused() -> None:
    with pytest.raises(ValueError, match="scope must be one of tensor, network"):
        MosesLottery(scope="layer")
    with pytest.raises(ValueError, match="drawn must be one of epoch, step"):
        MosesLottery(drawn="batch")


def test_the_adversarial_term_needs_the_source(sources: Models, measured_here: Programs) -> None:
    with pytest.raises(ModelError, match="compares with programs of the source"):
        MosesLottery(domain=0.1).adapt(sources["mlp"], measured_here, seed=0)
    with pytest.raises(ModelError, match="compares with programs of the source"):
        Corrected(MosesLottery(domain=0.1)).adapt(sources["mlp"], measured_here, seed=0)


def test_a_blend_compares_its_network_alone(
    sources: Models, measured_here: Programs, source_programs: Programs
) -> None:
    method = MosesLottery(domain=0.1, epochs=1)

    method.adapt(sources["blend"], measured_here, seed=0, source_programs=source_programs)

    assert len(method.shares) == 1
    assert np.isfinite(list(method.shares[0][0].values())).all()


def batches(*scores: list[float], scale: float = 1.0) -> list[TrialBatch]:
    """Batches whose throughputs are the exponentials of `scores`, which the model gave on a scale of its own."""
    return [TrialBatch(np.exp(-np.array(own)), scale * np.array(own), waiting=0.0) for own in scores]


@pytest.mark.parametrize("scale", [1.0, 0.1, 30.0])
def test_the_coefficient_is_that_of_predicted_throughput_for_scores_of_any_scale(scale: float) -> None:
    # Throughputs of 1, 3, 1 and 3: mean 2, standard deviation 1.
    told = batches([0.0, float(np.log(3.0))] * 2, scale=scale)

    assert CoefficientOfVariation(trials=64, window=1, threshold=0.49).should_continue(told)
    assert not CoefficientOfVariation(trials=64, window=1, threshold=0.51).should_continue(told)


def test_a_level_of_the_scores_does_not_change_it_and_a_larger_spread_does() -> None:
    told = [[0.1, 0.5, 0.2], [5.1, 5.5, 5.2], [0.1, 0.9, 0.2]]

    same, moved, wider = (coefficient_of_variation(batches(scores)) or 0.0 for scores in told)

    assert same == pytest.approx(moved)
    assert wider > same > 0.0


def test_scores_that_measurements_contradict_tell_nothing() -> None:
    inverted, few = batches([0.1, 0.5, 0.2], scale=-1.0), batches([0.1, 0.5])

    assert coefficient_of_variation(inverted) is coefficient_of_variation(few) is None
    assert CoefficientOfVariation(trials=64, window=1, threshold=9.0).should_continue(inverted)


def test_without_trials_of_its_own_a_task_has_an_equal_part_of_the_searchs() -> None:
    scheduler = TaskScheduler({"conv": 1.0, "relu": 9.0}, trials=16, rule=CoefficientOfVariation(share=0.5))
    scheduler.add("conv", batches([0.0, -5.0, -1.0])[0])
    scheduler.add("relu", batches([0.0, -5.0, -1.0, -2.0])[0])

    assert scheduler.next_task() == "conv"
    scheduler.add("conv", batches([-3.0])[0])
    assert scheduler.next_task() is None
    assert scheduler.stopped is not None
    assert "50 % of its part" in scheduler.stopped


def test_only_the_last_batches_count() -> None:
    told = batches([0.0, -9.0, -4.0], [-1.0, -1.001], [-1.0, -1.001])

    assert not CoefficientOfVariation(trials=64, window=2).should_continue(told)
    assert CoefficientOfVariation(trials=64, window=3).should_continue(told)
    assert CoefficientOfVariation(trials=64, window=4).should_continue(told)


def test_the_predicted_part_is_never_measured() -> None:
    uncertain = batches(*([[0.0, -5.0]] * 8))
    rule = CoefficientOfVariation(trials=20, share=0.5)

    assert [rule.should_continue(uncertain[:count]) for count in (4, 5, 6)] == [True, False, False]


def test_scores_of_any_size_do_not_overflow() -> None:
    assert CoefficientOfVariation(trials=64, window=1).should_continue(batches([500.0, -500.0, 0.0]))


@pytest.mark.parametrize("options", [{"share": 0.0}, {"share": 1.1}, {"window": 0}])
def test_options_out_of_range_are_refused(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="share must be above 0"):
        CoefficientOfVariation(trials=64, **options)  # type: ignore[arg-type]


def verdicts(*shares: float) -> list[BatchVerdict]:
    return [BatchVerdict(32 * number, {"adapted": share}, "adapted") for number, share in enumerate(shares)]


def test_an_adaptation_ends_where_its_accuracy_no_longer_varies() -> None:
    rule = SteadyAccuracy(window=3, threshold=0.02)

    assert rule.reason_to_stop(verdicts(0.8, 0.8)) is None
    assert rule.reason_to_stop(verdicts(0.5, 0.8, 0.81)) is None
    assert "varied by 0.6 % over the last 3 batches" in str(rule.reason_to_stop(verdicts(0.5, 0.80, 0.81, 0.80)))
