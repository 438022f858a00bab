"""How many calls a turn has, and what is said where a form is missing."""

from __future__ import annotations

import pytest

from costhub.collector.boards import session_service
from costhub.search.whole_network import board_service
from costhub.search.whole_network.board_service import MAX_CALLS, BoardLost, LoadOnBoard, TimeOnBoard, handle


class Steady:
    """A form that takes the same time at each call."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def take(self, repeat: int) -> list[float]:
        return [self.seconds] * repeat


@pytest.mark.parametrize(
    ("seconds", "turn", "calls"), [(0.3, 1.0, 2), (0.3, 0.0, 1), (2.0, 1.0, 1), (1e-6, 1.0, MAX_CALLS)]
)
def test_a_turn_has_one_call_at_least_and_not_too_many(
    seconds: float, turn: float, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(board_service._board_forms, "steady", Steady(seconds))  # type: ignore[arg-type]

    monkeypatch.setitem(session_service._open, "session", object())

    assert handle(TimeOnBoard("steady", turn)) == [seconds] * calls


def test_without_a_session_everything_is_lost() -> None:
    assert handle(TimeOnBoard("first", 1.0)) == BoardLost("The session with the board has ended.")
    assert isinstance(handle(LoadOnBoard("first", "first.so", ())), BoardLost)


def test_forms_end_with_their_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(board_service._board_forms, "steady", Steady(1.0))  # type: ignore[arg-type]

    handle(None)

    assert board_service._board_forms == {}
