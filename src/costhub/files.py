"""Provides what files of every stage share: where caches live, folders swapped whole, and format versions."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from costhub.errors import CosthubError

CACHE_VARIABLE = "COSTHUB_CACHE"


def cache_root() -> Path:
    """The folder of pulled models and of features: $COSTHUB_CACHE, or ~/.cache/costhub."""
    return Path(os.environ.get(CACHE_VARIABLE) or "~/.cache/costhub").expanduser()


def swap_in(folder: Path, made: Path, old: Path) -> None:
    """Renames `made` to `folder`; where that is interrupted the old folder is back, or its place is said.

    Args:
        folder: The folder to replace.
        made: What comes in its place, on the same disk.
        old: A free name on that disk, where nothing is cleaned up, for the folder meanwhile.

    Raises:
        CosthubError: The old folder could not be put back.

    Example:
        >>> import tempfile
        >>> place = Path(tempfile.mkdtemp())
        >>> for name in ("kept", "made"):
        ...     (place / name / f"of-{name}").mkdir(parents=True)
        >>> swap_in(place / "kept", place / "made", place / "old")
        >>> [str(path.relative_to(place)) for path in sorted(place.rglob("*"))]
        ['kept', 'kept/of-made']
    """
    try:
        folder.rename(old)
        made.rename(folder)
    except BaseException as error:
        if made.exists() and old.exists():
            try:
                old.rename(folder)
            except OSError as again:
                raise CosthubError(
                    f"{folder} could not be put back ({type(error).__name__}). All it held is in {old}: move "
                    f"that folder back to {folder} by hand."
                ) from again
        raise
    finally:
        if not made.exists():
            if old.is_symlink():
                old.unlink()
            shutil.rmtree(old, ignore_errors=True)


def refuse_newer(content: Mapping[str, Any], *, newest: int, what: str | Path, error: type[CosthubError]) -> None:
    """Looks at the `version` of a JSON object before anything else is made of it.

    Args:
        content: The object. One without a version is of version 1: the first releases wrote none everywhere.
        newest: The version that is read here; all before it are read too.
        what: The file, for the message.
        error: What is raised.

    Raises:
        CosthubError: `error`, where the version is newer or no number.

    Example:
        >>> from costhub.errors import DataError
        >>> refuse_newer({"version": 2}, newest=1, what="a.json", error=DataError)
        Traceback (most recent call last):
        costhub.errors.DataError: a.json has version 2, this costhub reads up to 1. Update costhub.
    """
    version = content.get("version", 1)
    if type(version) is not int or not 1 <= version <= newest:
        raise error(f"{what} has version {version!r:.40}, this costhub reads up to {newest}. Update costhub.")
