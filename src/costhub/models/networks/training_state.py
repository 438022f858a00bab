"""Provides TrainingState, all that the training of a network changes, and Checkpoint, which keeps it on disk."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from costhub.errors import ModelError
from costhub.models.networks.weights import with_prefix
from costhub.models.training_progress import other_training_error, write_progress

_NETWORK, _KEPT, _OPTIMIZER = "network.", "kept.", "optimizer."


@dataclass
class TrainingState:
    """A network in training, between two epochs.

    `restore` puts what `tensors` and `numbers` return into an equal new state; training then ends with exactly
    the weights that it would have reached without a break.
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
    """The weights with that loss; None if there is none yet."""

    def end_epoch(self, valid_loss: float) -> None:
        """Counts an epoch, and keeps the weights if no earlier ones had such a low validation loss."""
        self.epochs += 1
        if valid_loss < self.best:
            self.best, self.best_epochs = valid_loss, self.epochs
            self.kept = copy.deepcopy(self.network.state_dict())

    def tensors(self) -> dict[str, Tensor]:
        """Name -> tensor: the weights, the kept ones and the moments of the optimizer."""
        tensors = {_NETWORK + name: tensor for name, tensor in self.network.state_dict().items()}
        tensors.update({_KEPT + name: tensor for name, tensor in (self.kept or {}).items()})
        for number, moments in self.optimizer.state_dict()["state"].items():
            tensors.update({f"{_OPTIMIZER}{number}.{name}": tensor for name, tensor in moments.items()})
        return tensors

    def numbers(self) -> dict[str, Any]:
        """Everything else, as JSON values."""
        return {
            "epochs": self.epochs,
            "best": self.best,
            "best_epochs": self.best_epochs,
            "rng": self.rng.bit_generator.state,
        }

    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """Restores what `tensors` and `numbers` returned."""
        self.network.load_state_dict(with_prefix(_NETWORK, tensors))
        self.kept = with_prefix(_KEPT, tensors) or None
        moments: dict[int, dict[str, Tensor]] = {}
        for name, tensor in with_prefix(_OPTIMIZER, tensors).items():
            number, _, of = name.partition(".")
            moments.setdefault(int(number), {})[of] = tensor
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})
        self.epochs, self.best, self.best_epochs = (numbers[key] for key in ("epochs", "best", "best_epochs"))
        self.rng.bit_generator.state = numbers["rng"]


@dataclass(frozen=True)
class Checkpoint:
    """One file with the state of one training run."""

    path: Path
    training: str
    """Which training run it is, see `training_id`; the state of another one is refused."""

    def save(self, state: TrainingState) -> None:
        """Writes the state; at any moment, the file is either the old or the new one."""
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.tensors().items()}
        metadata = {"training": self.training, "numbers": json.dumps(state.numbers())}
        write_progress(self.path, lambda path: save_file(tensors, path, metadata=metadata))

    def restore(self, state: TrainingState) -> None:
        """Restores what was saved; does nothing if there is no file yet.

        Raises:
            ModelError: The file is damaged, or holds the state of another training run.
        """
        if not self.path.is_file():
            return
        try:
            with safe_open(self.path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if metadata.get("training") == self.training:
                state.restore(tensors, json.loads(metadata["numbers"]))
                return
        except (SafetensorError, OSError, LookupError, TypeError, ValueError, RuntimeError) as error:
            raise ModelError(
                f"{self.path}, the progress of a training run, cannot be read ({error}); remove it to start over."
            ) from error
        raise other_training_error(self.path)
