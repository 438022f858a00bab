"""Trains a network on measured programs by gradient steps: the loop shared by fitting and updating."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from costhub.dataset.programs import IntArray
from costhub.models.networks.batches import Batch, BatchSource, Examples, chunks
from costhub.models.networks.losses import objective_loss
from costhub.models.networks.network_options import NetworkOptions
from costhub.models.networks.processes import all_mean, data_parallel
from costhub.models.networks.training_state import Checkpoint, TrainingState

WARM_UP = 0.1
"""Share of the steps over which the learning rate rises; it falls as a cosine over the rest."""
_VALID_PIECE = 1024  # Programs of one group compared with each other in validation: half a million pairs.


class StepRule:
    """What a transfer method may do around the steps of a training run; this one does nothing.

    A subclass overrides what it needs. `train_network` calls `begin` once, `begin_epoch` before every pass, and
    `loss`, `before_step` and `after_step` in every step. A rule serves one network at a time.
    """

    def begin(self, network: nn.Module) -> None:
        """Called when the training of a network begins, on the device on which it will be trained."""

    def begin_epoch(self, network: nn.Module, gradient: Callable[[], None]) -> None:
        """Called when a pass begins.

        Args:
            network: The network with its current weights.
            gradient: Puts the gradient of the loss over all programs into the weights' `grad`.
        """

    def loss(self, network: nn.Module, batch: Batch, own: Tensor) -> Tensor:
        """The loss to take the gradient of, a scalar; `own` is the loss of the objective."""
        return own

    def before_step(self, network: nn.Module) -> None:
        """Called when the gradients have been computed, but the weights have not changed."""

    def after_step(self, network: nn.Module, rate: float) -> None:
        """Called when the weights have changed by a step with this learning rate."""

    def end(self, network: nn.Module) -> None:
        """Called when the training has ended; the last chance to change the weights."""


def train_network(
    network: nn.Module,
    train: BatchSource,
    valid: Examples | None,
    *,
    options: NetworkOptions,
    seed: int,
    on_epoch: Callable[[int, float], object] | None = None,
    checkpoint: Checkpoint | None = None,
    rule: StepRule | None = None,
) -> None:
    """Changes the weights of `network` in place, on a GPU if torch sees one.

    Processes that are joined (see `processes`) train together, each on its own programs.

    Args:
        network: The network, on the CPU before and after; it is called with `Batch.inputs`.
        train: All programs to learn from.
        valid: Programs of other workloads; the weights of the epoch in which their loss was lowest are kept,
            and training ends when it has not fallen for a while. None runs all epochs.
        options: How long, how fast and with which objective it learns.
        seed: Orders the programs; nothing else is random.
        on_epoch: Called after each epoch with the number of epochs done and the validation loss, NaN without
            `valid`.
        checkpoint: Where the progress is kept after each epoch, and from which training resumes if there is any.
        rule: What else happens around the steps; a checkpoint does not include it.
    """
    rule = rule or StepRule()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    network.to(device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.0, weight_decay=options.weight_decay, fused=True)
    state = TrainingState(network, optimizer, np.random.default_rng(seed))
    if checkpoint is not None:
        checkpoint.restore(state)
    parallel = data_parallel(network)
    rule.begin(network)
    pieces = []
    if valid is not None:
        pieces = chunks(valid.group, size=_VALID_PIECE, rng=np.random.default_rng(0))
    while state.epochs < options.epochs:
        if valid is not None and state.epochs - state.best_epochs >= options.patience:
            break
        rule.begin_epoch(network, lambda: _gradient(network, train, options, device))
        _run_epoch(state, parallel, train, options, device, rule)
        valid_loss = math.nan
        if valid is not None:
            valid_loss = all_mean(_valid_loss(network, valid, pieces, options, device))
        state.end_epoch(valid_loss)
        if checkpoint is not None:
            checkpoint.save(state)
        if on_epoch is not None:
            on_epoch(state.epochs, valid_loss)
    if state.kept is not None:
        network.load_state_dict(state.kept)
    rule.end(network)
    network.cpu()


def batch_loss(network: nn.Module, batch: Batch, options: NetworkOptions) -> Tensor:
    """The loss of a batch, a scalar."""
    return objective_loss(
        options.objective, network(*batch.inputs), batch.throughput, batch.group, listwise=options.listwise
    )


def _run_epoch(
    state: TrainingState,
    network: nn.Module,
    train: BatchSource,
    options: NetworkOptions,
    device: torch.device,
    rule: StepRule,
) -> None:
    """One epoch of gradient steps; `network` is the one in the state, or shares its weights."""
    each = train.steps(options.batch)
    drawn = train.batches(size=options.batch, chunk=options.chunk, rng=state.rng, device=device)
    for step, batch in enumerate(drawn, state.epochs * each):
        rate = options.learning_rate * _rate_share(step, options.epochs * each)
        state.optimizer.param_groups[0]["lr"] = rate
        state.optimizer.zero_grad(set_to_none=True)
        total = rule.loss(network, batch, batch_loss(network, batch, options))
        total.backward()  # type: ignore[no-untyped-call]
        rule.before_step(network)
        state.optimizer.step()
        rule.after_step(network, rate)


def _gradient(network: nn.Module, train: BatchSource, options: NetworkOptions, device: torch.device) -> None:
    """Puts the gradient of the loss over all programs into the weights' `grad`."""
    network.zero_grad(set_to_none=True)
    drawn = train.batches(size=options.batch, chunk=options.chunk, rng=np.random.default_rng(0), device=device)
    for batch in drawn:
        batch_loss(network, batch, options).backward()  # type: ignore[no-untyped-call]


def _rate_share(step: int, steps: int) -> float:
    """Share of the highest learning rate at a step: linear warm-up, then half a cosine."""
    done = (step + 0.5) / steps
    if done < WARM_UP:
        return done / WARM_UP
    return 0.5 * (1.0 + math.cos(math.pi * (done - WARM_UP) / (1.0 - WARM_UP)))


def _valid_loss(
    network: nn.Module, valid: Examples, pieces: list[IntArray], options: NetworkOptions, device: torch.device
) -> float:
    """Mean over pieces: a workload with many programs says no more about others than one with few."""
    with torch.inference_mode():
        losses = [batch_loss(network, valid.take(piece, device=device), options) for piece in pieces]
        return float(torch.stack(losses).mean())
