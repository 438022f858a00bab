"""Provides ScratchFolder: a temporary folder that does not outlive its process, even if that is killed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path
from types import TracebackType

PREFIX = "costhub-build-"
NEW = "costhub-new-"
HIDDEN = "."
"""Before the names of folders that are not in the system's temporary folder."""
LOCK = "owner.lock"
# A folder without a lock is being created, or belongs to a process that was killed while creating it.
UNLOCKED_KEPT_S = 3600.0


class ScratchFolder:
    """A temporary folder; making one first removes those of dead processes in the same place.

    The owner holds a lock on a file in it, which the operating system releases when the process ends, however
    it ends. A process ID would not suffice: IDs are reused, and differ between containers.

    Args:
        place: The folder to make it in, under a hidden name: that of a result, which gets its name by renaming. By
            default, the system's temporary folder.

    Example:
        >>> with ScratchFolder() as folder:
        ...     folder.path.is_dir()
        True
    """

    def __init__(self, place: Path | None = None) -> None:
        sweep(place)
        hidden = HIDDEN if place is not None else ""
        # Locked before it gets its final name, so that it is never seen unlocked under that name.
        folder = Path(tempfile.mkdtemp(prefix=f"{hidden}{NEW}", dir=place))
        self._lock = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path = folder.with_name(f"{hidden}{PREFIX}{folder.name.removeprefix(f'{hidden}{NEW}')}")
        """The folder that files may be written to."""
        folder.rename(self.path)

    def __enter__(self) -> ScratchFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Removes the folder and its contents; calling it again does nothing."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def sweep(place: Path | None = None) -> int:
    """Removes the scratch folders whose process has ended, and returns their number.

    Args:
        place: As for `ScratchFolder`.
    """
    final, first = (PREFIX, NEW) if place is None else (f"{HIDDEN}{PREFIX}", f"{HIDDEN}{NEW}")
    place = place or Path(tempfile.gettempdir())
    unlocked = [folder for folder in place.glob(f"{final}*") if _lacks_lock(folder)]
    ended = [folder for folder in place.glob(f"{final}*") if _abandoned(folder / LOCK)]
    # A folder under its first name may be locked at any moment: only its age shows whether it was abandoned.
    old = [folder for folder in [*unlocked, *place.glob(f"{first}*")] if _old(folder)]
    for folder in ended + old:
        shutil.rmtree(folder, ignore_errors=True)
    return len(ended + old)


def _lacks_lock(folder: Path) -> bool:
    try:
        (folder / LOCK).stat()
    except FileNotFoundError:
        return True
    except OSError:  # it belongs to another user
        return False
    return False


def _abandoned(lock: Path) -> bool:
    """Whether nobody holds the lock."""
    try:
        opened = os.open(lock, os.O_RDWR)
    except OSError:  # it does not exist, or belongs to another user
        return False
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(opened)
    return not lock.parent.is_symlink()


def _old(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        return time.time() - folder.stat().st_mtime > UNLOCKED_KEPT_S
    return False
