"""Provides TaskScheduler: shares a budget of trials over several tasks, batch by batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from costhub.dataset.programs import BoolArray
from costhub.models.protocol import Scores


@dataclass(frozen=True)
class TrialBatch:
    """Programs of one task that were measured together.

    Example:
        >>> first = TrialBatch(np.array([2e-3, np.inf]), np.array([-0.1, -0.2]), waiting=-0.3)
        >>> first.n, first.is_ok.tolist()
        (2, [True, False])
    """

    latency_s: Scores
    """(b,) in seconds; infinite for a program that failed."""
    scores: Scores
    """(b,) the model's scores before they were measured; higher is faster."""
    waiting: float = -math.inf
    """Score of the best program not yet measured, by the model after learning from this batch; -inf if
    none is left."""

    def __post_init__(self) -> None:
        if self.latency_s.ndim != 1 or self.latency_s.shape != self.scores.shape or not len(self.scores):
            raise ValueError(
                "A batch needs one latency and one score for each of its programs, got shapes "
                f"{self.latency_s.shape} and {self.scores.shape}."
            )

    @property
    def n(self) -> int:
        """Number of programs."""
        return len(self.latency_s)

    @property
    def is_ok(self) -> BoolArray:
        """(b,) whether the program ran."""
        return np.isfinite(self.latency_s)


def best_after(batches: Sequence[TrialBatch]) -> Scores:
    """(t,) best latency in seconds after each of t batches; infinite as long as nothing has run.

    Example:
        >>> batches = [TrialBatch(np.array([ms]), np.zeros(1)) for ms in (np.inf, 4.0, 5.0, 3.0)]
        >>> best_after(batches).tolist()
        [inf, 4.0, 4.0, 3.0]
    """
    best: Scores = np.minimum.accumulate(np.array([batch.latency_s.min() for batch in batches]))
    return best


@dataclass
class ScheduledTask:
    """A workload on a device under search.

    Example:
        >>> ScheduledTask("conv", weight=3.0).best_s
        inf
    """

    name: str
    weight: float = 1.0
    """How often it occurs in the network."""
    batches: list[TrialBatch] = field(default_factory=list)
    exhausted: bool = False
    """Whether no program is waiting."""

    @property
    def trials(self) -> int:
        """Programs measured."""
        return sum(batch.n for batch in self.batches)

    @property
    def best_s(self) -> float:
        """Best latency in seconds; infinite as long as nothing has run."""
        return float(best_after(self.batches)[-1]) if self.batches else math.inf


Priority = Callable[[ScheduledTask], float]
"""The task with the highest value is measured next; each already has a batch."""


class StopRule(Protocol):
    """Says when a task is no longer worth measuring; one rule serves any number of tasks."""

    def reason_to_stop(self, task: ScheduledTask, scheduler: TaskScheduler, /) -> str | None:
        """Why the task should not be measured further, as a sentence; None as long as it should.

        Args:
            task: A task with at least one batch.
            scheduler: All tasks of the search, each with a batch unless it has no programs.
        """


class TaskRule:
    """A `StopRule` that looks only at the batches of the task."""

    why = "New trials promise too little gain."

    def should_continue(self, batches: Sequence[TrialBatch]) -> bool:
        """Whether the task should be measured further.

        Args:
            batches: Everything that was measured of it, at least one batch, in the order of measuring.
        """
        raise NotImplementedError

    def reason_to_stop(self, task: ScheduledTask, scheduler: TaskScheduler) -> str | None:
        """See `StopRule`."""
        return None if self.should_continue(task.batches) else self.why


_MIN_PROGRAMS = 3
"""The fewest programs that determine a line and the spread about it."""
_LEAST_DEVIATION = 1e-9
"""Least standard deviation of scores that differ, relative to the largest: models round at 1e-12."""


@dataclass(frozen=True)
class GainEstimate:
    """The expected gain of another batch: what the model foresees, and what it does not.

    *Foreseen* is the expected improvement (Jones et al., 1998, equation 15) of the best waiting program.
    Its log latency is read off a line fitted to the scores and measured log latencies of the last batches;
    their spread about the line is its uncertainty. The scores were given before measuring, so they show how
    right the model is about the programs it picks, which it always overrates. Any scale of scores will do.

    *Unforeseen* is a record by chance. Among n + 1 batches that are alike, the last is the best with
    probability 1 / (n + 1) (Renyi, 1962); `record_gain` is what a record gains. Without this part the
    estimate is overconfident, since it ignores what the model will still learn, and rules and allotments
    based on it do worse than those that use no model (scripts/bench/transfer/controller.py).

    Example:
        >>> scores, waiting = np.array([-0.1, -0.2, -0.3, -0.4]), (-0.05, -0.45)
        >>> batches = [TrialBatch(np.exp(-scores), scores, waiting=score) for score in waiting]
        >>> [round(GainEstimate(record_gain=0.0)([batch]), 3) for batch in batches]
        [0.05, 0.0]
        >>> GainEstimate(record_gain=0.1)(batches[1:])
        0.05
    """

    window: int = 2
    """Batches that show how right the model is."""
    record_gain: float = 0.1
    """Share of the latency."""

    def __post_init__(self) -> None:
        if self.window < 1 or self.record_gain < 0.0:
            raise ValueError(
                f"window must be at least 1 and record_gain not negative, got {self.window} and {self.record_gain}."
            )

    def __call__(self, batches: Sequence[TrialBatch]) -> float:
        """The expected decrease of the log latency, roughly the share of the latency saved; 0 if no program waits.

        Args:
            batches: Everything that was measured of a task, in the order of measuring.
        """
        if batches[-1].waiting == -np.inf:
            return 0.0
        return self._foreseen(batches) + self.record_gain / (len(batches) + 1)

    def _foreseen(self, batches: Sequence[TrialBatch]) -> float:
        line = score_line(batches[-self.window :])
        if line is None:
            return 0.0
        best = -float(np.log(best_after(batches)[-1]))
        return line.ran * _expected_improvement(line.log_speed(batches[-1].waiting) - best, line.spread)


@dataclass(frozen=True)
class ScoreLine:
    """What scores mean in log throughput, from programs that were first scored and then measured."""

    slope: float
    """Log throughput per unit of the score; at least 0."""
    score: float
    """Mean of the scores."""
    speed: float
    """Mean of the log throughputs."""
    spread: float
    """Standard deviation about the line."""
    ran: float
    """Share of the programs that ran."""

    def log_speed(self, score: float) -> float:
        """The log throughput that the line gives a score."""
        return self.speed + self.slope * (score - self.score)


def score_line(batches: Sequence[TrialBatch]) -> ScoreLine | None:
    """The line through the scores and the log throughputs of some batches; None if fewer than three programs ran.

    Example:
        >>> scores = np.array([-0.2, -0.4, -0.6])
        >>> line = score_line([TrialBatch(np.exp(-scores), scores / 2)])
        >>> round(line.slope, 6), round(line.log_speed(-0.1), 6)
        (2.0, -0.2)
    """
    ran = np.concatenate([batch.is_ok for batch in batches])
    if ran.sum() < _MIN_PROGRAMS:
        return None
    scores = np.concatenate([batch.scores for batch in batches])[ran]
    speed = -np.log(np.concatenate([batch.latency_s for batch in batches])[ran])
    deviation = float(scores.std())
    # Never a falling line, and a level one if all scored the same but for the rounding of their mean.
    covariance = float(np.mean((scores - scores.mean()) * speed))
    is_level = deviation <= _LEAST_DEVIATION * float(np.abs(scores).max())
    slope = 0.0 if is_level else max(0.0, covariance / deviation**2)
    spread = float(np.std(speed - slope * scores, ddof=1))
    return ScoreLine(slope, float(scores.mean()), float(speed.mean()), spread, float(ran.mean()))


def _expected_improvement(gain: float, spread: float) -> float:
    """E max(x, 0) for a normal x with this mean and standard deviation (Jones et al., 1998, equation 15).

    Example:
        >>> [round(_expected_improvement(*each), 4) for each in ((1.0, 0.0), (0.0, 1.0), (-9.0, 0.1))]
        [1.0, 0.3989, 0.0]
    """
    if spread == 0.0:
        return max(gain, 0.0)
    z = gain / spread
    below = 0.5 * math.erfc(-z / math.sqrt(2.0))
    density = math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    return max(gain * below + spread * density, 0.0)


@dataclass(frozen=True)
class ExpectedGain:
    """Weight times best latency times the share of the latency that the next batch is expected to save.

    Example:
        >>> batch = TrialBatch(np.array([2.0, 2.0, 2.0]), np.zeros(3), waiting=0.0)
        >>> round(ExpectedGain(GainEstimate(record_gain=0.1))(ScheduledTask("conv", 3.0, [batch])), 6)
        0.3
    """

    estimate: GainEstimate = field(default_factory=GainEstimate)

    def __call__(self, task: ScheduledTask) -> float:
        """See `Priority`, in seconds; a task without a program that ran comes last."""
        best = task.best_s
        return task.weight * best * self.estimate(task.batches) if math.isfinite(best) else -math.inf


class TaskScheduler:
    """Which task is measured next, until the budget is spent or no task is worth measuring.

    Every task gets a first batch. Each further batch goes to the task with the highest priority among those
    that have programs left and that the rule has not ended; the trials that a task leaves go to the others.

    Args:
        weights: Task -> how often it occurs in the network.
        trials: Programs to measure, of all tasks together.
        priority: Compares tasks; by default by the time that the network is expected to gain.
        rule: Ends the measuring of a task, whose trials go to the others; without one, the whole budget is spent.
        first: Programs of a complete first batch; where earlier searches measured fewer, the rest comes first.

    Raises:
        ValueError: There are no tasks, or a weight is not positive.

    Example:
        >>> scheduler = TaskScheduler({"conv": 8.0, "relu": 1.0}, trials=12)
        >>> order = []
        >>> while (name := scheduler.next_task()) is not None:
        ...     order.append(name)
        ...     scheduler.add(name, TrialBatch(np.array([1.0, 1.1, 1.2]), np.zeros(3), waiting=0.0))
        >>> order
        ['conv', 'relu', 'conv', 'conv']
    """

    def __init__(
        self,
        weights: Mapping[str, float],
        *,
        trials: int,
        priority: Priority | None = None,
        rule: StopRule | None = None,
        first: int = 1,
    ) -> None:
        if not weights or not all(0.0 < weight < math.inf for weight in weights.values()):
            raise ValueError(f"Each task needs a weight above 0, got {dict(weights)}.")
        self.tasks = {name: ScheduledTask(name, weight) for name, weight in weights.items()}
        self.trials = trials
        self.priority = ExpectedGain() if priority is None else priority
        self.rule = rule
        self.first = first
        self.stopped: str | None = None
        """Why the rule ended the search with trials left; None while it has not."""

    @property
    def left(self) -> int:
        """Trials that have not been spent; the last batch may have to be smaller."""
        return max(0, self.trials - sum(task.trials for task in self.tasks.values()))

    @property
    def latency_s(self) -> float:
        """Weighted sum of the best latencies in seconds; infinite as long as a task has none."""
        return sum(task.weight * task.best_s for task in self.tasks.values())

    @property
    def fresh(self) -> int:
        """Tasks that wait for their first batch, or for the rest of it."""
        return len(self._incomplete)

    @property
    def most(self) -> int:
        """How many trials the next batch may take, so that each task gets a first one."""
        if not (waiting := self._incomplete):
            return self.left
        share, has_some = self.left // len(waiting), waiting[0].trials > 0
        return max(1, min(share, self.first - waiting[0].trials) if has_some else share)

    @property
    def _incomplete(self) -> list[ScheduledTask]:
        return [task for task in self.tasks.values() if task.trials < self.first and not task.exhausted]

    def next_task(self) -> str | None:
        """The name of the task to measure next; None if measuring is over.

        Among equals, the one that came first.
        """
        if not self.left:
            return None
        if incomplete := self._incomplete:
            return incomplete[0].name
        waiting = [task for task in self.tasks.values() if task.batches and not task.exhausted]
        reasons = {}
        # A rule may look at all tasks each time it is asked, so it is asked only until it finds nothing against one.
        for task in sorted(waiting, key=self.priority, reverse=True):
            reasons[task.name] = self.rule.reason_to_stop(task, self) if self.rule else None
            if reasons[task.name] is None:
                return task.name
        if waiting:
            self.stopped = reasons[waiting[-1].name]
        return None

    def add(self, name: str, batch: TrialBatch) -> None:
        """Adds the measurements of a task.

        Raises:
            KeyError: No task has this name.
        """
        task = self.tasks[name]
        task.batches.append(batch)
        task.exhausted = batch.waiting == -math.inf

    def set_waiting(self, name: str, waiting: float) -> None:
        """Sets what waits after the last batch of a task, see `TrialBatch.waiting`.

        Raises:
            KeyError: No task has this name.
        """
        task = self.tasks[name]
        self.add(name, replace(task.batches.pop(), waiting=waiting))

    def close(self, name: str) -> None:
        """Notes that a task has no more programs; its trials go to the others.

        Raises:
            KeyError: No task has this name.
        """
        self.tasks[name].exhausted = True


@dataclass(frozen=True)
class SearchProgress:
    """A search between two batches."""

    trials: int
    """Measured so far, including those of an earlier search."""
    most: int
    """The budget."""
    begun: int
    """Tasks with at least one measured program."""
    tasks: int
    """All tasks."""
    latency_us: float | None
    """Sum of the kernels' best latencies, each times its calls; None as long as one has no program that ran."""
    gain: float | None
    """Share of `latency_us` that one more batch of every task is expected to save, by the estimate of the rule that
    ends the search if it has one; None if unknown."""
    stopped: str | None = None
    """Why a rule ended the search; None while it goes on, and if all trials were spent."""


def search_progress(scheduler: TaskScheduler, *, foreseen: bool = True) -> SearchProgress:
    """Where the search of a scheduler stands.

    Args:
        scheduler: The scheduler, with everything that was measured, also by earlier searches.
        foreseen: Whether the last batch knows the score of what waits.

    Example:
        >>> scheduler = TaskScheduler({"conv": 2.0}, trials=6)
        >>> scheduler.add("conv", TrialBatch(np.full(3, 3e-6), np.zeros(3), waiting=0.0))
        >>> now = search_progress(scheduler)
        >>> now.trials, now.begun, now.latency_us, round(now.gain, 2)
        (3, 1, 6.0, 0.05)
    """
    tasks = scheduler.tasks.values()
    latency_us = scheduler.latency_s * 1e6 if math.isfinite(scheduler.latency_s) else None
    # A rule that ends searches has its own estimate: what is shown must be what it compares.
    expects = ExpectedGain(getattr(scheduler.rule, "estimate", None) or GainEstimate())
    expected = [expects(task) for task in tasks if task.batches]
    gain = None
    if foreseen and latency_us and len(expected) == len(tasks):
        gain = sum(seconds for seconds in expected if math.isfinite(seconds)) * 1e6 / latency_us
    begun = sum(bool(task.batches) for task in tasks)
    spent, most = scheduler.trials - scheduler.left, scheduler.trials
    return SearchProgress(spent, most, begun, len(tasks), latency_us, gain, scheduler.stopped)
