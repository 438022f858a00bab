"""Boards: a real tracker and real servers, which share the work, and are killed in the middle of it."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

import costhub
from costhub.collector.boards import session_pool
from costhub.collector.boards.boards import BoardRunResult, Boards
from costhub.collector.boards.server import RunningServer
from costhub.collector.boards.tracker import Tracker
from costhub.collector.build.builder import Builder
from costhub.collector.propose.sampler import Program
from costhub.collector.run.drift_monitor import REPETITIONS
from costhub.collector.run.evaluator import Evaluator
from costhub.errors import DeviceError, MeasureError
from costhub.isolation.child import Child

KEY = "test"
ARM_PYTHON = os.environ.get("COSTHUB_ARM_PYTHON", "")
SOURCE = Path(costhub.__file__).parents[1]
QUICK = Evaluator(repeat=2, min_repeat_ms=1)
Serve = Callable[..., RunningServer]
Library = Callable[[str], str]


@pytest.fixture(scope="module")
def artifacts(builder: Builder, programs: list[Program]) -> list[str]:
    built = builder.build([p.module_json for p in programs])
    return [b.artifact for b in built if b.artifact is not None]


@pytest.fixture(scope="module")
def boards(tracker: Tracker, boards_of_key: list[RunningServer]) -> Iterator[Boards]:
    # Two boards on one machine disturb each other; that is not what these tests are about.
    with Boards(tracker.host, tracker.port, KEY, evaluator=QUICK, most_drift=math.inf) as boards:
        yield boards


def run_all(boards: Boards, artifacts: list[str], program: Program, times: int) -> list[BoardRunResult]:
    with ThreadPoolExecutor(boards.count()) as threads:
        work = [artifact for artifact in artifacts for _ in range(times)]
        return list(threads.map(lambda artifact: boards.run(artifact, program.arguments), work))


def names(running: list[RunningServer]) -> set[str]:
    return {f"127.0.0.1:{r.port}" for r in running}


@pytest.mark.slow
def test_boards_share_the_work(
    boards: Boards, boards_of_key: list[RunningServer], artifacts: list[str], programs: list[Program]
) -> None:
    assert boards.count() == 2
    results = run_all(boards, artifacts, programs[0], times=2)

    assert [(r.status, r.error) for r in results] == [("ok", None)] * len(results)
    assert {r.board for r in results} == names(boards_of_key)
    # A repeat that takes long, as beside other programs, is the last one.
    assert all(1 <= len(r.run_s) <= QUICK.repeat and 0 < min(r.run_s) < 1 for r in results)
    assert all(r.reference_after_s and r.reference_drift is not None for r in results)


def test_boards_say_what_they_are(boards: Boards, identity: dict[str, Any]) -> None:
    assert boards.identify().device == identity["device"]
    assert boards.target() == identity["target"]


def test_the_reference_kernel_takes_a_moment(boards: Boards) -> None:
    assert 1e-6 < boards.reference_s() < 1.0


def test_a_program_is_measured_again_where_its_board_was_slow(
    boards: Boards, artifacts: list[str], programs: list[Program], monkeypatch: pytest.MonkeyPatch
) -> None:
    takes = []
    take = boards.tracker.take
    monkeypatch.setattr(Tracker, "take", lambda _, *a, **k: takes.append(a) or take(*a, **k))
    for most_drift, expected in ((math.inf, 1), (-1.0, 1 + REPETITIONS)):
        monkeypatch.setattr(boards, "most_drift", most_drift)
        takes.clear()
        assert boards.run(artifacts[0], programs[0].arguments).status == "ok"
        assert len(takes) == expected


def test_a_hang_is_a_row_and_the_board_stays(
    boards: Boards, library: Library, artifacts: list[str], programs: list[Program]
) -> None:
    hung = boards.run(library("sleep(600);"), programs[0].arguments, timeout_s=1.0)
    assert hung.status == "run_timeout"
    assert {r.status for r in run_all(boards, artifacts, programs[0], times=1)} == {"ok"}
    assert boards.count() == 2


def test_a_crash_is_a_row_and_the_boards_stay(
    boards: Boards, library: Library, artifacts: list[str], programs: list[Program]
) -> None:
    crashed = boards.run(library("abort();"), programs[0].arguments)
    assert crashed.status == "run_error"
    assert "2 sessions in a row" in (crashed.error or "")
    assert not re.search(r"127\.0\.0\.1|localhost|:\d{4}", crashed.error or "")  # addresses of boards stay private
    assert {r.status for r in run_all(boards, artifacts, programs[0], times=2)} == {"ok"}
    assert boards.count() == 2


def test_what_is_no_program_is_a_row(boards: Boards, library: Library, programs: list[Program]) -> None:
    ran = boards.run(library("exit(0);").replace("bad.so", "bad.c"), programs[0].arguments)
    assert ran.status == "run_error"
    assert "2 boards" not in (ran.error or "")


@pytest.mark.slow
def test_the_work_of_a_killed_board_goes_to_the_others(
    boards: Boards, boards_of_key: list[RunningServer], serve: Serve, library: Library, programs: list[Program]
) -> None:
    doomed = serve()
    hang = library("sleep(600);")
    with ThreadPoolExecutor(3) as threads:
        running = [threads.submit(boards.run, hang, programs[0].arguments, timeout_s=4.0) for _ in range(3)]
        while not psutil.Process(doomed.child.pid).children():  # one of them has come to it
            time.sleep(0.01)
        os.kill(doomed.child.pid or 0, signal.SIGKILL)
        results = [future.result() for future in running]
    # Only boards that live can have waited for the end of the time limit.
    assert [r.status for r in results] == ["run_timeout"] * 3
    assert {r.board for r in results} == names(boards_of_key)
    assert boards.count() == 2


@pytest.mark.slow
def test_a_board_that_does_not_answer_is_passed_over_and_used_again(
    boards: Boards,
    serve: Serve,
    artifacts: list[str],
    programs: list[Program],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_pool, "CONNECT_TIMEOUT_S", 1.0)
    server = serve()
    os.kill(server.child.pid or 0, signal.SIGSTOP)
    results = run_all(boards, artifacts[:1], programs[0], times=4)
    assert {(r.status, r.board in names([server])) for r in results} == {("ok", False)}

    os.kill(server.child.pid or 0, signal.SIGCONT)
    deadline = time.monotonic() + 60.0
    while boards.run(artifacts[0], programs[0].arguments).board not in names([server]):
        assert time.monotonic() < deadline, "the board that came back was not used"


def test_a_board_that_was_probed_at_no_time_is_refused(boards: Boards, identity: dict[str, Any]) -> None:
    said = json.dumps({**identity, "device": {**identity["device"], "probed_at": "teatime"}})
    with pytest.raises(DeviceError, match=r"board vax:1 says that it was probed at 'teatime', which is not a time"):
        boards.note(session_pool.BoardSession("vax:1", said, Child()))


SAID = ["{}", "no JSON", "[]", '{"device": {"device_id": "vax"}, "target": {}}']


@pytest.mark.parametrize("said", [*SAID, '{"device": 7}', '{"device": {}, "target": {}}', "[" * 100_000])
def test_a_board_of_another_version_is_told(boards: Boards, said: str) -> None:
    with pytest.raises(DeviceError, match=r"board vax:1 does not say what it is as this version of costhub expects"):
        boards.note(session_pool.BoardSession("vax:1", said, Child()))


@pytest.mark.slow
def test_boards_of_two_kinds_are_refused(boards: Boards, serve: Serve, identity: dict[str, Any]) -> None:
    boards.identify()
    serve(said={**identity, "device": {**identity["device"], "device_id": "vax-780"}})
    with pytest.raises(DeviceError, match=r"of different kinds: .*'vax-780'"):
        boards.identify()


@pytest.mark.slow
def test_a_plain_tvm_server_needs_a_target(tracker: Tracker, target: str) -> None:
    from tvm.rpc.server import Server

    address = (tracker.host, tracker.port)
    server = Server("127.0.0.1", tracker_addr=address, key="plain", silent=True)
    try:
        with Boards(*address, "plain") as boards, pytest.raises(DeviceError, match="plain TVM servers"):
            boards.identify()
        with Boards(*address, "plain", target=json.loads(target)) as boards:
            assert boards.reference_s() > 0
    finally:
        server.terminate()


def test_no_tracker_is_a_sentence() -> None:
    with (
        Boards("127.0.0.1", 1, "any", target={"kind": "llvm"}) as boards,
        pytest.raises(MeasureError, match=r"No TVM tracker answers at 127\.0\.0\.1:1 "),
    ):
        boards.count()


@pytest.mark.slow
@pytest.mark.skipif(not ARM_PYTHON, reason="COSTHUB_ARM_PYTHON names no Python for aarch64, such as QEMU's, with TVM")
def test_a_board_of_another_architecture_runs_what_is_built_here(
    tracker: Tracker, free_port: Callable[[], int]
) -> None:
    main = "from costhub.cli.main import main; main()"
    where = ["--tracker", f"{tracker.host}:{tracker.port}", "--key", "arm", "--port", str(free_port())]
    paths = {"PYTHONPATH": os.pathsep.join([str(SOURCE), os.environ.get("COSTHUB_ARM_PYTHONPATH", "")])}
    board = subprocess.Popen(
        [ARM_PYTHON, "-c", main, "board", "serve", *where], env={**os.environ, **paths}, start_new_session=True
    )
    try:
        deadline = time.monotonic() + 300
        while not tracker.servers("arm") and time.monotonic() < deadline and board.poll() is None:
            time.sleep(1)
        with Boards(tracker.host, tracker.port, "arm", timeout_s=120) as boards:
            assert str(boards.target()["mtriple"]).startswith("aarch64")
            assert boards.reference_s() > 0
    finally:
        os.killpg(board.pid, signal.SIGKILL)
        board.wait()
