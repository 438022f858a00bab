"""How many calls a turn has, and what is said where a form is missing."""

from __future__ import annotations

import pytest

from costhub.collector.boards import session
from costhub.transfer.network import board_service
from costhub.transfer.network.board_service import MOST_CALLS, LoadThere, Lost, TakeThere, handle


class Steady:
    """A form that takes the same time at each call."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def take(self, repeat: int) -> list[float]:
        return [self.seconds] * repeat


@pytest.mark.parametrize(
    ("seconds", "turn", "calls"), [(0.3, 1.0, 2), (0.3, 0.0, 1), (2.0, 1.0, 1), (1e-6, 1.0, MOST_CALLS)]
)
def test_a_turn_has_one_call_at_least_and_not_too_many(
    seconds: float, turn: float, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(board_service._forms, "steady", Steady(seconds))  # type: ignore[arg-type]

    monkeypatch.setitem(session._open, "session", object())

    assert handle(TakeThere("steady", turn)) == [seconds] * calls


def test_without_a_session_everything_is_lost() -> None:
    assert handle(TakeThere("first", 1.0)) == Lost("The session with the board has ended.")
    assert isinstance(handle(LoadThere("first", "first.so", ())), Lost)


def test_forms_end_with_their_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(board_service._forms, "steady", Steady(1.0))  # type: ignore[arg-type]

    handle(None)

    assert board_service._forms == {}
