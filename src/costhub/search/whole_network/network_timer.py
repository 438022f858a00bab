"""Provides NetworkTimer: times forms of one network in turns, here or on a board."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import TracebackType
from typing import TypeVar

from costhub.collector.boards.boards import Boards
from costhub.collector.boards.session_pool import SessionPool
from costhub.collector.device.cpu_state import PINNED, core_count, pick_cpus, tvm_threads
from costhub.errors import MeasureError, NetworkError, last_line
from costhub.isolation.child import WITHOUT_TORCH, Child, ChildDied, ChildTimeout
from costhub.isolation.limits import Limits
from costhub.isolation.tvm_children import load_tvm
from costhub.search.whole_network.network_forms import (
    Arrays,
    BoardLost,
    load_library,
    load_on_board,
    load_reader_of_torch,
    load_torch,
    time_calls,
    time_calls_on_board,
)

Result = TypeVar("Result")

ROUNDS = 5
SECONDS = 0.4
"""Of each form in each round."""
KEEP_FREED_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(1 << 30), "MALLOC_MMAP_THRESHOLD_": str(1 << 25)}
"""The environment in which glibc keeps freed memory, as the allocator of TVM's runtime does.

torch allocates its activations at each call. By default, glibc hands large ones back to the system and
gets them as new pages, which takes half of a MobileNet-V2's time in some processes but not in others.
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
        """The latency from the seconds of each call.

        Example:
            >>> Latency.of([2e-6, 1e-6, 3e-6])
            Latency(median_us=2.0, low_us=1.5, high_us=2.5, calls=3)
        """
        low = high = run_s[0]
        if len(run_s) > 1:
            low, _, high = statistics.quantiles(run_s, n=4, method="inclusive")
        return cls(statistics.median(run_s) * 1e6, low * 1e6, high * 1e6, len(run_s))


def time_in_turns(names: Iterable[str], turn: Callable[[str], list[float] | None], rounds: int) -> dict[str, Latency]:
    """Name -> latency, with a turn of each form in every round.

    Args:
        names: The names of the forms.
        turn: Returns the seconds of some calls of a form; None drops it, along with its earlier calls.
        rounds: How many rounds.

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


def _without_latency(names: Iterable[str], latencies: Mapping[str, Latency]) -> tuple[str, ...]:
    """A sentence about each form that `time_in_turns` has left out."""
    return tuple(f"The {name} form failed while it was timed." for name in names if name not in latencies)


@dataclass
class NetworkTimer:
    """Loads forms of one network and times them round by round, so that whatever disturbs one disturbs all.

    Args:
        inputs: NumPy arrays; they may be set later, before a form is loaded.
        threads: Threads of each form; those of TVM have a CPU each.
        device_kind: TVM's and torch's name for the device that computes, ``cpu`` or ``cuda``.

    Example:
        >>> import numpy as np
        >>> with NetworkTimer((np.zeros((1, 128), np.int64),), threads=1) as timer:
        ...     (first, *_) = timer.load_torch("torch", "bert_tiny")
        ...     times = timer.measure(rounds=1, seconds=0.0)
        >>> first.shape, list(times)
        ((1, 128, 128), ['torch'])
    """

    inputs: Arrays
    threads: int
    device_kind: str = "cpu"
    notes: tuple[str, ...] = ()
    """Sentences about forms that could not be timed, in order; filled by `load_torch` and `measure`."""
    _children: dict[str, Child] = field(default_factory=dict)
    _launched: dict[str, Child] = field(default_factory=dict)
    """Form -> a process that gets ready for it."""
    _held: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> NetworkTimer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._held.close()

    def launch_library(self, name: str) -> None:
        """Starts the process of a library that `load_library` will load: it imports TVM in the meantime."""
        self._launch(name, self._of_library, load_tvm)

    def launch_torch(self, name: str) -> None:
        """The same for `load_torch`, without `compiled`."""
        self._launch(name, self._of_torch, load_reader_of_torch)

    def _launch(self, name: str, environment: dict[str, str], prepare: Callable[[], object]) -> None:
        self._launched[name] = child = self._child(environment)
        child.prepare(prepare)
        child.launch()

    @property
    def _of_library(self) -> dict[str, str]:
        # For a GPU, the libraries that torch brings may be those that TVM finds.
        return {**tvm_threads(self.threads), **({**PINNED, **WITHOUT_TORCH} if self.device_kind == "cpu" else {})}

    @property
    def _of_torch(self) -> dict[str, str]:
        # Otherwise Inductor compiles in processes of its own, which keep running.
        return {"OMP_NUM_THREADS": str(self.threads), "TORCHINDUCTOR_COMPILE_THREADS": "1"}

    def load_library(self, name: str, path: str) -> Arrays:
        """Adds a library of `compile_network`; returns what it computes.

        Raises:
            MeasureError: It cannot be loaded, or fails.
        """
        load = partial(load_library, path, self.inputs, pick_cpus(self.threads))
        return self.load_form(name, load, self._of_library)

    def load_torch(self, name: str, network: str, *, compiled: bool = False) -> Arrays:
        """Adds the network as torch runs it; returns what it computes.

        If torch cannot run it on the GPU, that is what it computes on this machine's CPU, which is not timed; `notes`
        says so.

        Raises:
            MeasureError: It cannot be loaded or compiled, or fails.
        """
        load = partial(load_torch, network, self.inputs, self.threads, compiled, self.device_kind)
        try:
            return self.load_form(name, load, self._of_torch)
        except MeasureError as error:
            if self.device_kind == "cpu" or compiled:
                raise
            self.notes += (f"PyTorch was not timed, since it cannot run the network on the GPU. {last_line(error)}",)
        with NetworkTimer(self.inputs, self.threads) as on_cpu:
            return on_cpu.load_torch(name, network)

    def drop(self, name: str) -> None:
        """Leaves out a form that was loaded, and ends its process."""
        self._children.pop(name).kill()

    def measure(self, *, rounds: int = ROUNDS, seconds: float = SECONDS) -> dict[str, Latency]:
        """Name -> latency, for all forms that were loaded; those that fail are left out.

        Args:
            rounds: Turns of each form.
            seconds: Duration of each turn; a call that takes longer is made once.
        """
        for child in self._launched.values():  # of forms that were not loaded after all
            child.kill()
        latencies = time_in_turns(self._children, lambda name: self._turn(name, seconds), rounds)
        self.notes += _without_latency(self._children, latencies)
        return latencies

    def _turn(self, name: str, seconds: float) -> list[float] | None:
        child = self._children[name]
        child.thaw()
        try:
            run_s = child.call(time_calls, seconds, timeout_s=TURN_TIMEOUT_S)
        except (NetworkError, ChildDied, ChildTimeout):
            return None  # a restarted process has not loaded the network
        child.freeze()
        return run_s

    def load_form(self, name: str, load: Callable[[], Arrays], environment: dict[str, str]) -> Arrays:
        """Adds any other form; returns what it computes.

        Args:
            name: Name of the form.
            load: Loads it in the child by `costhub.search.whole_network.network_forms.hold_form`; it is pickled.
            environment: Environment variables for its process.

        Raises:
            MeasureError: It cannot be loaded, or fails.
        """
        child = self._launched.pop(name, None) or self._child(environment)
        try:
            outputs = child.call(load, timeout_s=LOAD_TIMEOUT_S)
        except (NetworkError, ChildDied, ChildTimeout) as error:
            child.kill()
            raise MeasureError(f"The network does not run as {name}: {str(error).rstrip('.')}.") from error
        # Threads of TVM and of OpenMP look for work for a while, at the cost of whatever is timed next.
        child.freeze()
        self._children[name] = child
        return outputs

    def _child(self, environment: dict[str, str]) -> Child:
        """A process for a form."""
        # What it imports stays loaded: the next form gets a new process.
        limits = Limits.for_network(timeout_s=LOAD_TIMEOUT_S)
        if self.device_kind != "cpu":
            limits = replace(limits, further_bytes=None)  # drivers of GPUs map more memory than there is
        environment = {**KEEP_FREED_MEMORY, **environment}
        return self._held.enter_context(Child(environment=environment, limits=limits, is_shared=False))


_BOARD_WAIT_S = 120.0
_SESSION_S = 3600.0
"""The board ends the session after this many seconds."""


@contextmanager
def board_network_timer(inputs: Arrays, boards: Boards) -> Iterator[BoardNetworkTimer]:
    """A timer on the next free board; all forms share one session, so that the same board runs them.

    Args:
        inputs: NumPy arrays.
        boards: They may be closed: this opens a new session.

    Raises:
        MeasureError: No tracker answers, or no board became free.
        DeviceError: The board that became free is of a different kind from those that `boards` has seen.

    Example:
        >>> timer = board_network_timer((), Boards("127.0.0.1", 9190, "pi4"))  # `with timer:` waits for a board
    """
    pool = SessionPool(boards.tracker, boards.key, board_wait_s=_BOARD_WAIT_S)
    with closing(pool), pool.session(_SESSION_S) as session:
        boards.note(session)
        try:
            yield BoardNetworkTimer(inputs, session.child)
        finally:
            session.child.kill()  # it holds the networks, and they hold the board


@dataclass
class BoardNetworkTimer:
    """A `NetworkTimer` on a board; torch runs here, and is not timed."""

    inputs: Arrays
    """NumPy arrays."""
    child: Child
    """Holds the session."""
    notes: tuple[str, ...] = ()
    """As for `NetworkTimer`, without those about torch, which is never timed."""
    _names: list[str] = field(default_factory=list)

    def load_library(self, name: str, path: str) -> Arrays:
        """Adds a library of `compile_network` for the board; returns what it computes there.

        Raises:
            MeasureError: It cannot be loaded, or fails, or the board is lost.
        """
        try:
            outputs = self._ask(partial(load_on_board, name, path, self.inputs), LOAD_TIMEOUT_S)
        except BoardLost as error:
            raise MeasureError(
                f"The board was lost before the network had run as {name} ({str(error).rstrip('.')}). Run "
                "the same command again."
            ) from error
        except NetworkError as error:
            raise MeasureError(f"The network does not run as {name} on the board: {str(error).rstrip('.')}.") from error
        self._names.append(name)
        return outputs

    def load_torch(self, name: str, network: str, *, compiled: bool = False) -> Arrays:
        """What the network computes as torch runs it here.

        Raises:
            MeasureError: It cannot be loaded, or fails; or `compiled` is set, which is of no use here.
        """
        if compiled:
            raise MeasureError("It would run on this machine, but the network is for a board.")
        with NetworkTimer(self.inputs, core_count()) as here:
            return here.load_torch(name, network)

    def measure(self, *, rounds: int = ROUNDS, seconds: float = SECONDS) -> dict[str, Latency]:
        """As `NetworkTimer.measure`; if the board is lost, from the calls until then."""
        latencies = time_in_turns(self._names, lambda name: self._turn(name, seconds), rounds)
        self.notes += _without_latency(self._names, latencies)
        return latencies

    def _turn(self, name: str, seconds: float) -> list[float] | None:
        try:
            return self._ask(partial(time_calls_on_board, name, seconds), TURN_TIMEOUT_S)
        except BoardLost:
            return []  # What was measured before the board was lost counts.
        except NetworkError:
            return None

    def _ask(self, function: Callable[[], Result], timeout_s: float) -> Result:
        try:
            return self.child.call(function, timeout_s=timeout_s)
        except (ChildDied, ChildTimeout) as error:
            raise BoardLost(str(error)) from error
