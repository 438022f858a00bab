"""Provides feature_folders: where the features of a data folder lie, also of one that is read-only."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from costhub.cache import cache_root

_PACKAGE = Path(__file__).resolve().parents[2]


def feature_folders(root: Path) -> tuple[Path | None, tuple[Path, ...]]:
    """The folders for the features of the data folder `root`.

    They go to `root/features`. Where nothing can be written there, or the data are part of the installed
    package, they go to a folder in the user's cache that is named after the path of the data; what lies in
    `root/features` is read all the same.

    Returns:
        The folder to write to, which is made, or None where there is none; and the folders to read from.
    """
    beside, in_cache = root / "features", _in_user_cache(root)
    is_installed = _PACKAGE in root.resolve().parents
    places = [in_cache] if is_installed else [beside, in_cache]
    chosen = next((place for place in places if _can_write(place)), None)
    return chosen, tuple(dict.fromkeys([*([chosen] if chosen else []), beside]))


def _in_user_cache(root: Path) -> Path:
    return cache_root() / "features" / hashlib.sha256(str(root.resolve()).encode()).hexdigest()[:16]


def _can_write(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        return os.access(folder, os.W_OK | os.X_OK)
    return False
