"""A full disk: `costhub collect` stops with a sentence, and goes on where it stopped once there is room."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from costhub.collector.build.builder import Builder
from costhub.collector.propose.sampler import Program
from costhub.dataset.folder import DataFolder
from costhub.errors import MeasureError
from costhub.isolation.process import end_idle_children

SMALL = 600 << 10


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 600 KiB; mounting one takes root and a kernel that has tmpfs."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = mount("-t", "tmpfs", "-o", f"size={SMALL}", "tmpfs", str(disk))
    if mounted.returncode:
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.strip()}")
    yield disk
    end_idle_children()  # whose output goes to a file in TMPDIR
    subprocess.run(["umount", str(disk)], check=True)


def mount(*arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return subprocess.CompletedProcess([], 1, "", "there is no mount command")


def collect(out: Path, trials: int) -> subprocess.CompletedProcess[str]:
    arguments = ["collect", "--suite", "softmax.64x1000", "--trials", str(trials), "--out", str(out)]
    code = f"from costhub.cli.main import main; main({arguments!r})"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def ids(folder: Path) -> list[str]:
    table = DataFolder.open(folder).measurements(columns=["record_id"])
    found: list[str] = table["record_id"].to_pylist()
    return found


@pytest.mark.slow
def test_a_full_disk_stops_a_collection_that_can_go_on_later(small_disk: Path) -> None:
    out = small_disk / "data"
    assert collect(out, trials=3).returncode == 0
    filler = small_disk / "filler"
    with filler.open("wb") as file:
        free = small_disk_free(small_disk)
        file.write(bytes(max(0, free - (60 << 10))))  # room for some rows, not for all

    full = collect(out, trials=60)

    assert full.returncode == 1, full.stderr
    assert "Traceback" not in full.stderr
    assert "No space left" in full.stderr or "disk is full" in full.stderr
    kept = ids(out)
    assert len(kept) > 3

    filler.unlink()
    assert mount("-o", "remount,size=64m", str(small_disk)).returncode == 0
    later = collect(out, trials=60)
    assert later.returncode == 0, later.stderr
    found = ids(out)
    assert len(found) == 60
    assert max(Counter(found).values()) == 1
    assert set(kept) <= set(found)


def test_a_build_without_room_is_no_failure_of_its_program(
    small_disk: Path, target: str, programs: list[Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    """LLVM ends its process, whose last words find no room either."""
    monkeypatch.setenv("TMPDIR", str(small_disk))
    monkeypatch.setattr("tempfile.tempdir", None)
    with Builder(target, processes=1) as builder:
        (first,) = builder.build([programs[0].module_json])
        first.remove()
        filler = small_disk / "filler"
        filler.write_bytes(bytes(small_disk_free(small_disk)))

        with pytest.raises(MeasureError, match=rf"the disk of {small_disk} is full .* set TMPDIR"):
            builder.build([programs[0].module_json])

        filler.unlink()
        (again,) = builder.build([programs[0].module_json])
    assert (first.status, again.status) == ("ok", "ok")


def small_disk_free(disk: Path) -> int:
    import shutil

    return shutil.disk_usage(disk).free
