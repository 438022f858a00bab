"""Provides swap_in: a folder in the place of another, whatever comes between."""

from __future__ import annotations

import shutil
from pathlib import Path

from costhub.errors import CosthubError


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
