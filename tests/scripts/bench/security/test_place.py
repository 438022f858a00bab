"""The place of an attempt: what it measures, what it stops, and what it does not let through."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.bench.common.machine import ROOT
from scripts.bench.security import place as module
from scripts.bench.security.place import Answer, Place, place


@pytest.fixture
def where() -> Iterator[Place]:
    with place(ROOT / "src") as made:
        yield made


def run(where: Place, code: str, limit_s: float = 20.0) -> Answer:
    return where.run(where.other(sys.executable, "-S", "-c", code, shown="code"), limit_s)


def test_an_answer_has_the_status_the_text_and_the_memory(where: Place) -> None:
    # It holds the memory for a moment: the peak is that of samples.
    answer = run(where, "import sys, time; x = b'a' * (200 << 20); time.sleep(0.5); print('told'); sys.exit('the end')")

    assert (answer.code, answer.out, answer.last_line) == (1, "told\n", "the end")
    assert answer.seconds > 0
    assert 150 < answer.peak_mb < 600


def test_a_crash_is_a_negative_status(where: Place) -> None:
    assert run(where, "import os; os.kill(os.getpid(), 11)").code == -11


def test_a_hang_is_ended_with_all_its_children(where: Place) -> None:
    child = "import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', 'import time; time.sleep(99)'])"

    answer = run(where, child, limit_s=0.7)

    assert answer.timed_out
    assert where.processes() == []


def test_a_process_that_is_left_behind_is_counted_and_ended(where: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRACE_S", 0.3)
    sleeper = "[sys.executable, '-S', '-c', 'import time; time.sleep(99)']"

    answer = run(where, f"import subprocess, sys; subprocess.Popen({sleeper}, start_new_session=True)")

    assert answer.left == 1
    assert where.processes() == []


def test_an_interruption_leaves_no_process(where: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Place, "_watch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(where, "import time; time.sleep(60)")

    assert where.processes() == []


def test_too_much_memory_is_stopped(where: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STOP_MB", 100.0)

    answer = run(where, "import time; x = b'a' * (300 << 20); time.sleep(30)")

    assert answer.code == -9
    assert answer.peak_mb > 100


def test_the_environment_is_that_of_a_stranger(where: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "of the one who runs the attacks")

    answer = run(where, "import os; print(sorted(os.environ), os.environ['HOME'], os.getcwd())")

    assert "HF_TOKEN" not in answer.out
    assert str(where.folder / "home") in answer.out
    assert str(where.folder) in answer.out.split()[-1]


def test_a_place_is_gone_whatever_modes_it_has(where: Place) -> None:
    with place(ROOT / "src") as other:
        locked = other.folder / "locked"
        (locked / "inside").mkdir(parents=True)
        os.mkfifo(locked / "pipe")
        locked.chmod(0)
        folder = Path(other.folder)

    assert not folder.exists()
    assert where.folder.exists()
