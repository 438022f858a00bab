"""Provides Checkpoint: a training on disk after each epoch, to go on from after a break."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from costhub.errors import ModelError
from costhub.models.training.progress_file import of_another_training, write_progress
from costhub.models.training.training_state import TrainingState


@dataclass(frozen=True)
class Checkpoint:
    """One file with the state of one training."""

    path: Path
    training: str
    """Which training it is, see `training_id.training_id`; the state of another one is refused."""

    def save(self, state: TrainingState) -> None:
        """Writes the state; the file is the old one or the new one at any moment."""
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.tensors().items()}
        said = {"training": self.training, "numbers": json.dumps(state.numbers())}
        write_progress(self.path, lambda path: save_file(tensors, path, metadata=said))

    def restore(self, state: TrainingState) -> None:
        """Takes up what was saved; does nothing where there is no file yet.

        Raises:
            ModelError: The file is damaged, or holds the state of another training.
        """
        if not self.path.is_file():
            return
        try:
            with safe_open(self.path, framework="pt") as file:
                said = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if said.get("training") == self.training:
                state.restore(tensors, json.loads(said["numbers"]))
                return
        except (SafetensorError, OSError, KeyError, ValueError, RuntimeError) as error:
            raise ModelError(
                f"{self.path}, the progress of a training, cannot be read ({error}); remove it to start over."
            ) from error
        raise of_another_training(self.path)
