from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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


def test_whoever_may_write_to_the_folder_may_lock_it(tmp_path: Path) -> None:
    before = os.umask(0o002)  # of a group that shares its files
    try:
        FolderLock(tmp_path).release()
    finally:
        os.umask(before)

    assert (tmp_path / LOCK).stat().st_mode & 0o777 == 0o664


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
