"""Provides Checkpoint: a training on disk after each epoch, to go on from after a break."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from costhub.dataset.programs import Programs
from costhub.errors import ModelError
from costhub.models.training.training_state import TrainingState


@dataclass(frozen=True)
class Checkpoint:
    """One file with the state of one training."""

    path: Path
    training: str
    """Which training it is, see `training_id`; the state of another one is refused."""

    def save(self, state: TrainingState) -> None:
        """Writes the state; the file is the old one or the new one at any moment."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in state.tensors().items()}
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            save_file(
                tensors,
                temporary,
                metadata={"training": self.training, "numbers": json.dumps(state.numbers())},
            )
            with temporary.open("rb") as file:
                os.fsync(file.fileno())
            temporary.replace(self.path)
        finally:
            temporary.unlink(missing_ok=True)

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
        raise ModelError(
            f"{self.path} is the progress of another training: other programs, options or seed. Run that one "
            "again to finish it, or remove the file to start over."
        )


def training_id(train: Programs, valid: Programs | None, settings: Mapping[str, Any]) -> str:
    """32 hex digits that change with the programs, their order, and the settings.

    Args:
        train: What is learned from.
        valid: What tells when to stop.
        settings: All else that the result depends on, as JSON values.
    """
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for programs in (train, valid):
        digest.update(b"programs" if programs is not None else b"none")
        if programs is not None:
            for array in (programs.rows, programs.counts, programs.group, programs.throughput()):
                digest.update(f"{array.shape}{array.dtype}".encode())
                digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:32]
