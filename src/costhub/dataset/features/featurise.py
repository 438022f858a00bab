"""Provides featurise: computes the features of many programs in child processes."""

from __future__ import annotations

import itertools
import os
import queue
import threading
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass

from costhub.dataset.features.service import SERVICE, FeatureRequest
from costhub.dataset.features.spec import Features, FeatureSpec
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


def featurise(
    chunks: Iterable[Chunk], spec: FeatureSpec, *, workers: int | None = None
) -> Generator[tuple[Chunk, Features], None, None]:
    """Computes the features of every program, and yields chunks as they are done, in any order.

    Chunks are taken from `chunks` as they are needed. A spec that needs no TVM is computed in this process.

    Args:
        chunks: The programs.
        spec: The layout of the features.
        workers: Child processes; one per core by default.

    Yields:
        A chunk, and for each of its programs a (rows, width) array, or None where it cannot be computed.

    Raises:
        MeasureError: A child process does not start at all.
    """
    if not spec.needs_tvm:
        for chunk in chunks:
            yield chunk, spec.extract(None, chunk.traces, chunk.target)
        return
    source = iter(chunks)
    first = list(itertools.islice(source, min(workers or os.cpu_count() or 1, _MAX_WORKERS)))
    if first:
        yield from _in_children(itertools.chain(first, source), spec, len(first))


def _in_children(
    chunks: Iterator[Chunk], spec: FeatureSpec, count: int
) -> Generator[tuple[Chunk, Features], None, None]:
    stop = threading.Event()
    free: queue.SimpleQueue[Worker] = queue.SimpleQueue()

    def run(chunk: Chunk) -> tuple[Chunk, Features]:
        worker = free.get()
        try:
            return chunk, _features(worker, chunk, spec, stop)
        finally:
            free.put(worker)

    # The pool of workers is left before the pool of threads, so that ^C does not wait for an answer.
    with ThreadPoolExecutor(count) as threads, worker_pool(SERVICE, count) as pool:
        for worker in pool:
            free.put(worker)
        # One chunk more than there are workers, so that none of them waits for the caller.
        running = {threads.submit(run, chunk) for chunk in itertools.islice(chunks, count + 1)}
        try:
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                running |= {threads.submit(run, chunk) for chunk in itertools.islice(chunks, len(done))}
                for future in done:
                    yield future.result()
        finally:
            stop.set()
            for future in running:
                future.cancel()


def _features(worker: Worker, chunk: Chunk, spec: FeatureSpec, stop: threading.Event) -> Features:
    try:
        _warm(worker, chunk, spec)
        return _ask(worker, chunk, spec, chunk.traces, _CHUNK_TIMEOUT_S)
    except (WorkerDied, WorkerTimeout):
        if stop.is_set():
            return []
    try:
        _warm(worker, chunk, spec)
    except (WorkerDied, WorkerTimeout):
        # The workload itself brings TVM down: its programs need not be tried.
        return [None] * len(chunk.traces)
    found: Features = []
    for trace in chunk.traces:
        if stop.is_set():
            break
        found.append(_one(worker, chunk, spec, trace))
    return found


def _one(worker: Worker, chunk: Chunk, spec: FeatureSpec, trace: str) -> FloatArray | None:
    try:
        _warm(worker, chunk, spec)
        return _ask(worker, chunk, spec, (trace,), _PROGRAM_TIMEOUT_S)[0]
    except (WorkerDied, WorkerTimeout):
        return None


def _warm(worker: Worker, chunk: Chunk, spec: FeatureSpec) -> None:
    """Lets a new child import TVM and parse intrinsics outside the time limit of a program."""
    if not worker.is_warm:
        _ask(worker, chunk, spec, (), _WARM_TIMEOUT_S)
        worker.is_warm = True


def _ask(
    worker: Worker, chunk: Chunk, spec: FeatureSpec, traces: tuple[str, ...], timeout_s: float
) -> Features:
    request = FeatureRequest(chunk.module_json, chunk.target, traces, spec.name)
    reply: Features = worker.call(request, timeout_s=timeout_s)
    return reply
