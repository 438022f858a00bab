"""Provides what an interrupted training run of any architecture leaves: an id that identifies it, and one file."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from costhub.dataset.programs import Programs
from costhub.errors import ModelError


def training_id(train: Programs, valid: Programs | None, settings: Mapping[str, Any]) -> str:
    """32 hex digits that change with the programs, their order, and the settings.

    Args:
        train: The programs to learn from.
        valid: The programs that decide when to stop.
        settings: Everything else that the result depends on, as JSON values.
    """
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    for programs in (train, valid):
        digest.update(b"programs" if programs is not None else b"none")
        if programs is not None:
            for array in (programs.rows, programs.counts, programs.group, programs.throughput()):
                digest.update(f"{array.shape}{array.dtype}".encode())
                digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()[:32]


def write_progress(path: Path, write: Callable[[Path], object]) -> None:
    """Writes a file, which is either the old or the new one at any moment.

    Args:
        path: Path of the file; its folder is created.
        write: Writes to the path that it is given, which has the same suffix.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        write(temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def other_training_error(path: Path) -> ModelError:
    """The error for progress that does not belong to the requested training run."""
    return ModelError(
        f"{path} is the progress of another training run, with other programs, options or seed. Run that one "
        "again to finish it, or remove the file to start over."
    )
