"""Provides TrainingState: all that the training of a network changes, to be put away and taken up again."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from costhub.models.weights import under

_NETWORK, _KEPT, _OPTIMIZER = "network.", "kept.", "optimizer."


@dataclass
class TrainingState:
    """A network on its way, between two epochs.

    What `tensors` and `numbers` give, `restore` puts into a state made alike; training then goes on to the
    very weights that it would have reached without a break.
    """

    network: nn.Module
    optimizer: torch.optim.Optimizer
    rng: np.random.Generator
    """Orders the programs."""
    epochs: int = 0
    """Epochs done."""
    best: float = math.inf
    """The lowest validation loss so far."""
    best_epochs: int = 0
    """Epochs after which it was found."""
    kept: dict[str, Tensor] | None = None
    """The weights with that loss; None where there is none yet."""

    def end_epoch(self, valid_loss: float) -> None:
        """Counts an epoch, and keeps the weights if no earlier ones had so low a validation loss."""
        self.epochs += 1
        if valid_loss < self.best:
            self.best, self.best_epochs = valid_loss, self.epochs
            self.kept = copy.deepcopy(self.network.state_dict())

    def tensors(self) -> dict[str, Tensor]:
        """Name -> tensor: the weights, the kept ones and the moments of the optimizer."""
        found = {_NETWORK + name: tensor for name, tensor in self.network.state_dict().items()}
        found.update({_KEPT + name: tensor for name, tensor in (self.kept or {}).items()})
        for number, moments in self.optimizer.state_dict()["state"].items():
            found.update({f"{_OPTIMIZER}{number}.{name}": tensor for name, tensor in moments.items()})
        return found

    def numbers(self) -> dict[str, Any]:
        """The rest, as JSON values."""
        return {
            "epochs": self.epochs,
            "best": self.best,
            "best_epochs": self.best_epochs,
            "rng": self.rng.bit_generator.state,
        }

    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """Takes up what was put away."""
        self.network.load_state_dict(under(_NETWORK, tensors))
        self.kept = under(_KEPT, tensors) or None
        moments: dict[int, dict[str, Tensor]] = {}
        for name, tensor in under(_OPTIMIZER, tensors).items():
            number, _, of = name.partition(".")
            moments.setdefault(int(number), {})[of] = tensor
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})
        self.epochs, self.best, self.best_epochs = (numbers[key] for key in ("epochs", "best", "best_epochs"))
        self.rng.bit_generator.state = numbers["rng"]
