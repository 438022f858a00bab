"""Provides ChildProcess: one child process, from its start through its call loop to its last output."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection, Pipe
from typing import IO

from costhub.errors import class_and_end
from costhub.isolation.limits import Limits

# A child whose end of the pipe is closed is given this long to end, so that its exit code can be read.
END_TIMEOUT_S = 10.0
# At most this many unused processes wait, and this long unless they are worth more, for the next matching `Child`.
IDLE_S = 60.0
MOST_IDLE = 8
WITHOUT_TORCH = {"COSTHUB_CHILD_WITHOUT_TORCH": "1"}
"""The environment of a child in which torch cannot be imported: TVM imports it only because it is there, for 1 to 3 s.
It is for children that neither run PyTorch nor need the GPU libraries that come with it."""
# With -m or -c Python searches the current folder first, which may contain untrusted files.
CHILD_CODE = """
import sys
sys.path[:] = [p for p in sys.path if p]
from costhub.isolation.process import serve
serve(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
"""


class ChildError(Exception):
    """A call did not end with a result; the message says why."""


class ChildDied(ChildError):
    """The child process ended during a call; the message ends with what it last printed."""


class ChildKilled(ChildDied):
    """We ended the child process, from another thread: do not start it again."""


class ChildTimeout(ChildError):
    """The call took too long, and the child process was killed."""

    def __init__(self, message: str = "", cpu_s: float = 0.0) -> None:
        super().__init__(message)
        self.cpu_s = cpu_s
        """Processor seconds that the process had used since it started."""


class CallFailed(ChildError):
    """The function raised an exception of a library; the message is its class and the end of its message."""


Key = tuple[Limits, tuple[tuple[str, str], ...], str]


@dataclass
class ChildProcess:
    """A running process, our end of its pipe, and its output."""

    key: Key
    """Processes with equal keys are interchangeable."""
    process: subprocess.Popen[bytes]
    connection: Connection
    printed: IO[bytes]
    printed_before: int = 0
    """Number of bytes that it printed for its previous owners."""
    imported: set[str] = field(default_factory=set)
    """Modules whose functions it has run."""
    calls: int = 0
    was_idle: bool = False
    """Whether it had another owner before."""

    @classmethod
    def launch(cls, limits: Limits, environment: Mapping[str, str]) -> ChildProcess:
        """Starts a process that ends with this one, whichever thread starts it."""
        return _in_lasting_thread(lambda: cls._launch(limits, environment))

    @classmethod
    def _launch(cls, limits: Limits, environment: Mapping[str, str]) -> ChildProcess:
        ours, theirs = Pipe()
        # The last output of native code is the only explanation of a crash, so it is kept in a file.
        printed = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        process = subprocess.Popen(
            [sys.executable, "-c", CHILD_CODE, str(theirs.fileno()), str(os.getpid()), json.dumps(asdict(limits))],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=printed,
            env={**os.environ, **environment},
            # A separate group, so that processes it started itself (a linker) end with it.
            start_new_session=True,
        )
        theirs.close()
        return cls(key_of(limits, environment), process, ours, printed)

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self.process.poll() is None

    @property
    def cpu_s(self) -> float:
        """Processor seconds that it has used since it started; 0 once it has ended."""
        import psutil

        try:
            used = psutil.Process(self.process.pid).cpu_times()
        except psutil.Error:
            return 0.0
        return float(used.user + used.system)

    def last_words(self) -> str:
        """How the process ended, and the end of its output."""
        signal_name = None
        try:
            code = self.process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            how = "hung up without ending"
        else:
            signal_name = _signal_name(-code) if code < 0 else None
            how = "ended (" + (f"killed by {signal_name}" if signal_name else f"exit code {code}") + ")"
        self.printed.seek(max(self.printed_before, self.printed.seek(0, os.SEEK_END) - 2000))
        words = self.printed.read().decode(errors="replace").strip()
        limit = self.key[0].broken(signal_name, words) or ""
        return " ".join(filter(None, [f"the child process {how}.", limit, words]))

    def signal(self, number: int) -> None:
        """Sends a signal to the process and to everything it has started."""
        # The group of a child that has ended may belong to someone else by now.
        if self.is_running:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def kill(self) -> None:
        """Ends the process immediately."""
        self.connection.close()
        self.signal(signal.SIGKILL)
        self.process.wait()
        self.printed.close()


def key_of(limits: Limits, environment: Mapping[str, str]) -> Key:
    """The key that interchangeable processes share."""
    return limits, tuple(sorted(environment.items())), os.environ.get("PYTHONPATH", "")


# Unused processes, by the process that started them: a fork must not use the pipes of its parent.


@dataclass
class _Idle:
    """The idle processes, with the times until which they wait."""

    processes: list[tuple[float, ChildProcess]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def end(self, *, now: float) -> None:
        """Ends the processes that have waited for as long as they should."""
        with self.lock:
            old = [process for until, process in self.processes if until < now]
            self.processes = [(until, process) for until, process in self.processes if until >= now]
        for process in old:
            process.kill()


@functools.cache
def _idle(pid: int) -> _Idle:
    return _Idle()


def take_idle(key: Key) -> ChildProcess | None:
    """The most recently used idle process with the key; None if there is none."""
    idle = _idle(os.getpid())
    with idle.lock:
        for position in reversed(range(len(idle.processes))):
            _, process = idle.processes[position]
            if process.key == key and process.is_running:
                del idle.processes[position]
                process.was_idle = True
                process.printed_before = process.printed.seek(0, os.SEEK_END)
                return process
    return None


def keep_idle(process: ChildProcess, idle_s: float | None = None) -> None:
    """Keeps a process for the next matching `Child`; no call may be pending.

    Args:
        process: The process.
        idle_s: How long to keep it; by default `IDLE_S`.
    """
    idle = _idle(os.getpid())
    with idle.lock:
        idle.processes.append((time.monotonic() + (IDLE_S if idle_s is None else idle_s), process))
        surplus = [process for _, process in idle.processes[:-MOST_IDLE]]
        del idle.processes[:-MOST_IDLE]
    for process in surplus:
        process.kill()


@atexit.register
def end_idle_children() -> None:
    """Ends all unused child processes."""
    _idle(os.getpid()).end(now=float("inf"))


# A child ends with the thread that started it (prctl), so all are started by a thread that stays alive.

_Job = tuple[Callable[[], ChildProcess], "Future[ChildProcess]"]


def _in_lasting_thread(launch: Callable[[], ChildProcess]) -> ChildProcess:
    launched: Future[ChildProcess] = Future()
    _jobs(os.getpid()).put((launch, launched))
    try:
        return launched.result()
    except BaseException:  # ^C: no one will ask for it any more
        launched.add_done_callback(_kill_launched)
        raise


def _kill_launched(launched: Future[ChildProcess]) -> None:
    if launched.exception() is None:
        launched.result().kill()


@functools.cache
def _jobs(pid: int) -> queue.SimpleQueue[_Job]:
    jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
    threading.Thread(target=_launch_forever, args=(jobs,), daemon=True, name="costhub-children").start()
    return jobs


def _launch_forever(jobs: queue.SimpleQueue[_Job]) -> None:
    while True:
        try:
            launch, launched = jobs.get(timeout=IDLE_S / 2)
        except queue.Empty:
            _idle(os.getpid()).end(now=time.monotonic())
            continue
        try:
            launched.set_result(launch())
        except BaseException as error:
            launched.set_exception(error)


# The code below runs in the child.


def serve(fd: int, parent: int, limits_json: str) -> None:
    """The child's loop: runs the functions it is sent until the parent hangs up."""
    die_with_parent(parent)
    if WITHOUT_TORCH.items() <= os.environ.items():
        sys.modules["torch"] = None  # type: ignore[assignment]  # as if it were not installed
    limits = Limits(**json.loads(limits_json))
    limits.apply()
    # ^C and termination requests are handled by the parent, which decides whether the row in flight is finished; both
    # may reach the whole group of processes.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    connection = Connection(fd)
    with contextlib.suppress(EOFError, ConnectionResetError, BrokenPipeError):
        while True:
            message = connection.recv_bytes()
            limits.begin_call()
            connection.send_bytes(_reply(message))


def die_with_parent(parent: int) -> None:
    """Ends this process when its parent ends, and immediately if that has already happened."""
    # A collector killed with -9 must not leave a kernel running that disturbs the next one.
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGKILL)  # 1 = PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)


def move_in(environment: Mapping[str, str], folder: str) -> None:
    """Gives a previously idle process the environment and current folder of a new one."""
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None
    with contextlib.suppress(OSError):
        os.chdir(folder)


def _reply(message: bytes) -> bytes:
    """The pickled (result, error, traceback) of a call."""
    try:
        function, args = pickle.loads(message)  # noqa: S301 - from our parent, over a private pipe
        return pickle.dumps((function(*args), None, ""), pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        return pickle.dumps((None, _portable(error), traceback.format_exc()))


def _portable(error: Exception) -> Exception:
    """An exception that the parent can unpickle without importing a library for its class."""
    if type(error).__module__ == "builtins" or type(error).__module__.startswith("costhub."):
        with contextlib.suppress(Exception):
            copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - just pickled
            if type(copy) is type(error):
                return error
    return CallFailed(class_and_end(error))


def _signal_name(number: int) -> str:
    return next((s.name for s in signal.Signals if s.value == number), f"signal {number}")
