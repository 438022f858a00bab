"""Children in which a crash or a hang costs one piece of work."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from functools import partial
from typing import Any

import pytest

from costhub.errors import MeasureError
from costhub.isolation import pool as pool_module
from costhub.isolation.child import Child, ChildTimeout
from costhub.isolation.pool import MOST_CHILDREN, STARVED, TOO_LONG, ChildPool, LostCall, echo


def pieces(args: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    return [({},), *((piece,) for piece in args[0]["pieces"])]


def test_results_come_in_order_and_a_crash_costs_its_piece() -> None:
    calls: list[Any] = [({"n": n},) for n in range(5)]
    calls.insert(2, ({"exit": 1, "pieces": [{"n": 7}, {"exit": 1}, {"n": 8}]},))

    with ChildPool(2) as pool:
        found = list(pool.map(echo, calls, pieces=pieces))

    assert [results for results in found if len(results) == 1] == [[{"n": n}] for n in range(5)]
    assert found[2] == [{"n": 7}, LostCall("crashed"), {"n": 8}]


def test_pieces_are_not_tried_where_asking_for_nothing_crashes() -> None:
    with ChildPool(1) as pool:
        [found] = pool.map(echo, [({"exit": 1},)], pieces=lambda _: [({"exit": 1},), ({"n": 1},), ({"n": 2},)])

    assert found == [LostCall("crashed")] * 2


def test_a_hang_is_told_from_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "_CALL_TIMEOUT_S", 0.5)
    monkeypatch.setattr(pool_module, "_PIECE_TIMEOUT_S", 0.5)
    slow: Any = {"sleep_s": 60}

    with ChildPool(1) as pool:
        assert pool.call(echo, slow) == LostCall(STARVED)  # asleep, it has the processor as little as on a busy machine
        assert pool.call(echo, {"n": 1}) == {"n": 1}
        assert list(pool.map(echo, [(slow | {"pieces": [slow]},)], pieces=pieces)) == [[LostCall(STARVED)]]


@pytest.mark.parametrize(
    ("before_s", "after_s", "why"),
    [
        (0.0, 0.2, STARVED),
        (0.0, 0.3, TOO_LONG),
        (100.0, 100.2, STARVED),
        (100.0, 100.3, TOO_LONG),
        (100.0, 0.3, TOO_LONG),
    ],
    ids=["starved", "too long", "starved, used", "too long, used", "a new process"],
)
def test_who_had_half_of_its_time_took_too_long(
    monkeypatch: pytest.MonkeyPatch, before_s: float, after_s: float, why: str
) -> None:
    def late(*_: object, **__: object) -> None:
        raise ChildTimeout("no answer", after_s)

    monkeypatch.setattr(pool_module, "_CALL_TIMEOUT_S", 0.5)
    monkeypatch.setattr(Child, "cpu_s", before_s)
    monkeypatch.setattr(Child, "call", late)

    with ChildPool(1) as pool:
        assert pool.call(echo, {}) == LostCall(why)


def test_calls_are_taken_as_they_are_needed() -> None:
    taken = 0

    def calls() -> Iterator[tuple[Any, ...]]:
        nonlocal taken
        for _ in range(20):
            taken += 1
            yield ({},)

    with ChildPool(1) as pool:
        next(pool.map(echo, calls(), pieces=pieces))

        assert taken == 2


def test_leaving_waits_for_nobody_and_leaves_no_thread() -> None:
    with ChildPool(1) as pool:  # starts the thread that starts children, which stays
        pool.call(echo, 1)
    before = threading.active_count()
    with ChildPool(2) as pool:
        found = pool.map(echo, [({"n": 1},), *[({"sleep_s": 600},)] * 9], pieces=pieces)
        next(found)

    assert list(found) == []
    assert threading.active_count() == before


def test_children_start_as_they_are_needed_or_all_at_once() -> None:
    limits = pool_module.Limits(cpu_s=4321)  # of no other test
    with ChildPool(3, limits=limits) as pool:
        for _ in range(3):
            pool.call(echo, 1)
        with pool.child() as first, pool.child() as second:
            assert None not in (first.pid, second.pid)
            assert first.pid != second.pid
            pool.launch()
            with pool.child() as third:
                assert third.pid not in (first.pid, second.pid)


def test_a_pool_that_is_closed_refuses_work() -> None:
    pool = ChildPool(1)

    def work(child: Child) -> Any:
        return child.call(echo, {"sleep_s": 600}, timeout_s=600)

    futures = [pool.submit(work) for _ in range(3)]
    time.sleep(0.2)
    pool.close()

    for future in futures:
        with pytest.raises((Exception, CancelledError)):
            future.result()
    with pytest.raises(MeasureError, match="were ended"):
        pool.call(echo, 1)


def test_a_frozen_pool_neither_works_nor_starts_children() -> None:
    with ChildPool(2) as pool:
        pool.call(echo, 1)
        running = pool.submit(lambda child: child.call(echo, {"sleep_s": 0.2}, timeout_s=60))
        time.sleep(0.05)
        with pool.frozen():
            starting = pool.submit(lambda child: child.call(echo, 2, timeout_s=60))
            time.sleep(0.5)
            assert not running.done()
            assert not starting.done()
        assert running.result(timeout=60) == {"sleep_s": 0.2}
        assert starting.result(timeout=60) == 2


def test_a_child_that_cannot_start_is_a_sentence() -> None:
    with ChildPool(1, prepare=partial(echo, {"exit": 1})) as pool, pytest.raises(MeasureError, match="did not start"):
        pool.call(echo, 1)


def test_there_is_a_child_for_each_cpu_that_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    for usable, size in (({3}, 1), ({0, 5}, 2), (set(range(40)), MOST_CHILDREN)):
        monkeypatch.setattr("os.sched_getaffinity", lambda _, usable=usable: usable, raising=False)
        with ChildPool() as pool:
            assert pool.size == size
