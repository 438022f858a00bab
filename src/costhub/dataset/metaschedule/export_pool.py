"""Provides ExportPool: child processes that write records, of which a crash costs one."""

from __future__ import annotations

import os
import queue
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from types import TracebackType
from typing import Any

from costhub.dataset.metaschedule.export_service import SERVICE, RecordsRequest, WorkloadLine, WorkloadRequest
from costhub.worker import Worker, WorkerDied, WorkerTimeout, worker_pool

_MAX_WORKERS = 16
# Generous: a machine that is busy with other things needs minutes for what takes a second when it is idle.
_REQUEST_TIMEOUT_S = 180.0
_RECORD_TIMEOUT_S = 30.0

Records = list[str | None]


class ExportPool:
    """Child processes that replay programs and write them as records.

    Raises:
        MeasureError: A child process does not start at all.

    Example:
        >>> with ExportPool(workers=1) as pool:
        ...     list(pool.records([]))
        []
    """

    def __init__(self, *, workers: int | None = None) -> None:
        self._count = workers or min(os.cpu_count() or 1, _MAX_WORKERS)
        self._free: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._held = ExitStack()

    def __enter__(self) -> ExportPool:
        with ExitStack() as held:
            # The pool of workers is left before the pool of threads, so that ^C does not wait for an answer.
            self._threads = held.enter_context(ThreadPoolExecutor(self._count))
            for worker in held.enter_context(worker_pool(SERVICE, self._count)):
                self._free.put(worker)
            held.callback(self._stop.set)
            self._held = held.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    def workload(self, module_json: str) -> WorkloadLine | None:
        """The line of a workload; None for one that TVM cannot read, or that brings it down."""
        worker = self._free.get()
        try:
            line: WorkloadLine | None = self._ask(worker, WorkloadRequest(module_json), _REQUEST_TIMEOUT_S)
            return line
        except (WorkerDied, WorkerTimeout):
            return None
        finally:
            self._free.put(worker)

    def records(self, requests: Iterable[RecordsRequest]) -> Iterator[Records]:
        """Yields the records of each request, in order; at most two requests per process are under way."""
        under_way: deque[Future[Records]] = deque()
        try:
            for request in requests:
                under_way.append(self._threads.submit(self._records, request))
                if len(under_way) >= 2 * self._count:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            for future in under_way:
                future.cancel()

    def _records(self, request: RecordsRequest) -> Records:
        worker = self._free.get()
        try:
            found: Records = self._ask(worker, request, _REQUEST_TIMEOUT_S)
            return found
        except (WorkerDied, WorkerTimeout):
            return [self._one(worker, replace(request, programs=(p,))) for p in request.programs]
        finally:
            self._free.put(worker)

    def _one(self, worker: Worker, request: RecordsRequest) -> str | None:
        if self._stop.is_set():
            return None
        try:
            found: Records = self._ask(worker, request, _RECORD_TIMEOUT_S)
        except (WorkerDied, WorkerTimeout):
            return None
        return found[0]

    @staticmethod
    def _ask(worker: Worker, request: WorkloadRequest | RecordsRequest, timeout_s: float) -> Any:
        """Lets a new child import TVM outside the time limit of a record, then asks it."""
        if not worker.is_warm:
            worker.call(WorkloadRequest(), timeout_s=worker.start_timeout_s)
            worker.is_warm = True
        return worker.call(request, timeout_s=timeout_s)
