from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from costhub.dataset.programs import Programs
from costhub.models.networks.network import SegmentSumNetwork
from costhub.models.networks.scaler import Scaler
from costhub.models.training.batches import Examples
from costhub.models.training.gradient import Schedule, loss, train_network
from costhub.models.training.objective import OBJECTIVES

SCHEDULE = Schedule(
    epochs=10, learning_rate=1e-2, weight_decay=1e-2, batch=64, chunk=16, objective="gap", listwise=0.2,
    patience=3,
)  # fmt: skip


def network() -> SegmentSumNetwork:
    return SegmentSumNetwork(6, 16, generator=torch.Generator().manual_seed(0))


def examples(programs: Programs) -> Examples:
    return Examples(programs, [Scaler.fit(programs.rows, bins=0)])


def loss_of_group(net: SegmentSumNetwork, found: Examples, group: int) -> float:
    return loss(net, found.take(np.flatnonzero(found.group == group)), SCHEDULE).item()


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_training_lowers_the_loss(objective: str, train: Programs) -> None:
    net, learned, schedule = network(), examples(train), replace(SCHEDULE, objective=objective, listwise=0.0)
    batch = learned.take(np.arange(train.n))
    before = loss(net, batch, schedule).item()

    train_network(net, learned, None, schedule=schedule, seed=0)

    assert loss(net, batch, schedule).item() < 0.5 * before


def test_equal_seeds_give_equal_weights_and_leave_the_global_state_alone(train: Programs) -> None:
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1]
    nets = [network(), network(), network()]

    for net, seed in zip(nets, (1, 1, 2), strict=True):
        train_network(net, examples(train), None, schedule=SCHEDULE, seed=seed)

    one, same, other = (net.score.weight for net in nets)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert np.array_equal(np.random.get_state()[1], numpy_state)


def test_training_stops_when_the_validation_loss_does_not_fall_and_keeps_the_best(train: Programs) -> None:
    # What is fast in training is slow here: every step makes the validation loss worse.
    opposite = examples(replace(train, latency_s=1e-6 / train.latency_s))
    net, seen = network(), dict[int, float]()

    train_network(net, examples(train), opposite, schedule=SCHEDULE, seed=0, on_epoch=seen.__setitem__)

    assert list(seen) == list(range(1, 2 + SCHEDULE.patience))
    assert list(seen.values()) == sorted(seen.values())
    kept = np.mean([loss_of_group(net, opposite, group) for group in range(6)])
    assert kept == pytest.approx(seen[1], rel=1e-4)


def test_a_large_group_is_validated_in_pieces(train: Programs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("costhub.models.training.gradient._VALID_PIECE", 7)
    seen: list[float] = []

    train_network(
        network(), examples(train), examples(train), schedule=SCHEDULE, seed=0,
        on_epoch=lambda _, valid_loss: seen.append(valid_loss),
    )  # fmt: skip

    assert seen[-1] < seen[0]


def test_without_validation_all_epochs_run(train: Programs) -> None:
    seen: list[float] = []

    train_network(
        network(), examples(train), None, schedule=SCHEDULE, seed=0,
        on_epoch=lambda _, valid_loss: seen.append(valid_loss),
    )  # fmt: skip

    assert len(seen) == SCHEDULE.epochs
    assert all(map(math.isnan, seen))
