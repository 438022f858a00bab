"""The session service, called in this process: one session with a real board."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costhub.collector.boards.server import RunningServer
from costhub.collector.boards.session_service import BuildReferenceRequest, OpenRequest, TimeRequest, handle
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


def time_request(path: str, *, reference: str | None = None) -> TimeRequest:
    return TimeRequest(path, ARGUMENTS, QUICK, "cpu", reference)


def test_a_program_and_the_reference_kernel_are_timed(
    lease: Lease, target: str, identity: dict[str, Any], tmp_path: Path
) -> None:
    path = handle(BuildReferenceRequest(target, str(tmp_path)))
    opened = handle(OpenRequest(lease, 20.0))
    assert opened.error is None
    assert json.loads(opened.identity) == identity
    reply = handle(time_request(path, reference=path))
    assert (reply.outcome, reply.error) == ("ok", None)
    assert len(reply.run_s) == QUICK.repeat
    assert 0 < min(reply.reference_s) < 1


def test_an_object_file_is_linked_by_the_board(lease: Lease, target: str, tmp_path: Path) -> None:
    path = handle(BuildReferenceRequest(target, str(tmp_path)))
    handle(OpenRequest(lease, 20.0))
    reply = handle(time_request(str(Path(path.replace(".so", ".o")).rename(tmp_path / "program.so"))))
    assert (reply.outcome, reply.error) == ("ok", None)


def test_the_reference_kernel_of_a_machine_that_nothing_here_links_for_stays_an_object(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    target = {"kind": "llvm", "mtriple": "riscv64-linux-musl", "mcpu": "generic-rv64", "num-cores": 4}
    path = handle(BuildReferenceRequest(json.dumps(target), str(tmp_path)))
    assert Path(path).name == "reference.o"
    assert Path(path).read_bytes()[:4] == b"\x7fELF"


@pytest.mark.parametrize(("body", "outcome"), [("sleep(600);", "timeout"), ("abort();", "lost")])
def test_what_ends_the_session_is_told_apart(lease: Lease, library: Library, body: str, outcome: str) -> None:
    handle(OpenRequest(lease, 1.0))
    assert handle(time_request(library(body))).outcome == outcome


def test_a_program_without_a_function_is_an_error_of_the_program(lease: Lease, library: Library) -> None:
    handle(OpenRequest(lease, 20.0))
    assert handle(time_request(library(";"))).outcome == "error"


def test_a_board_that_is_gone_does_not_open() -> None:
    assert handle(OpenRequest(Lease("127.0.0.1", 1, "test:0.1"), 1.0)).error is not None
