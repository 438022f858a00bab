"""Provides SessionPool: opens sessions with free boards, each in a child process with a time limit."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from costhub.collector.boards.session_service import OpenReply, OpenRequest
from costhub.collector.boards.tracker import Lease, Tracker
from costhub.errors import MeasureError
from costhub.isolation.child import ChildDied, ChildTimeout, Worker

SERVICE = "costhub.collector.boards.session_service:handle"
CONNECT_TIMEOUT_S = 10.0
RETRY_S = 0.2


@dataclass(frozen=True)
class BoardSession:
    """A board that is ours, and the child that speaks to it."""

    board: str
    identity: str | None
    """What the board says of itself, as JSON; None from a plain TVM server."""
    worker: Worker


class SessionPool:
    """Sessions with the boards of one key; as many at once as there are threads that open them.

    Args:
        tracker: Who gives the boards.
        key: What they have registered under.
        board_wait_s: How long to wait for a free board before giving up.
        service: What the children run; it answers at least what `session.handle` does.
    """

    def __init__(self, tracker: Tracker, key: str, *, board_wait_s: float, service: str = SERVICE) -> None:
        self.tracker, self.key, self.board_wait_s, self.service = tracker, key, board_wait_s, service
        self._workers: list[Worker] = []
        self._free: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        # A child ends with the thread that started it, and those that open sessions may be short-lived.
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="costhub-boards")
        self._lock = threading.Lock()
        self._closed = False

    def close(self) -> None:
        """Ends all sessions; a thread that is in one, or waits for one, gets a MeasureError."""
        with self._lock:
            self._closed = True
            for worker in self._workers:
                worker.kill()
        self._starter.shutdown()

    @contextmanager
    def session(self, timeout_s: float) -> Iterator[BoardSession]:
        """An open session, which its board ends after `timeout_s`; boards that do not answer are passed over.

        Raises:
            MeasureError: No tracker answers, or no board became free in time.
        """
        deadline = time.monotonic() + self.board_wait_s
        with self.worker() as worker:
            lease = self._take(deadline, "")
            while (reply := _open(worker, lease, timeout_s)).error is not None:
                time.sleep(RETRY_S)
                self._warm_up(worker)
                lease = self._take(deadline, f"{lease.board} did not open a session: {reply.error}. ")
            try:
                yield BoardSession(lease.board, reply.identity, worker)
            finally:
                if worker.connection is not None:  # a session that was not used is still open
                    with suppress(ChildDied, ChildTimeout):
                        worker.call(None, timeout_s=CONNECT_TIMEOUT_S)

    @contextmanager
    def worker(self) -> Iterator[Worker]:
        """A child that has imported TVM.

        Raises:
            MeasureError: It cannot be started, or the pool is closed.
        """
        try:
            worker = self._free.get_nowait()
        except queue.Empty:
            worker = Worker(self.service)
            self._workers.append(worker)
        try:
            self._warm_up(worker)
            yield worker
        finally:
            if self._closed:  # what was asked of it after the end has started it anew
                worker.kill()
            self._free.put(worker)

    def _take(self, deadline: float, trouble: str) -> Lease:
        lease = self.tracker.take(self.key, give_up=lambda: self._closed or time.monotonic() > deadline)
        if lease is None:
            self._check_open()
            count = len(self.tracker.servers(self.key))
            raise MeasureError(
                f"No board under the key {self.key!r} became free within {self.board_wait_s:g} s; {count} "
                f"are registered with the tracker at {self.tracker.host}:{self.tracker.port}. {trouble}"
                "`costhub board list` shows them, `costhub board serve` starts one."
            )
        return lease

    def _warm_up(self, worker: Worker) -> None:
        with self._lock:
            self._check_open()
            self._starter.submit(worker.launch).result()
        if worker.is_warm:
            return
        try:
            worker.call(None, timeout_s=worker.start_timeout_s)
        except (ChildDied, ChildTimeout, MeasureError) as error:
            self._check_open()
            raise MeasureError(f"TVM's RPC client cannot be used here: {error}") from error
        worker.is_warm = True

    def _check_open(self) -> None:
        if self._closed:
            raise MeasureError("The boards were closed while a program ran on them.")


def _open(worker: Worker, lease: Lease, timeout_s: float) -> OpenReply:
    try:
        reply: OpenReply = worker.call(OpenRequest(lease, timeout_s), timeout_s=CONNECT_TIMEOUT_S)
    except (ChildDied, ChildTimeout) as error:
        return OpenReply(None, str(error))
    return reply
