from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.shards.lock import LOCK, FolderLock
from costhub.errors import DataError

HOLD = """
import sys
from pathlib import Path
from costhub.dataset.shards.lock import FolderLock
lock = FolderLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_holder_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    with (
        FolderLock(tmp_path),
        pytest.raises(DataError, match=rf"written by another process \(pid {os.getpid()}\)"),
    ):
        FolderLock(tmp_path)


def test_a_lock_is_that_of_the_folder_which_took_the_place_of_another_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, take = tmp_path / "data", fcntl.flock
    folder.mkdir()
    (tmp_path / "new").mkdir()

    def take_after_the_swap(descriptor: int, how: int) -> None:
        if (tmp_path / "new").exists():
            folder.rename(tmp_path / "old")
            (tmp_path / "new").rename(folder)
        take(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", take_after_the_swap)

    with FolderLock(folder, wait=True), pytest.raises(DataError, match="written by another process"):
        FolderLock(folder)


def test_whoever_may_write_to_the_folder_may_lock_it(tmp_path: Path) -> None:
    before = os.umask(0o002)  # of a group that shares its files
    try:
        FolderLock(tmp_path).release()
    finally:
        os.umask(before)

    assert (tmp_path / LOCK).stat().st_mode & 0o777 == 0o664


@pytest.mark.parametrize("refused", [errno.EACCES, errno.EPERM])
def test_the_lock_of_another_user_is_not_to_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    FolderLock(tmp_path).release()

    def refuse(*_: Any, **__: Any) -> int:
        raise OSError(refused, os.strerror(refused))

    monkeypatch.setattr("costhub.dataset.shards.lock.os.open", refuse)
    with pytest.raises(DataError, match="Remove it: a lock is a plain file"):
        FolderLock(tmp_path)  # one's own

    other = os.geteuid() + 1
    monkeypatch.setattr("costhub.dataset.shards.lock.os.geteuid", lambda: other)
    with pytest.raises(DataError, match=r"\.lock belongs to another user.* needs a common group and `umask 002`\."):
        FolderLock(tmp_path)


def test_a_file_system_without_locks_is_not_called_another_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("costhub.dataset.shards.lock.fcntl.flock", refuse)
    with pytest.raises(DataError, match=r"cannot be locked \(No locks available\): its file system has no locks"):
        FolderLock(tmp_path)


def test_the_lock_can_be_taken_again_once_released(tmp_path: Path) -> None:
    with FolderLock(tmp_path):
        pass
    with FolderLock(tmp_path):
        pass


def test_a_killed_process_gives_the_lock_back(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        with pytest.raises(DataError, match=f"pid {child.pid}"):
            FolderLock(tmp_path)
        child.kill()
        child.wait()
    with FolderLock(tmp_path):
        pass


def test_a_full_disk_costs_the_pid_and_an_interruption_frees_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raising(error: BaseException) -> Any:
        def pwrite(*_: Any) -> None:
            raise error

        return pwrite

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", raising(OSError(errno.ENOSPC, "No space left on device")))
        FolderLock(tmp_path).release()
        patched.setattr(os, "pwrite", raising(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            FolderLock(tmp_path)
    FolderLock(tmp_path).release()


def test_a_lock_on_a_read_only_file_system_is_not_to_be_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(path: Any, *_: Any) -> int:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    (tmp_path / LOCK).touch()
    monkeypatch.setattr("costhub.dataset.shards.lock.os.open", read_only)
    with pytest.raises(OSError, match="Read-only"):
        FolderLock(tmp_path)
