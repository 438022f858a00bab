"""Provides StepRule: what a method of transfer may do around the gradient steps of a training."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from costhub.models.training.batches import Batch


class StepRule:
    """Does nothing; a subclass overrides what it needs.

    `train_network` calls `begin` once, `begin_epoch` before every pass, and `loss`, `before_step` and
    `after_step` in every step. A rule serves one network at a time.
    """

    def begin(self, network: nn.Module) -> None:
        """The training of a network begins, on the device on which it will be trained."""

    def begin_epoch(self, network: nn.Module, gradient: Callable[[], None]) -> None:
        """A pass begins.

        Args:
            network: With its present weights.
            gradient: Puts the gradient of the loss over all programs into the weights' `grad`.
        """

    def loss(self, network: nn.Module, batch: Batch, own: Tensor) -> Tensor:
        """The loss to take the gradient of, a scalar; `own` is that of the objective."""
        return own

    def before_step(self, network: nn.Module) -> None:
        """The gradients are there, the weights as before."""

    def after_step(self, network: nn.Module, rate: float) -> None:
        """The weights have changed by a step of this learning rate."""

    def end(self, network: nn.Module) -> None:
        """The training has ended; the last chance to change the weights."""
