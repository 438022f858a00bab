"""Provides Child: a child process that runs any function by its name, within limits of time and memory.

TVM work is done in such children, so that a program that crashes, hangs or exhausts memory costs
its own row and nothing else. The parent speaks to the child over a private pair of pipes; nothing from
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

__all__ = ["CallFailed", "Child", "ChildDied", "ChildError", "ChildKilled", "ChildTimeout"]

# One child that is killed while it starts may be an accident; a child that cannot start dies every time.
START_ATTEMPTS = 3

Result = TypeVar("Result")


class ChildTraceback(Exception):
    """Where a function failed in the child; the cause of the exception that `Child.call` raises."""


class Child:
    """A child process that runs functions, one at a time.

    A function is sent by its name, as `concurrent.futures` sends it: it must stand at the top level of a module
    that the child can import. Its arguments and its result are pickled. An exception of Python's own or of
    costhub is raised here as it was there, any other as `CallFailed`. The time limit of a call counts neither the
    start of the process nor the import of the function's module, nor the time for which the child is frozen.

    The process starts with the first call, and again with the next one after it was killed or has died. After
    `close` it waits for the next `Child` of equal limits and environment, with all that it has imported: functions
    should leave nothing else behind, or `is_shared` be False.

    Args:
        prepare: Called in the child before all else, outside any time limit but that of the start: what every
            call needs, such as the import of TVM.
        environment: Variables that the process gets besides ours.
        limits: What the process may take; its processor time is counted anew for each call.
        is_shared: Whether the process may have served another `Child`, and may serve the next one.
        most_calls: The process is replaced after so many.
        start_timeout_s: Limit of the start.

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
    ) -> None:
        self.environment = dict(environment or {})
        self.limits = limits or Limits()
        self.is_shared = is_shared
        self.most_calls = most_calls
        self.start_timeout_s = start_timeout_s
        self._prepare = prepare
        self._process: ChildProcess | None = None
        self._is_prepared = self._is_answering = self._is_closed = False
        self._frozen_at: float | None = None
        self._frozen_s = 0.0
        # Of what changes the process; never held while it works.
        self._lock = threading.RLock()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The process id; None before the first start, and after its end was noticed."""
        return self._process.process.pid if self._process else None

    @property
    def is_running(self) -> bool:
        """Whether there is a process that has not ended."""
        process = self._process
        return process is not None and process.is_running

    def time(self) -> float:
        """Seconds on a clock that stands still while the child is frozen."""
        now = time.monotonic() if self._frozen_at is None else self._frozen_at
        return now - self._frozen_s

    def prepare(self, function: Callable[[], object]) -> None:
        """Sets what is called before all else, for this process too if it runs."""
        self._prepare, self._is_prepared = function, False

    def launch(self) -> None:
        """Starts the process without waiting until it is ready, so that several can start side by side."""
        self._launched()

    def start(self) -> None:
        """Starts the process if it is not running, and waits until it is ready for a call.

        Raises:
            MeasureError: It died or did not become ready within `start_timeout_s`; `__cause__` says how.
            CosthubError: Whatever `prepare` raises of costhub's own errors.
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
        """Runs a function in the child; keywords are given by `functools.partial`.

        Args:
            function: A function at the top level of a module.
            args: Its arguments.
            timeout_s: How long it may take.

        Raises:
            ChildDied: The process ended: it crashed, ran out of memory or was killed.
            ChildTimeout: The function took longer; the process is killed.
            CallFailed: The function raised an exception of a library.
            MeasureError: The process does not start, or cannot import the function's module.
        """
        try:
            self.send(function, *args)
            result: Result = self.receive(timeout_s=timeout_s)
            return result
        finally:
            if self._is_answering:  # ^C: the late answer must not meet the next call
                self.kill()

    def send(self, function: Callable[..., object], *args: Any) -> None:
        """Lets the child begin with a call; `receive` waits for its result. Raises what `start` does."""
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
        """Waits for the result of the call that was sent, or, with None, for as long as it takes.

        Raises:
            ChildDied: The process ended.
            ChildTimeout: No result within `timeout_s`; the process is killed.
            Exception: Whatever the function raised.
        """
        process = self._process
        if process is None:
            raise ChildKilled("the child process is not running.")
        return self._receive(process, timeout_s)

    def freeze(self) -> None:
        """Stops the child and what it has started where they stand. A call sent before goes on at `thaw`."""
        if self._frozen_at is None:
            self._frozen_at = time.monotonic()
        if self._process:
            self._process.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Lets a frozen child go on."""
        if self._frozen_at is not None:
            self._frozen_s += time.monotonic() - self._frozen_at
            self._frozen_at = None
        if self._process:
            self._process.signal(signal.SIGCONT)

    def kill(self) -> None:
        """Ends the process at once; harmless when there is none. The next call starts another one."""
        with self._lock:
            process, self._process = self._process, None
            self._is_prepared = self._is_answering = False
        if process is not None:
            process.kill()

    def close(self) -> None:
        """Gives the process up for good; a call from another thread ends with `ChildKilled`."""
        with self._lock:
            self._is_closed = True
            process = self._process
            if process is None or self._is_answering or not self.is_shared or self._frozen_at is not None:
                return self.kill()
            self._process = None
        if process.is_running:
            keep_idle(process)
        else:
            process.kill()

    def _launched(self) -> ChildProcess:
        """The process, a new one where there is none that runs."""
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

    def _get_ready(self, process: ChildProcess) -> None:
        if self._is_prepared:
            return
        if process.was_idle:
            self._exchange(process, move_in, {**os.environ, **self.environment}, os.getcwd())
        if self._prepare is not None:
            self._exchange(process, self._prepare)
        self._is_prepared = True

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
        # A child that died meanwhile is noticed by `_receive`, which has the words it died with.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            process.connection.send_bytes(message)

    def _receive(self, process: ChildProcess, timeout_s: float | None) -> Any:
        try:
            if not self._has_answer(process, timeout_s):
                self.kill()
                raise ChildTimeout(f"no answer within {timeout_s:g} s.")
            message = process.connection.recv_bytes()
        except (EOFError, OSError):  # OSError: it ended in the middle of an answer, or the pipe is closed
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
            # While the child is frozen the end is no nearer after a wait.
            if process.connection.poll(left_s if self._frozen_at is None else max(left_s, 0.1)):
                return True
        return process.connection.poll(0.0)


def _module_of(function: Callable[..., object]) -> str:
    while isinstance(function, partial):
        function = function.func
    # Methods of classes and built-in methods have their module in their owner.
    return getattr(function, "__module__", None) or type(getattr(function, "__self__", function)).__module__


def _import(module: str) -> None:
    importlib.import_module(module)
