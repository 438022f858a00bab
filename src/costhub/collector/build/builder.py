"""Provides Builder: build workers that import TVM once and stay, and can be frozen while something is timed.

TVM's LocalBuilder starts a new pool for every batch, whose processes spend about 16 s importing before the first
kernel compiles, with the build's time limit already running. Here each process imports once, and a build's limit
starts when the request is sent to a process that is ready.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from types import TracebackType

from costhub.collector.build.build_service import NO_SECONDS, BuildReply, BuildRequest, BuildSeconds
from costhub.collector.build.scratch import ScratchFolder
from costhub.errors import MeasureError
from costhub.isolation.child import ChildDied, ChildTimeout, Worker
from costhub.isolation.limits import Limits

# LLVM and TVM never give all memory back; a process is replaced after this many builds.
BUILDS_PER_PROCESS = 1000
# Processor time beside a build's: loading TVM with the intrinsics of a GPU takes 16 s of it.
CPU_ALLOWANCE_S = 60.0


@dataclass(frozen=True)
class BuildResult:
    """The result of building one module."""

    status: str
    """``ok``, ``build_error`` or ``build_timeout``."""
    artifact: str | None
    build_s: float
    error: str | None
    seconds: BuildSeconds = NO_SECONDS
    """Where `build_s` went."""

    def remove(self) -> None:
        """Removes the artifact with its folder."""
        if self.artifact is not None:
            shutil.rmtree(os.path.dirname(self.artifact), ignore_errors=True)


class Builder:
    """A pool of build processes.

    Args:
        target: The TVM target, as JSON.
        processes: How many build at once; the number of cores by default.
        timeout_s: Limit of one build; neither start-up nor the time it was frozen counts.
        limits: What each process may take; by default its share of the memory, and processor time for a few
            time limits.

    Example:
        >>> builder = Builder('{"kind": "llvm", "num-cores": 2}', processes=1)
        >>> builder.build([])
        []
        >>> builder.close()
    """

    def __init__(
        self,
        target: str,
        *,
        processes: int | None = None,
        timeout_s: float = 10.0,
        limits: Limits | None = None,
    ) -> None:
        self.target = target
        self.timeout_s = timeout_s
        self.processes = processes or os.cpu_count() or 1
        self._scratch = ScratchFolder()
        self._workers = [
            Worker(
                "costhub.collector.build.build_service:handle",
                # What a linker that is killed leaves behind goes with the folder.
                environment={"TMPDIR": str(self._scratch.path)},
                limits=limits or Limits.share(self.processes, cpu_s=CPU_ALLOWANCE_S + 2 * timeout_s),
            )
            for _ in range(self.processes)
        ]
        self._served = dict.fromkeys(self._workers, 0)
        self._free: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        for worker in self._workers:
            self._free.put(worker)
        self._threads = ThreadPoolExecutor(self.processes, thread_name_prefix="costhub-build")
        self._numbers = count(1)
        self._changed = threading.Condition()
        self._frozen_at: float | None = None
        self._frozen_s = 0.0
        self._closed = False

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
        """Ends the processes and removes their files; what is still to build is cancelled."""
        with self._changed:
            self._closed, self._frozen_at = True, None
            self._changed.notify_all()
        self._end_processes()
        self._threads.shutdown(cancel_futures=True)
        # Once more: a thread may just have replaced a process that was killed.
        self._end_processes()
        self._scratch.close()

    def _end_processes(self) -> None:
        for worker in self._workers:
            worker.kill()

    def build(self, modules: Sequence[str]) -> list[BuildResult]:
        """Compiles scheduled modules (TVM JSON) and returns one result per module, in order.

        The caller removes each artifact with its folder.

        Raises:
            MeasureError: A build process cannot be started, or not for this target.
        """
        futures = [self.submit(module) for module in modules]
        try:
            return [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            self._end_processes()
            raise

    def submit(self, module: str) -> Future[BuildResult]:
        """Starts to compile one scheduled module (TVM JSON), after those submitted before it.

        The future raises MeasureError where a build process cannot be started, or not for this target.
        """
        return self._threads.submit(self._build, module)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Stops the processes where they stand, in the middle of a build, while the block runs."""
        with self._changed:
            self._frozen_at = time.monotonic()
            for worker in self._workers:
                worker.freeze()
        try:
            yield
        finally:
            with self._changed:
                if self._frozen_at is not None:
                    self._frozen_s += time.monotonic() - self._frozen_at
                self._frozen_at = None
                for worker in self._workers:
                    worker.thaw()
                self._changed.notify_all()

    def _build(self, module: str) -> BuildResult:
        worker = self._free.get()
        # A folder for each: TVM's RemoveBuildArtifact callback deletes the folder an artifact lies in.
        folder = os.path.join(self._scratch.path, str(next(self._numbers)))
        try:
            self._prepare(worker)
            os.mkdir(folder)
            built = self._outcome(worker, BuildRequest(module, self.target, os.path.join(folder, "program.so")))
        finally:
            self._free.put(worker)
        if built.artifact is None:
            shutil.rmtree(folder, ignore_errors=True)
        return built

    def _prepare(self, worker: Worker) -> None:
        """Makes sure that the process runs and has loaded TVM."""
        if self._served[worker] >= BUILDS_PER_PROCESS:
            worker.kill()
        self._served[worker] += 1
        if worker.is_warm:
            return
        self._served[worker] = 1
        with self._changed:  # a process that starts while others are timed would disturb them
            self._changed.wait_for(lambda: self._frozen_at is None)
            if self._closed:
                raise MeasureError("The builder was closed while a module waited to be built.")
            worker.launch()
        try:
            worker.warm_up(self.target)
        except (ChildDied, ChildTimeout) as error:
            raise MeasureError(f"TVM cannot be prepared to build for {self.target}: {error}") from error

    def _outcome(self, worker: Worker, request: BuildRequest) -> BuildResult:
        start = self._now()
        try:
            worker.send(request)
            self._await_reply(worker, start)
            reply: BuildReply = worker.receive(timeout_s=0.0)
        except ChildTimeout:
            limit = f"killed after {self.timeout_s:g} s of building"
            return BuildResult("build_timeout", None, self.timeout_s, limit)
        except ChildDied as death:
            return BuildResult("build_error", None, self._now() - start, str(death))
        if reply.error is not None:
            met = worker.limits.broken(None, reply.error)
            reason = " ".join(filter(None, [met, reply.error]))
            return BuildResult("build_error", None, reply.build_s, reason)
        return BuildResult("ok", request.artifact, reply.build_s, None, reply.seconds)

    def _await_reply(self, worker: Worker, start: float) -> None:
        """Waits until there is a reply, the process has died, or its time is over."""
        while True:
            left_s = start + self.timeout_s - self._now()
            connection = worker.connection
            if connection is None or left_s <= 0:
                return
            try:
                if connection.poll(left_s):
                    return
            except OSError:  # it was killed from another thread; receive says so
                return

    def _now(self) -> float:
        """Seconds on a clock that stands still while the processes are frozen."""
        with self._changed:
            return (time.monotonic() if self._frozen_at is None else self._frozen_at) - self._frozen_s
