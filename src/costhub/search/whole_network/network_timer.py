"""Provides NetworkTimer: times forms of one network in turns, here or on a board."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from costhub.collector.boards.boards import Boards
from costhub.collector.boards.session_pool import SessionPool
from costhub.collector.device.cpu_state import core_count, pick_cpus, tvm_threads
from costhub.errors import MeasureError
from costhub.isolation.child import ChildDied, ChildTimeout, Worker
from costhub.search.whole_network.board_service import BoardLost, LoadOnBoard, TimeOnBoard
from costhub.search.whole_network.time_service import LoadedNetwork, LoadLibrary, LoadTorch, TimeCalls

TIME_SERVICE = "costhub.search.whole_network.time_service:handle"
ROUNDS = 5
SECONDS = 0.4
"""Of each form in each round."""
KEEP_FREED_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(1 << 30), "MALLOC_MMAP_THRESHOLD_": str(1 << 25)}
"""The environment in which glibc keeps memory that is freed, as the allocator of TVM's runtime does.

torch allocates its activations at each call. By default, glibc hands large ones back to the system and
gets them as new pages, which takes half of a MobileNet-V2's time, in some processes and not in others.
"""
# torch.compile calls a compiler for every kernel of the network.
LOAD_TIMEOUT_S = 1800.0
TURN_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class Latency:
    """How long a network takes, from call to output."""

    median_us: float
    low_us: float
    """A quarter of the calls are faster than this."""
    high_us: float
    """A quarter of the calls are slower than this."""
    calls: int

    @classmethod
    def of(cls, run_s: Sequence[float]) -> Latency:
        """From the seconds of each call.

        Example:
            >>> Latency.of([2e-6, 1e-6, 3e-6])
            Latency(median_us=2.0, low_us=1.5, high_us=2.5, calls=3)
        """
        low = high = run_s[0]
        if len(run_s) > 1:
            low, _, high = statistics.quantiles(run_s, n=4, method="inclusive")
        return cls(statistics.median(run_s) * 1e6, low * 1e6, high * 1e6, len(run_s))


def time_in_turns(names: Iterable[str], turn: Callable[[str], list[float] | None], rounds: int) -> dict[str, Latency]:
    """Name -> latency, a turn of each in every round.

    Args:
        names: Of the forms.
        turn: The seconds of some calls of a form; None leaves it out from then on, with what it took before.
        rounds: How many.

    Example:
        >>> time_in_turns(["tuned", "dead"], lambda name: [2e-6] if name == "tuned" else None, rounds=3)
        {'tuned': Latency(median_us=2.0, low_us=2.0, high_us=2.0, calls=3)}
    """
    taken: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in list(taken):
            run_s = turn(name)
            if run_s is None:
                del taken[name]
            else:
                taken[name] += run_s
    return {name: Latency.of(run_s) for name, run_s in taken.items() if run_s}


@dataclass
class NetworkTimer:
    """Loads forms of one network and times them round by round, so that what disturbs one disturbs all.

    Args:
        inputs: NumPy arrays.
        threads: Of each form; TVM's have a CPU each.

    Example:
        >>> import numpy as np
        >>> with NetworkTimer((np.zeros((1, 128), np.int64),), threads=1) as contest:
        ...     (first, *_) = contest.load_torch("torch", "bert_tiny")
        ...     times = contest.take(rounds=1, seconds=0.0)
        >>> first.shape, list(times)
        ((1, 128, 128), ['torch'])
    """

    inputs: tuple[Any, ...]
    threads: int
    _workers: dict[str, Worker] = field(default_factory=dict)
    _held: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> NetworkTimer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._held.close()

    def load_library(self, name: str, path: str) -> tuple[Any, ...]:
        """Adds a library of `compile_network`; returns what it computes.

        Raises:
            MeasureError: It cannot be loaded, or fails.
        """
        request = LoadLibrary(path, self.inputs, pick_cpus(self.threads))
        return self._load(name, request, {**KEEP_FREED_MEMORY, **tvm_threads(self.threads)})

    def load_torch(self, name: str, network: str, *, compiled: bool = False) -> tuple[Any, ...]:
        """Adds the network as torch runs it; returns what it computes.

        Raises:
            MeasureError: It cannot be loaded or compiled, or fails.
        """
        request = LoadTorch(network, self.inputs, self.threads, compiled)
        threads = str(self.threads)
        # Inductor compiles in processes of its own otherwise, which stay.
        inductor = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
        return self._load(name, request, {**KEEP_FREED_MEMORY, "OMP_NUM_THREADS": threads, **inductor})

    def take(self, *, rounds: int = ROUNDS, seconds: float = SECONDS) -> dict[str, Latency]:
        """Name -> latency, of all that were loaded; those that fail are left out.

        Args:
            rounds: Turns of each.
            seconds: Of each turn; a call that takes longer is taken once.
        """
        return time_in_turns(self._workers, lambda name: self._turn(name, seconds), rounds)

    def _turn(self, name: str, seconds: float) -> list[float] | None:
        worker = self._workers[name]
        worker.thaw()
        try:
            found = worker.call(TimeCalls(seconds), timeout_s=TURN_TIMEOUT_S)
        except (ChildDied, ChildTimeout):
            return None  # a process that starts again has not loaded the network
        if not isinstance(found, list):
            return None
        worker.freeze()
        return found

    def _load(self, name: str, request: LoadLibrary | LoadTorch, environment: dict[str, str]) -> tuple[Any, ...]:
        worker = self._held.enter_context(Worker(TIME_SERVICE, environment=environment))
        try:
            found = worker.call(request, timeout_s=LOAD_TIMEOUT_S)
        except (ChildDied, ChildTimeout) as error:
            found = str(error)
        if not isinstance(found, LoadedNetwork):
            worker.kill()
            raise MeasureError(f"The network does not run as {name}: {found.rstrip('.')}.")
        # Threads of TVM and of OpenMP look for work for a while, at the cost of whatever is timed next.
        worker.freeze()
        self._workers[name] = worker
        return found.outputs


BOARD_SERVICE = "costhub.search.whole_network.board_service:handle"
_BOARD_WAIT_S = 120.0
_SESSION_S = 3600.0
"""The board ends the session after so long."""


@contextmanager
def board_network_timer(inputs: tuple[Any, ...], boards: Boards) -> Iterator[BoardNetworkTimer]:
    """A contest on the next free board; all forms are in one session, so that it is one board that runs them.

    Args:
        inputs: NumPy arrays.
        boards: They may be closed: the session is one of its own.

    Raises:
        MeasureError: No tracker answers, or no board became free.
        DeviceError: The board that did is of another kind than those that `boards` has seen.

    Example:
        >>> contest = board_network_timer((), Boards("127.0.0.1", 9190, "pi4"))  # `with contest:` waits for a board
    """
    pool = SessionPool(boards.tracker, boards.key, board_wait_s=_BOARD_WAIT_S, service=BOARD_SERVICE)
    with closing(pool), pool.session(_SESSION_S) as session:
        boards.note(session)
        yield BoardNetworkTimer(inputs, session.worker)


@dataclass
class BoardNetworkTimer:
    """What `NetworkTimer` is, on a board; torch runs here, and is not timed."""

    inputs: tuple[Any, ...]
    """NumPy arrays."""
    worker: Worker
    """Holds the session."""
    _names: list[str] = field(default_factory=list)

    def load_library(self, name: str, path: str) -> tuple[Any, ...]:
        """Adds a library of `compile_network` for the board; returns what it computes there.

        Raises:
            MeasureError: It cannot be loaded, or fails, or the board is lost.
        """
        found = self._ask(LoadOnBoard(name, path, self.inputs), LOAD_TIMEOUT_S)
        if isinstance(found, BoardLost):
            raise MeasureError(
                f"The board was lost before the network had run as {name} ({found.reason.rstrip('.')}). Run "
                "the same command again."
            )
        if not isinstance(found, LoadedNetwork):
            raise MeasureError(f"The network does not run as {name} on the board: {found.rstrip('.')}.")
        self._names.append(name)
        return found.outputs

    def load_torch(self, name: str, network: str, *, compiled: bool = False) -> tuple[Any, ...]:
        """What the network computes as torch runs it here.

        Raises:
            MeasureError: It cannot be loaded, or fails; or it is to be compiled, which is of no use here.
        """
        if compiled:
            raise MeasureError("It would run on this machine, and the network is for a board.")
        with NetworkTimer(self.inputs, core_count()) as here:
            return here.load_torch(name, network)

    def take(self, *, rounds: int = ROUNDS, seconds: float = SECONDS) -> dict[str, Latency]:
        """As `NetworkTimer.take`; where the board is lost, of the calls until then."""
        return time_in_turns(self._names, lambda name: self._turn(name, seconds), rounds)

    def _turn(self, name: str, seconds: float) -> list[float] | None:
        found = self._ask(TimeOnBoard(name, seconds), TURN_TIMEOUT_S)
        if isinstance(found, BoardLost):
            return []  # What was taken before the board was lost counts.
        return found if isinstance(found, list) else None

    def _ask(self, request: LoadOnBoard | TimeOnBoard, timeout_s: float) -> Any:
        try:
            return self.worker.call(request, timeout_s=timeout_s)
        except (ChildDied, ChildTimeout) as error:
            return BoardLost(str(error))
