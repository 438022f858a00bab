"""Provides featurise: computes the features of many programs in child processes."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

from costhub.dataset.features.service import SERVICE, FeatureRequest
from costhub.dataset.programs import FloatArray
from costhub.worker import Worker, WorkerDied, WorkerTimeout, worker_pool

CHUNK_PROGRAMS = 64
_MAX_WORKERS = 16
# Generous: a machine that is busy with other things needs minutes for what takes a second when it is idle.
_WARM_TIMEOUT_S = 180.0
_CHUNK_TIMEOUT_S = 180.0
_PROGRAM_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Chunk:
    """Programs of one workload and one target, whose features are computed in one request."""

    module_json: str
    target: str
    record_ids: tuple[str, ...]
    traces: tuple[str, ...]


Features = list[FloatArray | None]


def featurise(
    chunks: Sequence[Chunk], *, workers: int | None = None
) -> Generator[tuple[Chunk, Features], None, None]:
    """Computes the features of every program, and yields chunks as they are done, in any order.

    Args:
        chunks: The programs.
        workers: Child processes; one per core by default.

    Yields:
        A chunk, and for each of its programs a (rows, 172) array, or None where TVM cannot compute it.

    Raises:
        MeasureError: A child process does not start at all.
    """
    if not chunks:
        return
    count = min(workers or os.cpu_count() or 1, len(chunks), _MAX_WORKERS)
    stop = threading.Event()
    free: queue.SimpleQueue[Worker] = queue.SimpleQueue()

    def run(chunk: Chunk) -> tuple[Chunk, Features]:
        worker = free.get()
        try:
            return chunk, _features(worker, chunk, stop)
        finally:
            free.put(worker)

    # The pool of workers is left before the pool of threads, so that ^C does not wait for an answer.
    with ThreadPoolExecutor(count) as threads, worker_pool(SERVICE, count) as pool:
        for worker in pool:
            free.put(worker)
        futures = [threads.submit(run, chunk) for chunk in chunks]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            stop.set()
            for future in futures:
                future.cancel()


def _features(worker: Worker, chunk: Chunk, stop: threading.Event) -> Features:
    try:
        _warm(worker, chunk)
        return _ask(worker, chunk, chunk.traces, _CHUNK_TIMEOUT_S)
    except (WorkerDied, WorkerTimeout):
        if stop.is_set():
            return []
    try:
        _warm(worker, chunk)
    except (WorkerDied, WorkerTimeout):
        # The workload itself brings TVM down: its programs need not be tried.
        return [None] * len(chunk.traces)
    found: Features = []
    for trace in chunk.traces:
        if stop.is_set():
            break
        found.append(_one(worker, chunk, trace))
    return found


def _one(worker: Worker, chunk: Chunk, trace: str) -> FloatArray | None:
    try:
        _warm(worker, chunk)
        return _ask(worker, chunk, (trace,), _PROGRAM_TIMEOUT_S)[0]
    except (WorkerDied, WorkerTimeout):
        return None


def _warm(worker: Worker, chunk: Chunk) -> None:
    """Lets a new child import TVM and parse intrinsics outside the time limit of a program."""
    if not worker.is_warm:
        _ask(worker, chunk, (), _WARM_TIMEOUT_S)
        worker.is_warm = True


def _ask(worker: Worker, chunk: Chunk, traces: tuple[str, ...], timeout_s: float) -> Features:
    request = FeatureRequest(chunk.module_json, chunk.target, traces)
    reply: Features = worker.call(request, timeout_s=timeout_s)
    return reply
