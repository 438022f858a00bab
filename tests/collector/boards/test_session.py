"""One session with a real board."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costhub.collector.boards.server import RunningServer
from costhub.collector.boards.session import SessionResult, build_reference, open_session, time_on_board
from costhub.collector.boards.tracker import Lease, Tracker
from costhub.collector.run.evaluator import Evaluator
from costhub.collector.run.reference import ARGUMENTS

QUICK = Evaluator(repeat=2, min_repeat_ms=1)
Library = Callable[[str], str]


@pytest.fixture
def lease(tracker: Tracker, boards_of_key: list[RunningServer]) -> Lease:
    lease = tracker.take("test", give_up=lambda: False)
    assert lease is not None
    return lease


def time_it(path: str, *, reference: str | None = None) -> SessionResult:
    return time_on_board(path, ARGUMENTS, QUICK, "cpu", reference)


def test_a_program_and_the_reference_kernel_are_timed(
    lease: Lease, target: str, identity: dict[str, Any], tmp_path: Path
) -> None:
    path = build_reference(target, str(tmp_path))
    assert json.loads(open_session(lease, 20.0) or "") == identity
    result = time_it(path, reference=path)
    assert (result.outcome, result.error) == ("ok", None)
    assert len(result.run_s) == QUICK.repeat
    assert 0 < min(result.reference_s) < 1


def test_an_object_file_is_linked_by_the_board(lease: Lease, target: str, tmp_path: Path) -> None:
    path = build_reference(target, str(tmp_path))
    open_session(lease, 20.0)
    result = time_it(str(Path(path.replace(".so", ".o")).rename(tmp_path / "program.so")))
    assert (result.outcome, result.error) == ("ok", None)


def test_the_reference_kernel_of_a_machine_that_nothing_here_links_for_stays_an_object(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    target = {"kind": "llvm", "mtriple": "riscv64-linux-musl", "mcpu": "generic-rv64", "num-cores": 4}
    path = build_reference(json.dumps(target), str(tmp_path))
    assert Path(path).name == "reference.o"
    assert Path(path).read_bytes()[:4] == b"\x7fELF"


@pytest.mark.parametrize(("body", "outcome"), [("sleep(600);", "timeout"), ("abort();", "lost")])
def test_what_ends_the_session_is_told_apart(lease: Lease, library: Library, body: str, outcome: str) -> None:
    open_session(lease, 1.0)
    assert time_it(library(body)).outcome == outcome


def test_a_program_without_a_function_is_an_error_of_the_program(lease: Lease, library: Library) -> None:
    open_session(lease, 20.0)
    assert time_it(library(";")).outcome == "error"


def test_a_board_that_is_gone_does_not_open() -> None:
    with pytest.raises(Exception, match=r"\S"):
        open_session(Lease("127.0.0.1", 1, "test:0.1"), 1.0)
