"""Provides FolderLock: at most one process writes to a folder at a time."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from pathlib import Path

from costhub.errors import DataError

LOCK = ".lock"


class FolderLock:
    """The lock of a folder, held until `release` or until the process ends, however it ends."""

    def __init__(self, folder: Path, *, wait: bool = False) -> None:
        """Takes the lock.

        Args:
            folder: The folder to lock; it must exist.
            wait: Wait for the other writer instead of raising an error.

        Raises:
            DataError: Another process holds the lock, or a folder, a link or another special file is in its place, or
                the file system has no locks.
        """
        self._descriptor = _take(folder, wait=wait)
        try:
            while not _is_in_place(self._descriptor, folder / LOCK):  # the folder was replaced before it was locked
                stale, self._descriptor = self._descriptor, -1
                os.close(stale)
                self._descriptor = _take(folder, wait=wait)
            with contextlib.suppress(OSError):  # for messages only: a full disk has no room for it
                os.ftruncate(self._descriptor, 0)
                os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)
        except BaseException:
            if self._descriptor >= 0:
                os.close(self._descriptor)
            raise

    def release(self) -> None:
        """Releases the lock; the file stays, because removing it could let two writers in."""
        os.close(self._descriptor)

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _take(folder: Path, *, wait: bool) -> int:
    descriptor = _open_lock(folder / LOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError as error:
        owner = os.read(descriptor, 64).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise DataError(
            f"{folder} is being written by another process (pid {owner}); wait for it to end, "
            f"or write to another folder."
        ) from error
    except OSError as error:
        os.close(descriptor)
        raise DataError(
            f"{folder} cannot be locked ({error.strerror}): its file system has no locks. Use a folder on a local disk."
        ) from error
    except BaseException:  # interrupted while it waited
        os.close(descriptor)
        raise
    return descriptor


def _is_in_place(descriptor: int, path: Path) -> bool:
    """Whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _is_of_another(path: Path) -> bool:
    try:
        return path.lstat().st_uid != os.geteuid()
    except OSError:  # it is missing, or in a folder that may not be read
        return False


def _open_lock(path: Path) -> int:
    # Never through a link: the pid is written into the file, whatever it held before. Never wait for a pipe.
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        # With all permissions that the user's mask allows: a group with write access shares the lock.
        descriptor = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM) and _is_of_another(path):
            raise DataError(
                f"{path} belongs to another user, and you may not write to it. Everybody who writes to this folder "
                "needs a common group and `umask 002`."
            ) from error
        is_in_the_way = path.exists() and (error.errno in (errno.EACCES, errno.EPERM) or not path.is_file())
        if path.is_symlink() or is_in_the_way:
            raise DataError(
                f"{path} cannot be opened ({error.strerror}). Remove it: a lock is a plain file."
            ) from error
        raise
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise DataError(f"{path} is not a plain file, as a lock must be. Remove it.")
