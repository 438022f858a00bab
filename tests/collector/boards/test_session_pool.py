"""The pool of sessions: waiting for boards of a real tracker, and giving up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from costhub.collector.boards.server import RunningServer
from costhub.collector.boards.session_pool import SessionPool
from costhub.collector.boards.tracker import Lease, Tracker
from costhub.errors import MeasureError

KEY = "test"


@pytest.fixture(scope="module")
def pool(tracker: Tracker) -> Iterator[SessionPool]:
    pool = SessionPool(tracker, KEY, board_wait_s=60.0)
    yield pool
    pool.close()


def test_a_session_holds_its_board_and_gives_it_back(
    pool: SessionPool, tracker: Tracker, boards_of_key: list[RunningServer]
) -> None:
    with pool.session(20.0) as session:
        assert session.board in {server.name for server in tracker.servers(KEY)}
        assert tracker.free(KEY) == len(boards_of_key) - 1
    while tracker.free(KEY) < len(boards_of_key):
        time.sleep(0.05)


def test_a_child_outlives_the_thread_that_asked_for_it(pool: SessionPool) -> None:
    def pid_of_one() -> int | None:
        with pool.session(20.0) as session:
            return session.child.pid

    pids = set()
    for _ in range(3):
        with ThreadPoolExecutor(1) as threads:
            pids.add(threads.submit(pid_of_one).result())
    assert len(pids) == 1


def test_no_board_is_a_sentence(pool: SessionPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "key", "nobody")
    monkeypatch.setattr(pool, "board_wait_s", 0.6)
    with (
        pytest.raises(MeasureError, match=r"No board under the key 'nobody'.*; 0 are registered"),
        pool.session(20.0),
    ):
        pass


def test_a_board_that_fails_at_once_is_not_waited_for_any_longer(
    tracker: Tracker, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Lease] = []

    def take(self: Tracker, key: str, *, give_up: Any) -> Lease:
        taken.append(Lease("127.0.0.1", 1, "x"))
        assert len(taken) < 50, "it would never end"
        return taken[-1]

    monkeypatch.setattr(Tracker, "take", take)
    pool = SessionPool(tracker, "full-disk", board_wait_s=0.6)
    with pytest.raises(MeasureError, match=r"became free within 0\.6 s.*did not open a session"), pool.session(20.0):
        pass
    pool.close()


def test_closing_ends_the_wait_for_a_board(tracker: Tracker) -> None:
    def wait_for_one() -> None:
        with pool.session(20.0):
            pass

    pool = SessionPool(tracker, "nobody", board_wait_s=600.0)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(wait_for_one)
        time.sleep(0.2)
        pool.close()
        with pytest.raises(MeasureError, match="were closed"):
            waiting.result()
