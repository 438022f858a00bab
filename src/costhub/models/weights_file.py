"""Provides check_weights_file: refuses a file of weights before anything reads it."""

from __future__ import annotations

from pathlib import Path

from costhub.errors import ModelError

MAX_BYTES = 1 << 30
"""A cost model has a few MB; nothing larger is read."""


def check_weights_file(path: Path, what: str) -> None:
    """Refuses a file that is not there or too large.

    Args:
        path: In a model folder.
        what: What it should hold, for example ``the trees``.

    Raises:
        ModelError: It is one of these.
    """
    if not path.is_file():
        raise ModelError(f"{path.parent} lacks {path.name}, {what} of the model. Fetch the folder again.")
    if path.stat().st_size > MAX_BYTES:
        raise ModelError(f"{path} has more than {MAX_BYTES} bytes, so it is no cost model.")
