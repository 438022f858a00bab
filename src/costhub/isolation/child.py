"""Provides Child: a child process that runs any function by name, within limits of time and memory.

TVM work is done in such children, so that a program that crashes, hangs or exhausts memory costs
only its own row. The parent talks to the child over a private pair of pipes; nothing from
outside this machine reaches them, which is why plain pickles are used there and nowhere else.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pickle
import signal
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from costhub.errors import CosthubError, MeasureError, class_and_line
from costhub.isolation.limits import Limits
from costhub.isolation.process import (
    WITHOUT_TORCH,
    CallFailed,
    ChildDied,
    ChildError,
    ChildKilled,
    ChildProcess,
    ChildTimeout,
    keep_idle,
    key_of,
    move_in,
    take_idle,
)

__all__ = ["WITHOUT_TORCH", "CallFailed", "Child", "ChildDied", "ChildError", "ChildKilled", "ChildTimeout"]

# A child killed during start-up may be an accident; a child that cannot start dies every time.
START_ATTEMPTS = 3

Result = TypeVar("Result")


class ChildTraceback(Exception):
    """Traceback of a failure in the child; the cause of the exception that `Child.call` raises."""


class Child:
    """A child process that runs functions, one at a time.

    A function is sent by name, as in `concurrent.futures`: it must be at the top level of a module
    that the child can import. Its arguments and result are pickled. A built-in exception or one of
    costhub's is re-raised here unchanged, any other as `CallFailed`. The time limit of a call includes neither the
    start of the process, nor the import of the function's module, nor the time for which the child is frozen.

    The process starts with the first call, and restarts with the next one if it was killed or died. After
    `close` it waits for the next `Child` with equal limits and environment, keeping its imports: functions
    should leave nothing else behind, or else `is_shared` must be False.

    Args:
        prepare: Called first in the child, outside any time limit except that of the start: setup that every
            call needs, such as importing TVM.
        environment: Variables for the process in addition to ours.
        limits: Resources the process may use; its processor time is counted afresh for each call.
        is_shared: Whether the process may have served another `Child`, and may serve the next one.
        most_calls: The process is replaced after this many calls.
        start_timeout_s: Time limit for starting.
        idle_s: How long the process waits for another `Child` after `close`; by default a minute.

    Example:
        >>> with Child() as child:
        ...     child.call(sorted, [3, 1, 2], timeout_s=60)
        [1, 2, 3]
    """

    def __init__(
        self,
        *,
        prepare: Callable[[], object] | None = None,
        environment: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        is_shared: bool = True,
        most_calls: int | None = None,
        start_timeout_s: float = 180.0,
        idle_s: float | None = None,
    ) -> None:
        self.environment = dict(environment or {})
        self.limits = limits or Limits()
        self.is_shared = is_shared
        self.most_calls = most_calls
        self.start_timeout_s = start_timeout_s
        self.idle_s = idle_s
        self._prepare = prepare
        self._process: ChildProcess | None = None
        self._is_prepared = self._is_answering = self._is_closed = False
        self._begun: list[Callable[[], object]] = []
        """What the process does to get ready, after which nobody has asked yet whether it is."""
        self._frozen_at: float | None = None
        self._frozen_s = 0.0
        # Guards changes of the process; never held while it works.
        self._lock = threading.RLock()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The process id; None before the first start, and once its end has been noticed."""
        return self._process.process.pid if self._process else None

    @property
    def cpu_s(self) -> float:
        """Processor seconds that the process has used since it started; 0 if there is none."""
        process = self._process
        return 0.0 if process is None else process.cpu_s

    @property
    def is_running(self) -> bool:
        """Whether there is a process that has not ended."""
        process = self._process
        return process is not None and process.is_running

    def time(self) -> float:
        """Seconds on a clock that stops while the child is frozen."""
        now = time.monotonic() if self._frozen_at is None else self._frozen_at
        return now - self._frozen_s

    def prepare(self, function: Callable[[], object]) -> None:
        """Sets the function to call first, also in the current process if it is running."""
        self._prepare, self._is_prepared = function, False

    def launch(self) -> None:
        """Starts the process, which gets ready while nobody waits for it, so that several can do so in parallel.

        What goes wrong meanwhile is told by `start`, or by the next call, which try again.
        """
        with contextlib.suppress(OSError):
            self._begin(self._launched())

    def start(self) -> None:
        """Starts the process if it is not running, and waits until it is ready for a call.

        Raises:
            MeasureError: It died or did not become ready within `start_timeout_s`; `__cause__` has the details.
            CosthubError: Any of costhub's own errors raised by `prepare`.
        """
        for attempt in range(START_ATTEMPTS):
            try:
                return self._get_ready(self._launched())
            except CosthubError:
                raise
            except Exception as error:
                if attempt + 1 < START_ATTEMPTS and type(error) is ChildDied:
                    continue
                raise MeasureError(
                    f"A child process did not start: {error} Run the command again; if it persists, check that "
                    "TVM imports in this environment (python -c 'import tvm')."
                ) from error

    def call(self, function: Callable[..., Result], *args: Any, timeout_s: float = 10.0) -> Result:
        """Runs a function in the child; use `functools.partial` for keyword arguments.

        Args:
            function: A function at the top level of a module.
            args: Its arguments.
            timeout_s: Time limit of the call.

        Raises:
            ChildDied: The process ended: it crashed, ran out of memory or was killed.
            ChildTimeout: The function took longer, and the process was killed.
            CallFailed: The function raised an exception of a library.
            MeasureError: The process cannot be started, or cannot import the function's module.
        """
        try:
            self.send(function, *args)
            result: Result = self.receive(timeout_s=timeout_s)
            return result
        finally:
            if self._is_answering:  # ^C: the late answer must not reach the next call
                self.kill()

    def send(self, function: Callable[..., object], *args: Any) -> None:
        """Starts a call in the child; `receive` waits for its result. Raises the same errors as `start`."""
        message = pickle.dumps((function, args), pickle.HIGHEST_PROTOCOL)
        self.start()
        module = _module_of(function)
        process = self._launched()
        if module not in process.imported:
            try:
                self._exchange(process, _import, module)
            except ChildError as error:
                raise MeasureError(f"A child process could not import {module}: {error}") from error
            except ImportError as error:
                raise MeasureError(f"A child process could not import {module}: {class_and_line(error)}") from error
            process.imported.add(module)
        process.calls += 1
        self._send(process, message)

    def receive(self, *, timeout_s: float | None) -> Any:
        """Waits for the result of the call that was sent; with None, for as long as it takes.

        Raises:
            ChildDied: The process ended.
            ChildTimeout: No result arrived within `timeout_s`, and the process was killed.
            Exception: Whatever the function raised.
        """
        process = self._process
        if process is None:
            raise ChildKilled("the child process is not running.")
        return self._receive(process, timeout_s)

    def freeze(self) -> None:
        """Suspends the child and everything it has started. A call sent before continues at `thaw`."""
        if self._frozen_at is None:
            self._frozen_at = time.monotonic()
        if self._process:
            self._process.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Resumes a frozen child."""
        if self._frozen_at is not None:
            self._frozen_s += time.monotonic() - self._frozen_at
            self._frozen_at = None
        if self._process:
            self._process.signal(signal.SIGCONT)

    def kill(self) -> None:
        """Ends the process immediately; does nothing if there is none. The next call starts a new one."""
        with self._lock:
            process, self._process = self._process, None
            self._is_prepared = self._is_answering = False
            self._begun.clear()
        if process is not None:
            process.kill()

    def close(self) -> None:
        """Releases the process for good; a call from another thread ends with `ChildKilled`."""
        with self._lock:
            self._is_closed = True
            process = self._process
            is_busy = self._is_answering or bool(self._begun)
            if process is None or is_busy or not self.is_shared or self._frozen_at is not None:
                return self.kill()
            self._process = None
        if process.is_running:
            keep_idle(process, self.idle_s)
        else:
            process.kill()

    def _launched(self) -> ChildProcess:
        """The process; a new one if none is running."""
        with self._lock:
            if self._is_closed:
                raise ChildKilled("the child process was closed.")
            if not self.is_running or (self._is_worn(self._process) and not self._is_answering):
                self.kill()
                self._process = self._adopted() or ChildProcess.launch(self.limits, self.environment)
            assert self._process is not None  # noqa: S101 - for mypy
            return self._process

    def _adopted(self) -> ChildProcess | None:
        """An idle process that fits."""
        while self.is_shared and (process := take_idle(key_of(self.limits, self.environment))):
            if not self._is_worn(process):
                return process
            process.kill()
        return None

    def _is_worn(self, process: ChildProcess | None) -> bool:
        return process is not None and self.most_calls is not None and process.calls >= self.most_calls

    def _begin(self, process: ChildProcess) -> None:
        """Has the process do what makes it ready, unless it does or has done that."""
        if self._is_prepared or self._begun:
            return
        steps: list[Callable[[], object]] = []
        if process.was_idle:
            steps.append(partial(move_in, {**os.environ, **self.environment}, os.getcwd()))
        if self._prepare is not None:
            steps.append(self._prepare)
        for step in steps:
            self._send(process, pickle.dumps((step, ()), pickle.HIGHEST_PROTOCOL))
            self._begun.append(step)
        self._is_prepared = not steps

    def _get_ready(self, process: ChildProcess) -> None:
        try:
            while not self._is_prepared:
                self._begin(process)
                last = None
                while self._begun:
                    self._receive(process, self.start_timeout_s)
                    last = self._begun.pop(0)
                # Another function may have been set in the meantime.
                self._is_prepared = self._prepare is None or last is self._prepare
        except BaseException:
            self.kill()
            raise

    def _exchange(self, process: ChildProcess, function: Callable[..., object], *args: Any) -> None:
        try:
            self._send(process, pickle.dumps((function, args), pickle.HIGHEST_PROTOCOL))
            self._receive(process, self.start_timeout_s)
        except BaseException:
            self.kill()
            raise

    def _send(self, process: ChildProcess, message: bytes) -> None:
        with self._lock:
            if self._process is not process:
                raise ChildKilled("the child process was killed from another thread.")
            self._is_answering = True
        # A child that died meanwhile is noticed by `_receive`, which has its last output.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            process.connection.send_bytes(message)

    def _receive(self, process: ChildProcess, timeout_s: float | None) -> Any:
        try:
            if not self._has_answer(process, timeout_s):
                used = process.cpu_s
                self.kill()
                raise ChildTimeout(f"no answer within {timeout_s:g} s.", used)
            message = process.connection.recv_bytes()
        except (EOFError, OSError):  # OSError: it ended halfway through an answer, or the pipe is closed
            if self._process is not process:
                raise ChildKilled("the child process was killed from another thread.") from None
            words = process.last_words()
            self.kill()
            raise ChildDied(words) from None
        self._is_answering = False
        result, error, where = pickle.loads(message)  # noqa: S301 - from our child, over a private pipe
        if error is not None:
            raise error from ChildTraceback(f"\n{where}")
        return result

    def _has_answer(self, process: ChildProcess, timeout_s: float | None) -> bool:
        if timeout_s is None:
            return process.connection.poll(None)
        end = self.time() + timeout_s
        while (left_s := end - self.time()) > 0:
            # While the child is frozen a wait does not bring the deadline any closer.
            if process.connection.poll(left_s if self._frozen_at is None else max(left_s, 0.1)):
                return True
        return process.connection.poll(0.0)


def _module_of(function: Callable[..., object]) -> str:
    while isinstance(function, partial):
        function = function.func
    # For methods of classes and built-in methods, the module is that of their owner.
    return getattr(function, "__module__", None) or type(getattr(function, "__self__", function)).__module__


def _import(module: str) -> None:
    importlib.import_module(module)
