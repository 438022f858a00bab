"""Provides Worker: a child process that loads a service once and answers one request at a time.

TVM work is done in such children, so that a program that crashes, hangs or exhausts memory costs
its own row and nothing else. The parent speaks to the child over a private pair of pipes; nothing from
outside this machine reaches them, which is why plain pickles are used there and nowhere else.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, Pipe
from typing import IO, Any

from costhub.errors import MeasureError

READY = "ready"


class WorkerDied(Exception):
    """The child process ended while it had a request; the message ends with what it last printed."""


class WorkerTimeout(Exception):
    """The child process did not answer in time and was killed."""


class Worker:
    """One child process running `service`, given as ``"module:function"``; the function maps a request to a reply.

    The time limit of a request never counts the start of the process: `start` waits until the service's module
    is imported. A dead or killed worker is started again by its next `send`.

    Example:
        >>> with Worker("costhub.worker:echo") as worker:
        ...     worker.call({"n": 1}, timeout_s=60)
        {'n': 1}
    """

    def __init__(self, service: str, *, start_timeout_s: float = 180.0) -> None:
        self.service = service
        self.start_timeout_s = start_timeout_s
        self.connection: Connection | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr: IO[bytes] | None = None
        self._ready = False
        self.is_warm = False
        """Free for the caller: whether this child has been prepared; False again for every new child."""

    def __enter__(self) -> Worker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def launch(self) -> None:
        """Starts the child without waiting for its imports, so that several can start side by side."""
        if self._process is not None and self._process.poll() is None:
            return
        self.kill()
        ours, theirs = Pipe()
        # What native code prints before it dies is the only explanation of a crash, so it is kept in a file.
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        self._process = subprocess.Popen(
            [sys.executable, "-m", "costhub.worker", str(theirs.fileno()), self.service, str(os.getpid())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self._stderr,
            stderr=self._stderr,
        )
        theirs.close()
        self.connection = ours
        self._ready = self.is_warm = False

    def start(self) -> None:
        """Starts the child if it is not running and waits until it has imported its service.

        Raises:
            MeasureError: the child died or did not become ready within `start_timeout_s`.
        """
        self.launch()
        if self._ready:
            return
        try:
            reply = self.receive(timeout_s=self.start_timeout_s)
        except (WorkerDied, WorkerTimeout) as error:
            raise MeasureError(
                f"The child process for {self.service} did not start: {error} Run the command again; if it persists, "
                "check that TVM imports in this environment (python -c 'import tvm')."
            ) from error
        if reply != READY:
            self.kill()
            raise MeasureError(f"The child process for {self.service} could not import it: {reply}")
        self._ready = True

    def send(self, request: Any) -> None:
        """Gives the child a request; `receive` fetches the reply."""
        self.start()
        assert self.connection is not None
        # A child that died meanwhile is noticed by receive, which has the words it died with.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send(request)

    def receive(self, *, timeout_s: float) -> Any:
        """Waits for the reply to the last request.

        Raises:
            WorkerDied: the child ended (crash, out of memory, killed).
            WorkerTimeout: no reply within `timeout_s` seconds; the child is killed.
        """
        if self.connection is None:
            raise WorkerDied("the child process is not running.")
        if not self.connection.poll(max(0.0, timeout_s)):
            self.kill()
            raise WorkerTimeout(f"no answer within {timeout_s:g} s.")
        try:
            return self.connection.recv()
        except (EOFError, ConnectionResetError):
            message = self._last_words()
            self.kill()
            raise WorkerDied(message) from None

    def call(self, request: Any, *, timeout_s: float) -> Any:
        """Sends a request and waits for its reply; raises what `receive` raises."""
        self.send(request)
        return self.receive(timeout_s=timeout_s)

    def restart(self) -> None:
        """Kills the child and starts a fresh one."""
        self.kill()
        self.start()

    def kill(self) -> None:
        """Ends the child at once; harmless when there is none."""
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            self._ready = self.is_warm = False
        if self._stderr is not None:
            self._stderr.close()
            self._stderr = None

    def _last_words(self) -> str:
        assert self._process is not None
        assert self._stderr is not None
        code = self._process.wait()
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        self._stderr.seek(max(0, self._stderr.seek(0, os.SEEK_END) - 2000))
        said = self._stderr.read().decode(errors="replace").strip()
        return f"the child process ended ({how}). {said}".strip()


def echo(request: Any) -> Any:
    """Answers each request with itself; the service used by examples and tests."""
    if isinstance(request, dict) and "sleep_s" in request:
        time.sleep(request["sleep_s"])
    if isinstance(request, dict) and "exit" in request:
        os._exit(int(request["exit"]))
    return request


@contextlib.contextmanager
def worker_pool(service: str, count: int) -> Iterator[list[Worker]]:
    """`count` started workers, importing side by side; killed on leaving."""
    workers = [Worker(service) for _ in range(count)]
    try:
        for worker in workers:
            worker.launch()
        for worker in workers:
            worker.start()
        yield workers
    finally:
        for worker in workers:
            worker.kill()


def _die_with_parent(parent: int) -> None:
    # A collector killed with -9 must not leave a kernel running that disturbs the next one.
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)  # 1 = PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)


def _load(service: str) -> Callable[[Any], Any]:
    module, _, function = service.partition(":")
    handler: Callable[[Any], Any] = getattr(importlib.import_module(module), function)
    return handler


def main(fd: int, service: str, parent: int) -> None:
    """The child's loop: import the service, say so, then answer until the parent hangs up."""
    _die_with_parent(parent)
    # ^C belongs to the parent, which decides whether the row in flight is finished.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = Connection(fd)
    try:
        handler = _load(service)
    except Exception as error:
        connection.send(f"{type(error).__name__}: {error}")
        return
    connection.send(READY)
    with contextlib.suppress(EOFError, ConnectionResetError, BrokenPipeError):
        while True:
            request = connection.recv()
            connection.send(handler(request))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
