"""Provides ChildPool: child processes in which a crash or a hang costs one piece of work."""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, TypeVar

from costhub.errors import MeasureError
from costhub.isolation.child import ChildDied, ChildTimeout, Worker, worker_pool

_MAX_WORKERS = 16
# Generous: a machine that is busy with other things needs minutes for what takes a second when it is idle.
_WARM_TIMEOUT_S = 180.0
_REQUEST_TIMEOUT_S = 180.0
_PIECE_TIMEOUT_S = 30.0

Request = TypeVar("Request")


@dataclass(frozen=True)
class LostCall:
    """Stands for the reply to a request that brought its child down."""

    why: str
    """`crashed` or `took too long`."""


class ChildPool:
    """A few children, each served by a thread, for work that may crash them.

    Args:
        service: What the children run, as ``"module:function"``.
        warm: A request that makes a new child import what it needs, outside the time limit of any work.
        workers: Children; one per core by default.

    Raises:
        MeasureError: A child does not start at all.

    Example:
        >>> with CrashPool("costhub.isolation.child:echo", warm="", workers=1) as pool:
        ...     list(pool.map([{"n": 1}, {"exit": 1}], pieces=lambda _: [{}, {"n": 2}, {"exit": 1}]))
        [[{'n': 1}], [{'n': 2}, Lost(why='crashed')]]
    """

    def __init__(self, service: str, *, warm: Any, workers: int | None = None) -> None:
        self._service, self._warm = service, warm
        self._count = min(workers or os.cpu_count() or 1, _MAX_WORKERS)
        self._free: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._held = ExitStack()

    def __enter__(self) -> ChildPool:
        with ExitStack() as held:
            workers: list[Worker] = []
            # Once more after all is over: a thread may just have replaced a child that was killed.
            held.callback(_kill, workers)
            self._threads = held.enter_context(ThreadPoolExecutor(self._count))
            # The children are left before their threads, so that ^C does not wait for an answer.
            workers += held.enter_context(worker_pool(self._service, self._count))
            for worker in workers:
                self._free.put(worker)
            held.callback(self._stop.set)
            self._held = held.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the children at once, whatever they are asked; their replies are `Lost`."""
        self._held.close()

    def ask(self, request: Any) -> Any:
        """The reply to one request; `Lost` where it brings its child down."""
        return self._with_worker(self._try, request, _REQUEST_TIMEOUT_S)

    def map(
        self, requests: Iterable[Request], *, pieces: Callable[[Request], Sequence[Request]]
    ) -> Iterator[list[Any]]:
        """Answers requests, in order; at most two per child are under way.

        Args:
            requests: What to ask, taken as it is needed.
            pieces: Splits a request into those that are asked one by one where the whole brings a child down.
                The first of them asks for nothing: where even that is lost, the others are not tried.

        Yields:
            For each request a list with its reply, or with the replies to its pieces but the first: each of
            them `Lost` where the first is.
        """
        under_way: deque[Future[list[Any]]] = deque()
        try:
            for request in requests:
                if self._stop.is_set():
                    return
                under_way.append(self._threads.submit(self._with_worker, self._whole, request, pieces))
                if len(under_way) >= 2 * self._count:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            for future in under_way:
                future.cancel()

    def _with_worker(self, work: Callable[..., Any], *arguments: Any) -> Any:
        worker = self._free.get()
        try:
            return work(worker, *arguments)
        finally:
            self._free.put(worker)

    def _whole(self, worker: Worker, request: Any, pieces: Callable[[Any], Sequence[Any]]) -> list[Any]:
        reply = self._try(worker, request, _REQUEST_TIMEOUT_S)
        if not isinstance(reply, LostCall):
            return [reply]
        nothing, *work = pieces(request)
        reply = self._try(worker, nothing, _WARM_TIMEOUT_S)
        if isinstance(reply, LostCall):
            return [reply] * len(work)
        return [self._try(worker, piece, _PIECE_TIMEOUT_S) for piece in work]

    def _try(self, worker: Worker, request: Any, timeout_s: float) -> Any:
        try:
            if self._stop.is_set():
                raise ChildDied("it was stopped")
            if not worker.is_warm:
                worker.call(self._warm, timeout_s=_WARM_TIMEOUT_S)
                worker.is_warm = True
            return worker.call(request, timeout_s=timeout_s)
        except ChildTimeout:
            return LostCall("took too long")
        except ChildDied:
            return LostCall("crashed")
        except MeasureError:
            if self._stop.is_set():  # it was killed while it started
                return LostCall("crashed")
            raise


def _kill(workers: Sequence[Worker]) -> None:
    for worker in workers:
        worker.kill()
