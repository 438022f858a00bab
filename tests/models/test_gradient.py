from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from costhub.dataset.programs import Programs
from costhub.models.batches import Batch
from costhub.models.gradient import Schedule, loss, train_network
from costhub.models.network import SegmentSumNetwork
from costhub.models.scaler import Scaler

SCHEDULE = Schedule(
    epochs=10, learning_rate=1e-2, weight_decay=1e-2, batch=64, chunk=16, listwise=0.2, patience=3
)


def network() -> SegmentSumNetwork:
    return SegmentSumNetwork(6, 16, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def batch(train: Programs) -> Batch:
    return Batch.of(train, Scaler.fit(train.rows, bins=0))


def test_training_lowers_the_loss(batch: Batch) -> None:
    net = network()
    before = loss(net, batch, listwise=0.0).item()

    train_network(net, batch, None, schedule=SCHEDULE, seed=0)

    assert loss(net, batch, listwise=0.0).item() < 0.5 * before


def test_equal_seeds_give_equal_weights_and_leave_the_global_state_alone(batch: Batch) -> None:
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1]
    nets = [network(), network(), network()]

    for net, seed in zip(nets, (1, 1, 2), strict=True):
        train_network(net, batch, None, schedule=SCHEDULE, seed=seed)

    one, same, other = (net.score.weight for net in nets)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert np.array_equal(np.random.get_state()[1], numpy_state)


def test_training_stops_when_the_validation_loss_does_not_fall_and_keeps_the_best(batch: Batch) -> None:
    # What is fast in training is slow here: every step makes the validation loss worse.
    opposite = Batch(batch.rows, batch.counts, batch.throughput.min() / batch.throughput, batch.group)
    net, seen = network(), []

    train_network(net, batch, opposite, schedule=SCHEDULE, seed=0, on_epoch=seen.append)

    assert len(seen) == 1 + SCHEDULE.patience
    assert seen == sorted(seen)
    groups = [opposite.take(np.flatnonzero(opposite.group == group)) for group in range(6)]
    kept = np.mean([loss(net, group, listwise=0.2).item() for group in groups])
    assert kept == pytest.approx(seen[0], rel=1e-4)


def test_without_validation_all_epochs_run(batch: Batch) -> None:
    seen: list[float] = []

    train_network(network(), batch, None, schedule=SCHEDULE, seed=0, on_epoch=seen.append)

    assert len(seen) == SCHEDULE.epochs
    assert all(map(math.isnan, seen))
