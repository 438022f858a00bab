"""Provides Children: a few child processes that read workloads and replay traces side by side."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, TypeVar

from costhub.dataset.metaschedule.service import (
    SERVICE,
    LoadedWorkload,
    LoadRequest,
    ReplayReply,
    ReplayRequest,
)
from costhub.errors import MeasureError
from costhub.worker import Worker, WorkerDied, WorkerTimeout, worker_pool

_MAX_WORKERS = 16
# Generous: a machine that is busy with other things needs minutes for what takes a second when it is idle.
_WARM_TIMEOUT_S = 180.0
_LOAD_TIMEOUT_S = 120.0
_CHUNK_TIMEOUT_S = 120.0
_RECORD_TIMEOUT_S = 30.0

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Children:
    """Child processes, each served by a thread; a crash or a hang costs the one record that causes it."""

    def __init__(self, workers: int | None = None) -> None:
        """Prepares for `workers` children, one per core by default; they start on entering."""
        self._count = min(workers or os.cpu_count() or 1, _MAX_WORKERS)
        self._free: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._held = ExitStack()

    def __enter__(self) -> Children:
        with ExitStack() as held:
            workers: list[Worker] = []
            # Once more after all is over: a thread may just have replaced a child that was killed.
            held.callback(_kill, workers)
            self._threads = held.enter_context(ThreadPoolExecutor(self._count))
            # The workers are left before their threads, so that ^C does not wait for an answer.
            workers += held.enter_context(worker_pool(SERVICE, self._count))
            for worker in workers:
                self._free.put(worker)
            held.callback(self._stop.set)
            self._held = held.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def load(self, lines: Sequence[bytes]) -> Iterator[LoadedWorkload | str]:
        """Reads workloads, in order; a string says why one cannot be read."""
        return self._each(self._load, lines)

    def replay(self, requests: Sequence[ReplayRequest]) -> Iterator[ReplayReply | str]:
        """Replays traces, in order; a string says why none of a request can be replayed."""
        return self._each(self._replay, requests)

    def _each(self, work: Callable[[Worker, _Item], _Result], items: Sequence[_Item]) -> Iterator[_Result]:
        def run(item: _Item) -> _Result:
            worker = self._free.get()
            try:
                return work(worker, item)
            finally:
                self._free.put(worker)

        return self._threads.map(run, items)

    def _load(self, worker: Worker, line: bytes) -> LoadedWorkload | str:
        try:
            reply: LoadedWorkload | str = self._ask(worker, LoadRequest(line), _LOAD_TIMEOUT_S)
        except (WorkerDied, WorkerTimeout) as error:
            return _how(error)
        return reply

    def _replay(self, worker: Worker, request: ReplayRequest) -> ReplayReply | str:
        try:
            reply: ReplayReply | str = self._ask(worker, request, _CHUNK_TIMEOUT_S)
            return reply
        except (WorkerDied, WorkerTimeout):
            # One of them brought the child down: each is tried by itself.
            found = [self._replay_one(worker, replace(request, traces=(trace,))) for trace in request.traces]
        replies = [reply for reply in found if isinstance(reply, ReplayReply)]
        if not replies:
            return str(found[0]) if found else "TVM crashed on its workload or target"
        programs = tuple(reply.programs[0] if isinstance(reply, ReplayReply) else reply for reply in found)
        return replace(replies[0], programs=programs)

    def _replay_one(self, worker: Worker, request: ReplayRequest) -> ReplayReply | str:
        try:
            reply: ReplayReply | str = self._ask(worker, request, _RECORD_TIMEOUT_S)
        except (WorkerDied, WorkerTimeout) as error:
            return _how(error)
        return reply

    def _ask(self, worker: Worker, request: LoadRequest | ReplayRequest, timeout_s: float) -> Any:
        if self._stop.is_set():
            raise WorkerDied("the import was stopped.")
        try:
            if not worker.is_warm:
                # Importing TVM does not count against the time of a request.
                worker.call(LoadRequest(), timeout_s=_WARM_TIMEOUT_S)
                worker.is_warm = True
            return worker.call(request, timeout_s=timeout_s)
        except MeasureError as error:
            if self._stop.is_set():  # it was killed while it started
                raise WorkerDied("the import was stopped.") from error
            raise


def _kill(workers: Sequence[Worker]) -> None:
    for worker in workers:
        worker.kill()


def _how(error: Exception) -> str:
    # What the child printed differs from crash to crash; the report counts equal reasons.
    return "TVM took too long over it" if isinstance(error, WorkerTimeout) else "TVM crashed on it"
