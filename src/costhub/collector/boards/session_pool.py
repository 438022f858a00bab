"""Provides SessionPool: opens sessions with free boards, each in a child process with a time limit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from costhub.collector.boards.session import hang_up, open_session
from costhub.collector.boards.tracker import Lease, Tracker
from costhub.errors import MeasureError, class_and_end
from costhub.isolation.child import WITHOUT_TORCH, Child, ChildError
from costhub.isolation.pool import ChildPool

CONNECT_TIMEOUT_S = 10.0
RETRY_S = 0.2
MOST_SESSIONS = 64


@dataclass(frozen=True)
class BoardSession:
    """A board reserved for us, and the child process that talks to it."""

    board: str
    identity: str | None
    """The board's own identification, as JSON; None for a plain TVM server."""
    child: Child


class SessionPool:
    """Sessions with the boards of one key; as many at once as there are threads opening them.

    Args:
        tracker: The tracker that assigns the boards.
        key: The key that the boards registered under.
        board_wait_s: How long to wait for a free board before giving up.
    """

    def __init__(self, tracker: Tracker, key: str, *, board_wait_s: float) -> None:
        self.tracker, self.key, self.board_wait_s = tracker, key, board_wait_s
        self._pool = ChildPool(MOST_SESSIONS, prepare=hang_up, environment=WITHOUT_TORCH)
        self._closed = False

    def close(self) -> None:
        """Ends all sessions; a thread using or waiting for one gets a MeasureError."""
        self._closed = True
        self._pool.close()

    @contextmanager
    def session(self, timeout_s: float) -> Iterator[BoardSession]:
        """Opens a session, which its board ends after `timeout_s`; boards that do not answer are skipped.

        Raises:
            MeasureError: No tracker answers, or no board became free in time.
        """
        deadline = time.monotonic() + self.board_wait_s
        with self.child() as child:
            session = self._open(child, self._take(deadline, ""), timeout_s)
            while not isinstance(session, BoardSession):
                time.sleep(RETRY_S)
                session = self._open(child, self._take(deadline, session), timeout_s)
            try:
                yield session
            finally:
                if child.is_running:  # a session that was not used is still open
                    with suppress(ChildError, MeasureError):
                        child.call(hang_up, timeout_s=CONNECT_TIMEOUT_S)

    @contextmanager
    def child(self) -> Iterator[Child]:
        """A child that has imported TVM.

        Raises:
            MeasureError: It cannot be started, or the pool is closed.
        """
        self._check_open()
        try:
            with self._pool.child() as child:
                yield child
        except MeasureError:  # closing kills a child that is still starting
            self._check_open()
            raise

    def _take(self, deadline: float, trouble: str) -> Lease:
        def is_over() -> bool:
            return self._closed or time.monotonic() > deadline

        # Checked before asking, too: a board that fails at once is free again before `give_up` is called.
        lease = None if trouble and is_over() else self.tracker.take(self.key, give_up=is_over)
        if lease is None:
            self._check_open()
            count = len(self.tracker.servers(self.key))
            raise MeasureError(
                f"No board under the key {self.key!r} became free within {self.board_wait_s:g} s; {count} "
                f"are registered with the tracker at {self.tracker.host}:{self.tracker.port}. {trouble}"
                "`costhub board list` shows them, `costhub board serve` starts one."
            )
        return lease

    def _open(self, child: Child, lease: Lease, timeout_s: float) -> BoardSession | str:
        """Opens the session; returns an explanatory sentence if the board does not."""
        try:
            identity = child.call(open_session, lease, timeout_s, timeout_s=CONNECT_TIMEOUT_S)
        except MeasureError:
            raise
        except Exception as error:
            reason = str(error) if isinstance(error, ChildError) else class_and_end(error)
            return f"{lease.board} did not open a session: {reason.rstrip('.')}. "
        return BoardSession(lease.board, identity, child)

    def _check_open(self) -> None:
        if self._closed:
            raise MeasureError("The boards were closed while a program ran on them.")
