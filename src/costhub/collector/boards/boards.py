"""Provides Boards: runs programs on whichever board of a TVM tracker is free."""

from __future__ import annotations

import json
import statistics
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from costhub.collector.boards.session import SessionResult, build_reference, time_on_board
from costhub.collector.boards.session_pool import MOST_SESSIONS, BoardSession, SessionPool
from costhub.collector.boards.tracker import Tracker, check_key
from costhub.collector.run.drift_monitor import MAX_DRIFT, REPETITIONS
from costhub.collector.run.evaluator import Arguments, Evaluator
from costhub.collector.run.reference import ARGUMENTS
from costhub.collector.run.runner import RunResult
from costhub.errors import DeviceError, MeasureError
from costhub.isolation.child import Child, ChildDied, ChildTimeout
from costhub.isolation.scratch import ScratchFolder
from costhub.names import is_plain_name

# A board ends a session by itself when its time is up. One that does not answer even then is gone.
SILENCE_S = 5.0
REFERENCE_TIMEOUT_S = 180.0
# A program that ended two sessions, perhaps on different boards, did so for a reason.
MAX_LOST = 2
# TVM's device name for each target kind, where the two differ.
DEVICE_KINDS = {"llvm": "cpu"}


@dataclass(frozen=True)
class BoardRunResult(RunResult):
    """The result of running one program, and the board that ran it."""

    board: str | None = None
    """``HOST:PORT`` of the last board that ran it."""
    reference_after_s: float | None = None
    """Seconds of the reference kernel on that board, right after the program."""
    reference_drift: float | None = None
    """`reference_after_s` relative to the fastest seen on that board, minus 1."""


@dataclass(frozen=True)
class BoardIdentity:
    """What kind of device the boards under a key are."""

    device: dict[str, Any]
    """Their row in the devices table."""
    target: dict[str, Any]
    """Their TVM target."""


class Boards:
    """The boards that a TVM tracker offers under one key, treated as one device.

    Any number of threads may call `run`; each call takes the next free board and returns it. A board that
    disappears only costs time: its program goes to another one. A board that comes back is used again.

    Args:
        tracker_host: Host of the tracker.
        tracker_port: Port of the tracker.
        key: The key that the boards registered under; they must all be of one kind.
        evaluator: How latencies are taken.
        target: Target of boards that cannot identify themselves, i.e. plain TVM servers.
        timeout_s: Time limit of one session: upload, program and reference kernel.
        board_wait_s: How long to wait for a free board before giving up.
        most_drift: A program is measured again if its board's reference kernel slowed down by more than this.

    Raises:
        ArgumentError: No board can have this key.

    Example:
        >>> with Boards("127.0.0.1", 9190, "pi4", target={"kind": "llvm"}) as boards:
        ...     boards.key
        'pi4'
    """

    def __init__(
        self,
        tracker_host: str,
        tracker_port: int,
        key: str,
        *,
        evaluator: Evaluator | None = None,
        target: dict[str, Any] | None = None,
        timeout_s: float = 10.0,
        board_wait_s: float = 120.0,
        most_drift: float = MAX_DRIFT,
    ) -> None:
        check_key(key)
        self.tracker = Tracker(tracker_host, tracker_port)
        self.key = key
        self._pool = SessionPool(self.tracker, key, board_wait_s=board_wait_s)
        self.evaluator = evaluator or Evaluator()
        self.timeout_s = timeout_s
        self.most_drift = most_drift
        self._target = target
        self._identities: dict[str, BoardIdentity | None] = {}
        self._baselines_s: dict[str, float] = {}
        self._reference: str | None = None
        self._folder = ScratchFolder()
        self._lock = threading.Lock()
        self._preparing = threading.RLock()

    def __enter__(self) -> Boards:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the sessions; a thread using one gets a MeasureError."""
        self._pool.close()
        self._folder.close()

    def count(self) -> int:
        """Returns how many boards are registered now.

        Raises:
            MeasureError: No tracker answers.
        """
        return len(self.tracker.servers(self.key))

    def identify(self) -> BoardIdentity:
        """Identifies the boards: asks until each has answered, at most twice as often as there are boards.

        Raises:
            DeviceError: They are not of one kind, or are plain TVM servers, which cannot identify themselves.
            MeasureError: No tracker or no board answers.
        """
        names = [s.name for s in self.tracker.servers(self.key)]
        # The tracker hands out the boards in turn, and we cannot choose the next one.
        for _ in range(2 * max(1, len(names))):
            if self._identities and all(name in self._identities for name in names):
                break
            with self._pool.session(self.timeout_s) as session:
                self.note(session)
        identities = [i for i in self._identities.values() if i is not None]
        if not identities:
            raise DeviceError(
                f"The boards under {self.key!r} are plain TVM servers, which do not say what they are. Start "
                "them with `costhub board serve`."
            )
        return identities[0]

    def target(self) -> dict[str, Any]:
        """The given target, or else the one the boards report; raises like `identify`."""
        with self._preparing:
            if self._target is None:
                self._target = self.identify().target
            return self._target

    def reference_s(self) -> float:
        """Median seconds of the reference kernel on the next free board.

        Raises:
            MeasureError: No board can run it.
        """
        ran = self._run_somewhere(self._timing(self._reference_path(), ARGUMENTS, None), self.timeout_s)
        if ran.status != "ok":
            raise MeasureError(f"The reference kernel failed on the board {ran.board}: {ran.error}")
        return statistics.median(ran.run_s)

    def run(self, artifact: str, arguments: Arguments, *, timeout_s: float | None = None) -> BoardRunResult:
        """Times a program on the next free board; repeats it if the reference kernel was slow afterwards.

        Args:
            artifact: Path of a shared library, or of an object file, which the board links itself.
            arguments: (dtype, shape) of each argument.
            timeout_s: Time limit of the session, if different from the boards' own.

        Raises:
            MeasureError: No tracker answers, or no board became free within `board_wait_s`.
            DeviceError: A board is of a different kind than the others.
        """
        time_it = self._timing(artifact, arguments, self._reference_path())
        ran = self._run_somewhere(time_it, timeout_s or self.timeout_s)
        for _ in range(REPETITIONS):
            if (ran.reference_drift or 0.0) <= self.most_drift:
                break
            ran = self._run_somewhere(time_it, timeout_s or self.timeout_s)
        return ran

    def run_each(
        self, programs: Sequence[tuple[str, Arguments]], *, timeout_s: float | None = None
    ) -> Generator[tuple[int, BoardRunResult], None, None]:
        """Times programs, each an artifact with its arguments, on all boards at once.

        Yields:
            The index of a program and its result, as soon as it arrives.

        Raises:
            MeasureError: As for `run`, to which `timeout_s` is passed.
        """
        threads = min(max(1, self.count()), MOST_SESSIONS)
        executor = ThreadPoolExecutor(threads, thread_name_prefix="costhub-board")
        try:
            indices = {
                executor.submit(self.run, *program, timeout_s=timeout_s): index
                for index, program in enumerate(programs)
            }
            for done in as_completed(indices):
                yield indices[done], done.result()
        finally:
            # A caller that stops early does not wait for programs still running: closing the boards ends them.
            executor.shutdown(wait=False, cancel_futures=True)

    def _timing(self, artifact: str, arguments: Arguments, reference: str | None) -> Callable[[], SessionResult]:
        kind = self.target()["kind"]
        device_kind = DEVICE_KINDS.get(kind, kind)
        return partial(time_on_board, artifact, arguments, self.evaluator, device_kind, reference)

    def _run_somewhere(self, time_it: Callable[[], SessionResult], timeout_s: float) -> BoardRunResult:
        lost: list[str] = []
        while True:
            with self._pool.session(timeout_s) as session:
                board = session.board
                self.note(session)
                reply = _ask(session.child, time_it, timeout_s)
            if reply.outcome == "timeout":
                why = f"the session had not ended after {timeout_s:g} s, including sending the program and its inputs"
                return BoardRunResult("run_timeout", (), timeout_s, why, board=board)
            if reply.outcome == "error":
                return BoardRunResult("run_error", (), reply.wall_s, reply.error, board=board)
            if reply.outcome == "ok":
                return self._good(reply, board)
            lost.append(str(reply.error))  # without its address, which the row would make public
            if len(lost) == MAX_LOST:
                why = f"{MAX_LOST} sessions in a row ended early ({'; '.join(lost)})"
                return BoardRunResult("run_error", (), reply.wall_s, why, board=board)

    def _good(self, reply: SessionResult, board: str) -> BoardRunResult:
        ran = BoardRunResult("ok", reply.run_s, reply.wall_s, None, board=board)
        if not reply.reference_s:
            return ran
        reference_s = statistics.median(reply.reference_s)
        with self._lock:
            baseline_s = min(reference_s, self._baselines_s.get(board, reference_s))
            self._baselines_s[board] = baseline_s
        drift = reference_s / baseline_s - 1.0
        return replace(ran, reference_after_s=reference_s, reference_drift=drift)

    def note(self, session: BoardSession) -> None:
        """Stores a board's own identification.

        Raises:
            DeviceError: The other boards are of a different kind.
        """
        identity = None if session.identity is None else _read_identity(session.identity, session.board)
        with self._lock:
            for name, other in self._identities.items():
                ours, theirs = (i.device["device_id"] if i else None for i in (identity, other))
                if ours and theirs and ours != theirs:
                    raise DeviceError(
                        f"The boards under the key {self.key!r} are of different kinds: {name} is {theirs!r}, "
                        f"{session.board} is {ours!r}. Give each kind a key of its own (`costhub board serve "
                        "--key`)."
                    )
            self._identities[session.board] = identity

    def _reference_path(self) -> str:
        """The reference kernel's library, built on first use."""
        with self._preparing:
            if self._reference is None:
                args = json.dumps(self.target()), str(self._folder.path)
                with self._pool.child() as child:
                    try:
                        self._reference = child.call(build_reference, *args, timeout_s=REFERENCE_TIMEOUT_S)
                    except MeasureError:
                        raise
                    except Exception as error:
                        raise MeasureError(f"The reference kernel cannot be built: {error}") from error
            return self._reference


def _read_identity(text: str, board: str) -> BoardIdentity:
    """Parses a board's own identification.

    Raises:
        DeviceError: It is of another version of costhub, names no device or kind of target, or the time of its probe
            is not a valid time.
    """
    try:
        identity = BoardIdentity(**json.loads(text))
        probed_at = identity.device.get("probed_at")
        if not (is_plain_name(identity.device.get("device_id")) and isinstance(identity.target.get("kind"), str)):
            raise ValueError("it names no device or no kind of target")
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise DeviceError(
            f"The board {board} does not say what it is as this version of costhub expects. Install the same version "
            "on both."
        ) from error
    if probed_at is not None:  # JSON has no times, the devices table has
        try:
            identity.device["probed_at"] = datetime.fromisoformat(probed_at)
        except (TypeError, ValueError) as error:
            raise DeviceError(
                f"The board {board} says that it was probed at {probed_at!r:.99}, which is not a time in ISO 8601. "
                "Run `costhub probe` on it and start it again."
            ) from error
    return identity


def _ask(child: Child, time_it: Callable[[], SessionResult], timeout_s: float) -> SessionResult:
    try:
        return child.call(time_it, timeout_s=timeout_s + SILENCE_S)
    except (ChildDied, ChildTimeout) as error:
        return SessionResult("lost", error=str(error))
