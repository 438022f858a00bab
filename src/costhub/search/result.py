"""Provides TuneResult: what a search found for one workload, and where its seconds went."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any

OTHER = "other"
"""Everything without a stage, such as starting processes."""
WAITING = "waiting"
"""It is another task's turn; this time does not belong to the search."""
EVOLUTION = "evolution"
"""TVM's own part: the design space, sampling, mutation, post-processing and records."""
FEATURES = "features"
PREDICTION = "prediction"
LEARNING = "learning"
"""Fine-tuning the model on what was measured."""
BUILDING = "building"
RUNNING = "running"

STAGES = (EVOLUTION, FEATURES, PREDICTION, LEARNING, BUILDING, RUNNING, OTHER)

OPENING = "opening"
"""The first stage of a whole run: loading the model and the known schedules, and identifying the device."""
READING = "reading"
"""Reading networks: torch exports them and TVM imports them, both imported first."""
EXTRACTING = "extracting"
"""Lowering and fusing networks, and finding their kernels."""
SEARCHING = "searching"
"""The search for all kernels; the stages of each add up to less, by the start of processes."""
SCHEDULING = "scheduling"
"""Choosing, building and checking schedules of all kernels without measuring."""
REPORTING = "reporting"
"""Writing reports and pictures, except the final ones, which hold these figures; of those drawn while a network is
compiled, only the wait for them."""
FINISHING = "finishing"
"""Compiling whole networks, checking and timing them; the stages of each network add up to less."""


class StageTimer:
    """A stopwatch with a hand for each stage; exactly one of them moves.

    Args:
        first: The stage that begins.

    Example:
        >>> stages = StageTimer()
        >>> with stages.during(FEATURES):
        ...     with stages.during(PREDICTION):
        ...         pass
        >>> sorted(stages.seconds())
        ['features', 'other', 'prediction']
    """

    def __init__(self, first: str = OTHER) -> None:
        self._seconds: dict[str, float] = {}
        self._stage, self._since = first, perf_counter()

    @contextmanager
    def during(self, stage: str) -> Iterator[None]:
        """Counts the seconds of a block to `stage`, except those of blocks within it."""
        before = self._turn(stage)
        try:
            yield
        finally:
            self._turn(before)

    def seconds(self) -> dict[str, float]:
        """Stage -> seconds until now, without waiting; with it, they would add up to the stopwatch's age."""
        self._turn(self._stage)
        return {stage: spent for stage, spent in self._seconds.items() if stage != WAITING}

    def move(self, seconds: float, before: str, stage: str) -> None:
        """Counts to `stage` seconds that were counted to `before`: a child process tells what it did meanwhile."""
        for name, change in ((before, -seconds), (stage, seconds)):
            self._seconds[name] = self._seconds.get(name, 0.0) + change

    def _turn(self, stage: str) -> str:
        now, before = perf_counter(), self._stage
        self._seconds[before] = self._seconds.get(before, 0.0) + now - self._since
        self._stage, self._since = stage, now
        return before


@dataclass
class Health:
    """How usable the scores of a search were, as shown in its report."""

    constant_rounds: int = 0
    """Rounds in which all candidates scored the same, so that the search was random."""
    diverged_updates: int = 0
    """Updates after which the model gave NaN or infinity and was thrown away."""
    updates: int = 0


@dataclass
class TuneResult:
    """What a search found for one workload."""

    workload: str
    trials: int
    """Programs measured, including those of an earlier, interrupted search."""
    failures: int
    seconds: float
    """Wall time of the search, including the start of the processes."""
    untuned_us: float | None
    """Latency of the workload without a schedule; None if it was not timed, or ran out of time."""
    best_us: float | None
    """Best latency measured; None if every trial failed."""
    curve: list[tuple[int, float, float]] = field(default_factory=list)
    """(trials so far, seconds so far, best latency so far in us) after each trial that succeeded; the first
    point stands for everything in an earlier search."""
    health: Health = field(default_factory=Health)
    stages: dict[str, float] = field(default_factory=dict)
    """Stage -> seconds of the search; see `costhub.search.result`."""
    failed_as: dict[str, int] = field(default_factory=dict)
    """Status -> programs of this search that failed this way; the statuses are those of the measurements table."""
    measured_us: list[float | None] = field(default_factory=list)
    """Latency of each program in the order of measuring, None if it failed; those of an earlier search come
    first, in no particular order."""
    flop: float | None = None
    """Floating-point operations of one run, as TVM counts them; None if it cannot."""
    space: str | None = None
    """Name of the design space that the programs of this search were drawn from."""

    @property
    def gflops(self) -> float | None:
        """Billions of floating-point operations per second of the best program."""
        return self.flop / self.best_us / 1e3 if self.flop and self.best_us else None

    @property
    def speedup(self) -> float | None:
        """Untuned latency over best latency."""
        return self.untuned_us / self.best_us if self.untuned_us and self.best_us else None

    def to_json(self) -> dict[str, Any]:
        """The result as plain JSON values."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return {**plain, "speedup": self.speedup, "gflops": self.gflops}


class TrialMeter:
    """Counts the trials of one task, keeps the curve of its best latency, and times the task during its turns."""

    def __init__(self, on_trial: Callable[[int, float | None], None] | None = None) -> None:
        self.stages = StageTimer(WAITING)
        self.trials = self.failures = 0
        self.best_us: float | None = None
        self.failed_as: dict[str, int] = {}
        self.curve: list[tuple[int, float, float]] = []
        self.measured_us: list[float | None] = []
        self._on_trial = on_trial

    def measured_before(self, latency_s: Sequence[float]) -> None:
        """Counts what an earlier search measured (infinite if it failed), which takes no time of this search.

        The database does not keep their order, so the curve begins with the best of them.
        """
        ran = [seconds for seconds in latency_s if math.isfinite(seconds)]
        self.trials += len(latency_s)
        self.failures += len(latency_s) - len(ran)
        self.measured_us += [seconds * 1e6 if math.isfinite(seconds) else None for seconds in latency_s]
        if ran:
            self._ran(min(ran), 0.0)

    def measured(self, latency_s: float | None, status: str) -> None:
        """Counts a trial, with its status; None for one that failed."""
        self.trials += 1
        self.measured_us.append(None if latency_s is None else latency_s * 1e6)
        if latency_s is None:
            self.failures += 1
            self.failed_as[status] = self.failed_as.get(status, 0) + 1
        else:
            self._ran(latency_s, sum(self.stages.seconds().values()))
        if self._on_trial:
            self._on_trial(self.trials, self.best_us)

    def _ran(self, latency_s: float, seconds: float) -> None:
        self.best_us = min(latency_s * 1e6, self.best_us or float("inf"))
        self.curve.append((self.trials, seconds, self.best_us))

    def result(
        self,
        workload: str,
        health: Health,
        untuned_us: float | None,
        flop: float | None = None,
        *,
        space: str | None = None,
    ) -> TuneResult:
        """The result of the search."""
        stages = self.stages.seconds()
        return TuneResult(
            workload,
            self.trials,
            self.failures,
            sum(stages.values()),
            untuned_us,
            self.best_us,
            self.curve,
            health,
            stages,
            self.failed_as,
            self.measured_us,
            flop,
            space,
        )
