"""Provides Contest: forms of one network, each in a process of its own, timed in turns."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from costhub.collector.cpu_state import pick_cpus, tvm_threads
from costhub.errors import MeasureError
from costhub.transfer.network.time_service import Loaded, LoadLibrary, LoadTorch, Take
from costhub.worker import Worker, WorkerDied, WorkerTimeout

SERVICE = "costhub.transfer.network.time_service:handle"
ROUNDS = 5
SECONDS = 0.4
"""Of each form in each round."""
KEEPING = {"MALLOC_TRIM_THRESHOLD_": str(1 << 30), "MALLOC_MMAP_THRESHOLD_": str(1 << 25)}
"""The environment in which glibc keeps memory that is freed, as the allocator of TVM's runtime does.

torch allocates its activations at each call. By default, glibc hands large ones back to the system and
gets them as new pages, which takes half of a MobileNet-V2's time, in some processes and not in others.
"""
# torch.compile calls a compiler for every kernel of the network.
LOAD_TIMEOUT_S = 1800.0
TAKE_TIMEOUT_S = 600.0


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


def in_turns(
    names: Iterable[str], turn: Callable[[str], list[float] | None], rounds: int
) -> dict[str, Latency]:
    """Name -> latency, a turn of each in every round.

    Args:
        names: Of the forms.
        turn: The seconds of some calls of a form; None leaves it out from then on, with what it took before.
        rounds: How many.

    Example:
        >>> in_turns(["tuned", "dead"], lambda name: [2e-6] if name == "tuned" else None, rounds=3)
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
class Contest:
    """Loads forms of one network and times them round by round, so that what disturbs one disturbs all.

    Args:
        inputs: NumPy arrays.
        threads: Of each form; TVM's have a CPU each.

    Example:
        >>> import numpy as np
        >>> with Contest((np.zeros((1, 128), np.int64),), threads=1) as contest:
        ...     (first, *_) = contest.load_torch("torch", "bert_tiny")
        ...     times = contest.take(rounds=1, seconds=0.0)
        >>> first.shape, list(times)
        ((1, 128, 128), ['torch'])
    """

    inputs: tuple[Any, ...]
    threads: int
    _workers: dict[str, Worker] = field(default_factory=dict)
    _held: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Contest:
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
        return self._load(name, request, {**KEEPING, **tvm_threads(self.threads)})

    def load_torch(self, name: str, network: str, *, compiled: bool = False) -> tuple[Any, ...]:
        """Adds the network as torch runs it; returns what it computes.

        Raises:
            MeasureError: It cannot be loaded or compiled, or fails.
        """
        request = LoadTorch(network, self.inputs, self.threads, compiled)
        threads = str(self.threads)
        # Inductor compiles in processes of its own otherwise, which stay.
        inductor = {"TORCHINDUCTOR_COMPILE_THREADS": "1"}
        return self._load(name, request, {**KEEPING, "OMP_NUM_THREADS": threads, **inductor})

    def take(self, *, rounds: int = ROUNDS, seconds: float = SECONDS) -> dict[str, Latency]:
        """Name -> latency, of all that were loaded; those that fail are left out.

        Args:
            rounds: Turns of each.
            seconds: Of each turn; a call that takes longer is taken once.
        """
        return in_turns(self._workers, lambda name: self._turn(name, seconds), rounds)

    def _turn(self, name: str, seconds: float) -> list[float] | None:
        worker = self._workers[name]
        worker.thaw()
        try:
            found = worker.call(Take(seconds), timeout_s=TAKE_TIMEOUT_S)
        except (WorkerDied, WorkerTimeout):
            return None  # a process that starts again has not loaded the network
        if not isinstance(found, list):
            return None
        worker.freeze()
        return found

    def _load(
        self, name: str, request: LoadLibrary | LoadTorch, environment: dict[str, str]
    ) -> tuple[Any, ...]:
        worker = self._held.enter_context(Worker(SERVICE, environment=environment))
        try:
            found = worker.call(request, timeout_s=LOAD_TIMEOUT_S)
        except (WorkerDied, WorkerTimeout) as error:
            found = str(error)
        if not isinstance(found, Loaded):
            worker.kill()
            raise MeasureError(f"The network does not run as {name}: {found.rstrip('.')}.")
        # Threads of TVM and of OpenMP look for work for a while, at the cost of whatever is timed next.
        worker.freeze()
        self._workers[name] = worker
        return found.outputs
