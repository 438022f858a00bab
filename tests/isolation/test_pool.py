"""Children in which a crash or a hang costs one piece of work; the service is the worker's own echo."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from costhub.errors import MeasureError
from costhub.isolation import pool as crash_pool
from costhub.isolation.pool import ChildPool, LostCall

ECHO = "costhub.isolation.child:echo"


def pieces(request: dict[str, Any]) -> list[dict[str, Any]]:
    return [{}, *request["pieces"]]


def test_replies_come_in_order_and_a_crash_costs_its_piece() -> None:
    requests: list[Any] = [{"n": n} for n in range(5)]
    requests.insert(2, {"exit": 1, "pieces": [{"n": 7}, {"exit": 1}, {"n": 8}]})

    with ChildPool(ECHO, warm={}, workers=2) as pool:
        found = list(pool.map(requests, pieces=pieces))

    assert [replies for replies in found if len(replies) == 1] == [[{"n": n}] for n in range(5)]
    assert found[2] == [{"n": 7}, LostCall("crashed"), {"n": 8}]


def test_pieces_are_not_tried_where_asking_for_nothing_crashes() -> None:
    with ChildPool(ECHO, warm={}, workers=1) as pool:
        [found] = pool.map([{"exit": 1}], pieces=lambda _: [{"exit": 1}, {"n": 1}, {"n": 2}])

    assert found == [LostCall("crashed")] * 2


def test_a_hang_is_told_from_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crash_pool, "_REQUEST_TIMEOUT_S", 0.5)
    monkeypatch.setattr(crash_pool, "_PIECE_TIMEOUT_S", 0.5)
    slow = {"sleep_s": 60}

    with ChildPool(ECHO, warm={}, workers=1) as pool:
        assert pool.ask(slow) == LostCall("took too long")
        assert pool.ask({"n": 1}) == {"n": 1}
        assert list(pool.map([slow | {"pieces": [slow]}], pieces=pieces)) == [[LostCall("took too long")]]


def test_requests_are_taken_as_they_are_needed() -> None:
    taken = 0

    def requests() -> Iterator[dict[str, Any]]:
        nonlocal taken
        for _ in range(20):
            taken += 1
            yield {}

    with ChildPool(ECHO, warm={}, workers=1) as pool:
        next(pool.map(requests(), pieces=pieces))

        assert taken == 2


def test_leaving_waits_for_nobody_and_leaves_nobody() -> None:
    before = threading.active_count()
    with ChildPool(ECHO, warm={}, workers=2) as pool:
        found = pool.map([{"n": 1}, *[{"sleep_s": 600}] * 9], pieces=pieces)
        next(found)

    assert list(found) == []
    assert threading.active_count() == before


def test_a_service_that_cannot_start_is_said() -> None:
    with (
        pytest.raises(MeasureError, match="could not import it"),
        ChildPool("no.such:one", warm={}, workers=1),
    ):
        pass
