"""Provides Child: a child process that runs any function by its name, within limits of time and memory."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, Pipe
from typing import IO, Any

from costhub.errors import MeasureError
from costhub.isolation.limits import Limits

READY = "ready"
# A child whose end of the pipe is closed is given this long to end, so that its exit code can be told.
END_TIMEOUT_S = 10.0
# A child that is killed while it starts is no reason to give up; one that cannot start dies every time.
START_ATTEMPTS = 3
# With -m or -c Python searches the current folder first, and that may be one with files from strangers.
CHILD_CODE = """
import sys
sys.path[:] = [p for p in sys.path if p]
from costhub.isolation.child import main
main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4])
"""


class ChildDied(Exception):
    """The child process ended while it had a request; the message ends with what it last printed."""


class ChildKilled(ChildDied):
    """We ended the child process, from another thread: it is not to be started again."""


class ChildTimeout(Exception):
    """The child process did not answer in time and was killed."""


@dataclass(frozen=True)
class _Process:
    """A running child process, our end of its pipe, and what it prints."""

    process: subprocess.Popen[bytes]
    connection: Connection
    printed: IO[bytes]
    limits: Limits

    @classmethod
    def launch(cls, service: str, environment: Mapping[str, str], limits: Limits) -> _Process:
        ours, theirs = Pipe()
        # What native code prints before it dies is the only explanation of a crash, so it is kept in a file.
        printed = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        told = json.dumps(asdict(limits))
        process = subprocess.Popen(
            [sys.executable, "-c", CHILD_CODE, str(theirs.fileno()), service, str(os.getpid()), told],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=printed,
            env={**os.environ, **environment},
            # A group of its own, so that what it has started itself (a linker) ends with it.
            start_new_session=True,
        )
        theirs.close()
        return cls(process, ours, printed, limits)

    def last_words(self) -> str:
        """How the child ended, and the end of what it printed."""
        signal_name = None
        try:
            code = self.process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            how = "hung up without ending"
        else:
            signal_name = _signal_name(-code) if code < 0 else None
            how = "ended (" + (f"killed by {signal_name}" if signal_name else f"exit code {code}") + ")"
        self.printed.seek(max(0, self.printed.seek(0, os.SEEK_END) - 2000))
        said = self.printed.read().decode(errors="replace").strip()
        limit = self.limits.broken(signal_name, said) or ""
        return " ".join(filter(None, [f"the child process {how}.", limit, said]))

    def signal(self, number: int) -> None:
        # The group of a child that has ended may belong to someone else by now.
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def kill(self) -> None:
        self.connection.close()
        self.signal(signal.SIGKILL)
        self.process.wait()
        self.printed.close()


class Worker:
    """One child process running `service`, given as ``"module:function"``.

    The function maps a request to a reply. The time limit of a request never counts the start of the
    process: `start` waits until the service's module is imported. A dead or killed worker is started again
    by its next `send`. The child ends with the thread that started it, so start it from one that stays.

    Args:
        service: ``"module:function"``.
        start_timeout_s: limit of the service's import.
        environment: variables that the child gets besides the parent's.
        limits: what the child may take; its processor time is counted anew for each request, the first one,
            which loads TVM, included.

    Example:
        >>> with Worker("costhub.isolation.child:echo") as worker:
        ...     worker.call({"n": 1}, timeout_s=60)
        {'n': 1}
    """

    def __init__(
        self,
        service: str,
        *,
        start_timeout_s: float = 180.0,
        environment: Mapping[str, str] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.service = service
        self.start_timeout_s = start_timeout_s
        self.environment = dict(environment or {})
        self.limits = limits or Limits()
        self._child: _Process | None = None
        self._ready = False
        self.is_warm = False
        """Whether this child has answered `warm_up`; False again for every new child."""

    def __enter__(self) -> Worker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def connection(self) -> Connection | None:
        """Our end of the pipe, to wait for several workers at once; None where there is no child."""
        return self._child.connection if self._child else None

    @property
    def pid(self) -> int | None:
        """The child's process id; None where there is no child."""
        return self._child.process.pid if self._child else None

    def launch(self) -> None:
        """Starts the child without waiting for its imports, so that several can start side by side."""
        self._launched()

    def _launched(self) -> _Process:
        """The child, a new one where there is none that runs."""
        if self._child is None or self._child.process.poll() is not None:
            self.kill()
            self._child = _Process.launch(self.service, self.environment, self.limits)
        return self._child

    def start(self) -> None:
        """Starts the child if it is not running and waits until it has imported its service.

        Raises:
            MeasureError: the child died or did not become ready within `start_timeout_s`.
        """
        self._started()

    def _started(self) -> _Process:
        child = self._launched()
        if self._ready:
            return child
        try:
            reply = self._first_reply()
        except (ChildDied, ChildTimeout) as error:
            raise MeasureError(
                f"The child process for {self.service} did not start: {error} Run the command again; if it "
                "persists, check that TVM imports in this environment (python -c 'import tvm')."
            ) from error
        if reply != READY:
            self.kill()
            raise MeasureError(f"The child process for {self.service} could not import it: {reply}")
        self._ready = True
        return self._launched()

    def _first_reply(self) -> Any:
        for _ in range(START_ATTEMPTS - 1):
            try:
                return self.receive(timeout_s=self.start_timeout_s)
            except ChildKilled:
                raise
            except ChildDied:
                self._launched()
        return self.receive(timeout_s=self.start_timeout_s)

    def warm_up(self, request: Any) -> None:
        """Starts the child and lets it answer `request` before all others; once for every child.

        Raises what `start` does, and what `receive` does where it happens every time.
        """
        for attempt in range(START_ATTEMPTS):
            if self.is_warm:
                return
            try:
                self.call(request, timeout_s=self.start_timeout_s)
                self.is_warm = True
            except ChildDied as death:
                if attempt == START_ATTEMPTS - 1 or isinstance(death, ChildKilled):
                    raise

    def send(self, request: Any) -> None:
        """Gives the child a request; `receive` fetches the reply."""
        child = self._started()
        # A child that died meanwhile is noticed by receive, which has the words it died with.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            child.connection.send(request)

    def receive(self, *, timeout_s: float) -> Any:
        """Waits for the reply to the last request.

        Raises:
            WorkerDied: the child ended (crash, out of memory, killed).
            WorkerTimeout: no reply within `timeout_s` seconds; the child is killed.
        """
        child = self._child
        if child is None:
            raise ChildKilled("the child process is not running.")
        try:
            if not child.connection.poll(max(0.0, timeout_s)):
                self.kill()
                raise ChildTimeout(f"no answer within {timeout_s:g} s.")
            return child.connection.recv()
        except (EOFError, OSError):  # OSError: it ended in the middle of a reply, or the pipe is closed
            if self._child is not child:
                raise ChildKilled("the child process was killed from another thread.") from None
            message = child.last_words()
            self.kill()
            raise ChildDied(message) from None

    def call(self, request: Any, *, timeout_s: float) -> Any:
        """Sends a request and waits for its reply; raises what `receive` raises."""
        try:
            self.send(request)
            return self.receive(timeout_s=timeout_s)
        except BaseException:
            # After ^C the request is still under way; its late reply must not meet the next one.
            self.kill()
            raise

    def freeze(self) -> None:
        """Stops the child and what it has started where they stand; do not `send` to it until `thaw`."""
        if self._child:
            self._child.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Lets a frozen child go on."""
        if self._child:
            self._child.signal(signal.SIGCONT)

    def kill(self) -> None:
        """Ends the child at once; harmless when there is none."""
        child, self._child = self._child, None
        self._ready = self.is_warm = False
        if child is not None:
            child.kill()


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


def die_with_parent(parent: int) -> None:
    """Ends this process when its parent ends, and at once where it has already."""
    # A collector killed with -9 must not leave a kernel running that disturbs the next one.
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)  # 1 = PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)


def _signal_name(number: int) -> str:
    return next((s.name for s in signal.Signals if s.value == number), f"signal {number}")


def _load(service: str) -> Callable[[Any], Any]:
    module, _, function = service.partition(":")
    handler: Callable[[Any], Any] = getattr(importlib.import_module(module), function)
    return handler


def main(fd: int, service: str, parent: int, told: str) -> None:
    """The child's loop: import the service, say so, then answer until the parent hangs up."""
    die_with_parent(parent)
    limits = Limits(**json.loads(told))
    limits.apply()
    # ^C and a request to end belong to the parent, which decides whether the row in flight is finished; both
    # may reach the whole group of processes.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
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
            limits.allow_cpu()
            connection.send(handler(request))
