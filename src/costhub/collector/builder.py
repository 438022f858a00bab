"""Provides Builder: build workers that import TVM once and stay.

TVM's LocalBuilder starts a new pool for every batch, whose processes spend about 16 s importing before the
first kernel compiles, with the build's time limit already running. Here each process imports once, and a
build's limit starts when the request is sent to a process that is ready.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from types import TracebackType

from costhub.collector.build_service import BuildReply, BuildRequest
from costhub.errors import MeasureError
from costhub.worker import Worker, WorkerDied, WorkerTimeout

# LLVM and TVM never give all memory back; a process is replaced after this many builds.
BUILDS_PER_PROCESS = 1000


@dataclass(frozen=True)
class Built:
    """What became of one module."""

    status: str
    """``ok``, ``build_error`` or ``build_timeout``."""
    artifact: str | None
    build_s: float
    error: str | None


class Builder:
    """A pool of build processes.

    Args:
        target: the TVM target, as JSON.
        processes: how many build at once; the number of cores by default.
        timeout_s: limit of one build, start-up not counted.

    Example:
        >>> builder = Builder('{"kind": "llvm", "num-cores": 2}', processes=1)
        >>> builder.build([])
        []
    """

    def __init__(self, target: str, *, processes: int | None = None, timeout_s: float = 10.0) -> None:
        self.target = target
        self.timeout_s = timeout_s
        count = processes or os.cpu_count() or 1
        self._workers = [Worker("costhub.collector.build_service:handle") for _ in range(count)]
        self._served = dict.fromkeys(self._workers, 0)
        self._folder = tempfile.mkdtemp(prefix="costhub-build-")
        self._count = 0

    def __enter__(self) -> Builder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def launch(self) -> None:
        """Starts the processes without waiting for them, so that they import side by side."""
        for worker in self._workers:
            worker.launch()

    def close(self) -> None:
        """Ends the processes and removes their files."""
        self._end_processes()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _end_processes(self) -> None:
        for worker in self._workers:
            worker.kill()

    def build(self, modules: Sequence[str]) -> list[Built]:
        """Compiles scheduled modules (TVM JSON) and returns one result per module, in order.

        The caller removes each artifact with its folder.

        Raises:
            MeasureError: a build process cannot be started, or not for this target.
        """
        results: list[Built | None] = [None] * len(modules)
        try:
            for position, built in self._run(deque(enumerate(modules))):
                results[position] = built
        except BaseException:
            # An interrupted batch leaves requests under way; their late replies must not meet the next batch.
            self._end_processes()
            raise
        return [r for r in results if r is not None]

    def _run(self, queue: deque[tuple[int, str]]) -> Iterator[tuple[int, Built]]:
        busy: dict[Worker, tuple[int, str, float]] = {}
        while queue or busy:
            idle = [w for w in self._workers if w not in busy][: len(queue)]
            self.launch()
            for worker in idle:
                position, module = queue.popleft()
                artifact = self._dispatch(worker, module)
                busy[worker] = (position, artifact, time.monotonic())
            yield from self._collect(busy)

    def _dispatch(self, worker: Worker, module: str) -> str:
        if self._served[worker] >= BUILDS_PER_PROCESS:
            worker.kill()
        if not worker.is_warm:
            self._warm_up(worker)
        self._served[worker] += 1
        self._count += 1
        # A folder for each: TVM's RemoveBuildArtifact callback deletes the folder an artifact lies in.
        artifact = os.path.join(self._folder, str(self._count), "program.so")
        os.mkdir(os.path.dirname(artifact))
        worker.send(BuildRequest(module, self.target, artifact))
        return artifact

    def _warm_up(self, worker: Worker) -> None:
        self._served[worker] = 0
        try:
            worker.call(self.target, timeout_s=worker.start_timeout_s)
        except (WorkerDied, WorkerTimeout) as error:
            raise MeasureError(f"TVM cannot be prepared to build for {self.target}: {error}") from error
        worker.is_warm = True

    def _collect(self, busy: dict[Worker, tuple[int, str, float]]) -> Iterator[tuple[int, Built]]:
        """Waits for the next replies or time-outs."""
        deadline = min(sent for _, _, sent in busy.values()) + self.timeout_s
        ready = wait(
            [w.connection for w in busy if w.connection], timeout=max(0.0, deadline - time.monotonic())
        )
        for worker, (position, artifact, sent) in list(busy.items()):
            late = time.monotonic() - sent >= self.timeout_s
            if worker.connection in ready or late:
                # Off the list first: whatever happens to the worker now is answered here.
                del busy[worker]
                yield position, self._reply(worker, artifact, sent)

    def _reply(self, worker: Worker, artifact: str, sent: float) -> Built:
        built = self._outcome(worker, artifact, sent)
        if built.artifact is None:
            shutil.rmtree(os.path.dirname(artifact), ignore_errors=True)
        return built

    def _outcome(self, worker: Worker, artifact: str, sent: float) -> Built:
        try:
            reply: BuildReply = worker.receive(timeout_s=0.0)
        except WorkerTimeout:
            limit = f"killed after {self.timeout_s:g} s of building"
            return Built("build_timeout", None, time.monotonic() - sent, limit)
        except WorkerDied as death:
            return Built("build_error", None, time.monotonic() - sent, str(death))
        if reply.error is not None:
            return Built("build_error", None, reply.build_s, reply.error)
        return Built("ok", artifact, reply.build_s, None)
