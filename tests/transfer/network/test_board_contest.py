"""Forms of a network on a board: a real tracker and server, which run what was compiled here."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from costhub.collector.boards.boards import Boards, Identity
from costhub.collector.boards.tracker import Tracker, address_of
from costhub.collector.network_source import read_network
from costhub.dataset.target import parse_target
from costhub.errors import DeviceError, MeasureError
from costhub.transfer.network.board_contest import BoardContest, board_contest
from costhub.transfer.network.board_service import TakeThere
from costhub.transfer.network.compile import compile_network

VALUE = np.linspace(0, 1, 3072, dtype=np.float32).reshape(1, 3, 32, 32)


@pytest.fixture(scope="module")
def library(files: tuple[Path, Path], target: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("board") / "small.so"
    compile_network(read_network(str(files[0])), parse_target(target), None, path)
    return str(path)


@contextmanager
def entered(two_boards: tuple[str, str]) -> Iterator[BoardContest]:
    address, key = two_boards
    with board_contest((VALUE,), Boards(*address_of(address), key)) as contest:
        yield contest


def test_forms_compute_what_torch_does_and_are_timed_in_turns(
    two_boards: tuple[str, str], library: str, files: tuple[Path, Path]
) -> None:
    with entered(two_boards) as contest:
        (first,) = contest.load_library("first", library)
        (second,) = contest.load_library("second", library)
        (wanted,) = contest.load_torch("torch", str(files[0]))
        found = contest.take(rounds=2, seconds=0.0)

    assert first.shape == (1, 10)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_allclose(first, wanted, rtol=1e-3, atol=1e-5)
    assert {name: latency.calls for name, latency in found.items()} == {"first": 2, "second": 2}
    assert all(0 < latency.median_us < 1e6 for latency in found.values())
    tracker, deadline = Tracker(*address_of(two_boards[0])), time.monotonic() + 30
    while tracker.free(two_boards[1]) < 2:  # The board is there for others again.
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_what_does_not_load_is_a_sentence_and_the_session_goes_on(
    two_boards: tuple[str, str], library: str, tmp_path: Path
) -> None:
    (tmp_path / "not.so").write_text("no library")
    with entered(two_boards) as contest:
        with pytest.raises(MeasureError, match="does not run as wrong on the board"):
            contest.load_library("wrong", str(tmp_path / "not.so"))
        contest.load_library("right", library)
        found = contest.take(rounds=1, seconds=0.05)

    assert list(found) == ["right"]
    assert found["right"].calls > 1


def test_what_was_taken_before_the_session_was_lost_is_kept(
    two_boards: tuple[str, str], library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with entered(two_boards) as contest:
        contest.load_library("first", library)
        ask, asked = contest._ask, []

        def lost_at_the_second_turn(request: TakeThere, timeout_s: float) -> object:
            asked.append(request)
            if len(asked) == 2:
                assert contest.worker.pid is not None
                os.kill(contest.worker.pid, signal.SIGKILL)
            return ask(request, timeout_s)

        monkeypatch.setattr(contest, "_ask", lost_at_the_second_turn)
        assert contest.take(rounds=3, seconds=0.0)["first"].calls == 1
        monkeypatch.undo()
        with pytest.raises(MeasureError, match=r"was lost before .* as second .*session .* has ended\)"):
            contest.load_library("second", library)


def test_a_board_of_another_kind_than_those_of_the_search_is_refused(two_boards: tuple[str, str]) -> None:
    address, key = two_boards
    boards = Boards(*address_of(address), key)
    boards._identities["of the search"] = Identity({"device_id": "another"}, {})
    with pytest.raises(DeviceError, match="not of one kind"), board_contest((VALUE,), boards):
        pass


def test_torch_is_not_compiled_for_a_board(two_boards: tuple[str, str]) -> None:
    with entered(two_boards) as contest, pytest.raises(MeasureError, match="for a board"):
        contest.load_torch("torch.compile", "lstm", compiled=True)
