"""Trains a network on measured programs by gradient steps: the loop shared by fitting and updating."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from costhub.models.batches import Batch, epoch
from costhub.models.network import SegmentSumNetwork
from costhub.models.rank_loss import best_likelihood, pairwise_logistic

WARM_UP = 0.1
"""Share of the steps over which the learning rate rises; it falls as a cosine over the rest."""


@dataclass(frozen=True)
class Schedule:
    """How long and how fast a network learns."""

    epochs: int
    learning_rate: float
    """The highest one of the schedule."""
    weight_decay: float
    """Decoupled from the gradient (AdamW)."""
    batch: int
    """Programs per step."""
    chunk: int
    """Programs of one workload that stay together in a batch."""
    listwise: float
    """Weight of the ListNet loss beside the pairwise one."""
    patience: int
    """Epochs without a better validation loss after which training ends."""


def train_network(
    network: SegmentSumNetwork,
    train: Batch,
    valid: Batch | None,
    *,
    schedule: Schedule,
    seed: int,
    on_epoch: Callable[[float], object] | None = None,
) -> None:
    """Changes the weights of `network` in place; with `valid`, ends with the weights of the best epoch.

    Args:
        network: The network.
        train: All programs to learn from.
        valid: Programs of other workloads whose loss tells when to stop; None runs all epochs.
        schedule: How long and how fast.
        seed: Orders the programs; nothing else is left to chance.
        on_epoch: Called after each epoch with the validation loss, NaN without `valid`.
    """
    rng = np.random.default_rng(seed)
    workload = train.group.numpy()
    steps = schedule.epochs * math.ceil(len(workload) / schedule.batch)
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.0, weight_decay=schedule.weight_decay)
    best, best_epoch, kept, step = math.inf, 0, None, 0
    for number in range(schedule.epochs):
        for positions in epoch(workload, size=schedule.batch, chunk=schedule.chunk, rng=rng):
            optimizer.param_groups[0]["lr"] = schedule.learning_rate * _shape(step, steps)
            optimizer.zero_grad(set_to_none=True)
            found = loss(network, train.take(positions), listwise=schedule.listwise)
            found.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            step += 1
        valid_loss = _valid_loss(network, valid, schedule) if valid is not None else math.nan
        if on_epoch is not None:
            on_epoch(valid_loss)
        if valid_loss < best:
            best, best_epoch, kept = valid_loss, number, copy.deepcopy(network.state_dict())
        elif valid is not None and number - best_epoch >= schedule.patience:
            break
    if kept is not None:
        network.load_state_dict(kept)


def loss(network: SegmentSumNetwork, batch: Batch, *, listwise: float) -> Tensor:
    """The training loss of a batch: gap-weighted pairs, and the ListNet loss times `listwise`."""
    scores = network(batch.rows, batch.counts)
    total = pairwise_logistic(scores, batch.throughput, batch.group, weighting="gap")
    if listwise:
        total = total + listwise * best_likelihood(scores, batch.throughput, batch.group)
    return total


def _shape(step: int, steps: int) -> float:
    """Share of the highest learning rate at a step: linear warm-up, then half a cosine."""
    done = (step + 0.5) / steps
    if done < WARM_UP:
        return done / WARM_UP
    return 0.5 * (1.0 + math.cos(math.pi * (done - WARM_UP) / (1.0 - WARM_UP)))


def _valid_loss(network: SegmentSumNetwork, valid: Batch, schedule: Schedule) -> float:
    with torch.inference_mode():
        # One batch per workload keeps the comparison matrix small whatever the number of workloads.
        losses = [
            float(
                loss(
                    network,
                    valid.take(np.flatnonzero(valid.group.numpy() == group)),
                    listwise=schedule.listwise,
                )
            )
            for group in np.unique(valid.group.numpy())
        ]
    return float(np.mean(losses))
