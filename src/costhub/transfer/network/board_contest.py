"""Provides board_contest: forms of one network, timed in turns on a board of a TVM tracker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

from costhub.collector.boards.boards import Boards
from costhub.collector.boards.session_pool import SessionPool
from costhub.collector.cpu_state import core_count
from costhub.errors import MeasureError
from costhub.transfer.network.board_service import LoadThere, Lost, TakeThere
from costhub.transfer.network.contest import (
    LOAD_TIMEOUT_S,
    ROUNDS,
    SECONDS,
    TAKE_TIMEOUT_S,
    Contest,
    Latency,
    in_turns,
)
from costhub.transfer.network.time_service import Loaded
from costhub.worker import Worker, WorkerDied, WorkerTimeout

SERVICE = "costhub.transfer.network.board_service:handle"
_BOARD_WAIT_S = 120.0
_SESSION_S = 3600.0
"""The board ends the session after so long."""


@contextmanager
def board_contest(inputs: tuple[Any, ...], boards: Boards) -> Iterator[BoardContest]:
    """A contest on the next free board; all forms are in one session, so that it is one board that runs them.

    Args:
        inputs: NumPy arrays.
        boards: They may be closed: the session is one of its own.

    Raises:
        MeasureError: No tracker answers, or no board became free.
        DeviceError: The board that did is of another kind than those that `boards` has seen.

    Example:
        >>> contest = board_contest((), Boards("127.0.0.1", 9190, "pi4"))  # `with contest:` waits for a board
    """
    pool = SessionPool(boards.tracker, boards.key, board_wait_s=_BOARD_WAIT_S, service=SERVICE)
    with closing(pool), pool.session(_SESSION_S) as session:
        boards.note(session)
        yield BoardContest(inputs, session.worker)


@dataclass
class BoardContest:
    """What `Contest` is, on a board; torch runs here, and is not timed."""

    inputs: tuple[Any, ...]
    """NumPy arrays."""
    worker: Worker
    """Holds the session."""
    _names: list[str] = field(default_factory=list)

    def load_library(self, name: str, path: str) -> tuple[Any, ...]:
        """Adds a library of `compile_network` for the board; returns what it computes there.

        Raises:
            MeasureError: It cannot be loaded, or fails, or the board is lost.
        """
        found = self._ask(LoadThere(name, path, self.inputs), LOAD_TIMEOUT_S)
        if isinstance(found, Lost):
            raise MeasureError(
                f"The board was lost before the network had run as {name} ({found.reason.rstrip('.')}). Run "
                "the same command again."
            )
        if not isinstance(found, Loaded):
            raise MeasureError(f"The network does not run as {name} on the board: {found.rstrip('.')}.")
        self._names.append(name)
        return found.outputs

    def load_torch(self, name: str, network: str, *, compiled: bool = False) -> tuple[Any, ...]:
        """What the network computes as torch runs it here.

        Raises:
            MeasureError: It cannot be loaded, or fails; or it is to be compiled, which is of no use here.
        """
        if compiled:
            raise MeasureError("It would run on this machine, and the network is for a board.")
        with Contest(self.inputs, core_count()) as here:
            return here.load_torch(name, network)

    def take(self, *, rounds: int = ROUNDS, seconds: float = SECONDS) -> dict[str, Latency]:
        """As `Contest.take`; where the board is lost, of the calls until then."""
        return in_turns(self._names, lambda name: self._turn(name, seconds), rounds)

    def _turn(self, name: str, seconds: float) -> list[float] | None:
        found = self._ask(TakeThere(name, seconds), TAKE_TIMEOUT_S)
        if isinstance(found, Lost):
            return []  # What was taken before the board was lost counts.
        return found if isinstance(found, list) else None

    def _ask(self, request: LoadThere | TakeThere, timeout_s: float) -> Any:
        try:
            return self.worker.call(request, timeout_s=timeout_s)
        except (WorkerDied, WorkerTimeout) as error:
            return Lost(str(error))
