"""Temporary folders: gone with their process, and never taken from one that lives."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from costhub.isolation import scratch
from costhub.isolation.scratch import LOCK, NEW, PREFIX, UNLOCKED_KEPT_S, ScratchFolder, sweep

OWNER = """
import sys
from costhub.isolation.scratch import ScratchFolder
folder = ScratchFolder()
(folder.path / "program.so").write_bytes(b"x")
print(folder.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield tmp_path
    tempfile.tempdir = None


def owner() -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen([sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_a_folder_ends_with_its_block(place: Path) -> None:
    with ScratchFolder() as folder:
        (folder.path / "inner").mkdir()
        assert folder.path.parent == place
    folder.close()
    assert list(place.iterdir()) == []


def test_the_folder_of_a_killed_process_is_swept_and_that_of_a_living_one_is_not(place: Path) -> None:
    process, path = owner()
    with process:
        assert sweep() == 0
        assert (path / "program.so").exists()
        process.kill()
    assert path.exists()

    with ScratchFolder() as folder:
        assert [p.name for p in place.iterdir()] == [folder.path.name]


def test_a_folder_without_a_lock_is_swept_when_it_is_old(place: Path) -> None:
    made = [place / f"{PREFIX}x", place / f"{NEW}y"]
    for folder in made:
        folder.mkdir()
    assert sweep() == 0
    for folder in made:
        long_ago = folder.stat().st_mtime - UNLOCKED_KEPT_S - 1
        os.utime(folder, (long_ago, long_ago))
    assert sweep() == 2
    assert list(place.iterdir()) == []


def test_the_folder_of_another_user_is_left_alone(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = place / f"{PREFIX}theirs"
    theirs.mkdir()
    long_ago = time.time() - 10 * UNLOCKED_KEPT_S
    os.utime(theirs, (long_ago, long_ago))
    stat = Path.stat

    def refused(path: Path, **options: bool) -> os.stat_result:
        if path.parent == theirs:
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", refused)

    assert sweep() == 0
    assert theirs.is_dir()


def test_a_link_is_not_followed(place: Path) -> None:
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / LOCK).write_text("")
    (place / f"{PREFIX}link").symlink_to(elsewhere)
    assert sweep() == 0
    assert elsewhere.exists()


def test_nobody_else_sees_a_folder_before_it_is_locked(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flock, swept = scratch.fcntl.flock, []

    def sweeping_first(lock: int, how: int) -> None:
        if not swept:
            swept.append(True)
            assert sweep() == 0
        flock(lock, how)

    monkeypatch.setattr(scratch.fcntl, "flock", sweeping_first)
    with ScratchFolder() as folder:
        assert folder.path.exists()
    assert swept


def test_a_folder_beside_a_result_is_hidden_and_is_swept_there(place: Path) -> None:
    code = OWNER.replace("ScratchFolder()", "ScratchFolder(__import__('pathlib').Path(sys.argv[1]))")
    results = place / "results"
    results.mkdir()
    words = [sys.executable, "-c", code, str(results)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        path = Path(process.stdout.readline().strip())
        assert (path.parent, path.name[:1]) == (results, ".")
        assert (sweep(), sweep(results)) == (0, 0)
        process.kill()

    with ScratchFolder(results) as folder:
        assert [p.name for p in results.iterdir()] == [folder.path.name]
    assert list(results.iterdir()) == []
