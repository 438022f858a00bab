"""Provides write_progress and of_another_training: the file that keeps the progress of a training."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from costhub.errors import ModelError


def write_progress(path: Path, write: Callable[[Path], object]) -> None:
    """Writes a file, which is the old one or the new one at any moment.

    Args:
        path: Of the file; its folder is made.
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


def of_another_training(path: Path) -> ModelError:
    """What to say of progress that does not belong to the training that was asked for."""
    return ModelError(
        f"{path} is the progress of another training: other programs, options or seed. Run that one "
        "again to finish it, or remove the file to start over."
    )
