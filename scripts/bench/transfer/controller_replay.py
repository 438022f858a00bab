"""Replays searches that were measured to the end: where rules end them, and how schedulers share trials."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from costhub.models.metrics import rank_correlation
from costhub.papers.moses import CoefficientOfVariation, coefficient_of_variation
from costhub.papers.task_scheduling import ExpectedGainStop, GradientBased, Plateau, fewest_batches_first
from costhub.search.scheduler import (
    ExpectedGain,
    GainEstimate,
    Priority,
    ScheduledTask,
    StopRule,
    TaskRule,
    TaskScheduler,
    TrialBatch,
    best_after,
)
from scripts.bench.common.grids import every_choice
from scripts.bench.transfer.search_traces import SearchTrace

TOLERATED = 0.01
"""The share of latency that a rule may lose on the workloads it is chosen on."""
Options = dict[str, float]


def _fixed(trials: int, share: float) -> TaskRule:
    return CoefficientOfVariation(trials, share, threshold=0.0)


def _moses(trials: int, share: float, window: int, threshold: float) -> TaskRule:
    return CoefficientOfVariation(trials, share, threshold, window)


def _plateau(trials: int, batches: int, gain: float) -> TaskRule:
    return Plateau(batches, gain)


def _worthwhile(trials: int, window: int, record_gain: float, threshold: float) -> TaskRule:
    return ExpectedGainStop(threshold, GainEstimate(window, record_gain))


_THRESHOLDS = (0.0003, 0.001, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05)
RULES: dict[str, tuple[Callable[..., TaskRule], dict[str, Sequence[float]]]] = {
    "fixed share": (_fixed, {"share": np.arange(0.125, 1.0, 0.0625).tolist()}),
    "Moses": (
        _moses,
        {"share": (0.5, 0.75, 1.0), "window": (2, 4), "threshold": (0.01, 0.02, 0.03, 0.05, 0.1, 0.2)},
    ),
    "plateau": (_plateau, {"batches": (2, 3, 4, 5, 6), "gain": (0.001, 0.003, 0.01, 0.03, 0.1)}),
    "calibration alone": (
        _worthwhile,
        {"window": (2, 3, 4), "record_gain": (0.0,), "threshold": (0.00001, 0.0001, *_THRESHOLDS)},
    ),
    "worthwhile": (
        _worthwhile,
        {"window": (2, 3, 4), "record_gain": (0.03, 0.1), "threshold": _THRESHOLDS},
    ),
}
"""Name -> what makes the rule of a task with so many trials, and the options to choose from; the last one is
the threshold that a curve goes along."""


def options_of(rule: str) -> Iterator[Options]:
    """Every choice of options."""
    return every_choice(RULES[rule][1])


@dataclass(frozen=True)
class StoppedSearches:
    """Where a rule ended some searches."""

    saved: np.ndarray
    """(n,) share of the trials that was not measured."""
    lost: np.ndarray
    """(n,) log of best latency where it ended / at the end of the trials."""
    workloads: np.ndarray
    """(n,) workload of each."""

    @classmethod
    def of(cls, traces: Sequence[SearchTrace], rule: str, options: Options) -> StoppedSearches:
        """Asks the rule after each batch."""
        make, _ = RULES[rule]
        ends = [_end(trace, make(trace.trials, **options)) for trace in traces]
        saved, lost = np.array(ends).T.reshape(2, -1)
        return cls(saved, lost, np.array([trace.workload for trace in traces]))

    def each(self, values: np.ndarray) -> np.ndarray:
        """Means over the searches of each workload."""
        return np.array([values[self.workloads == name].mean() for name in np.unique(self.workloads)])

    def summary(self, traces: Sequence[SearchTrace]) -> dict[str, float]:
        """Means and standard errors over workloads, and what a fixed share of equal saving loses."""
        fixed = np.array([_lost_at(trace, 1.0 - self.saved.mean()) for trace in traces])
        lost, behind = self.each(self.lost), self.each(self.lost - fixed)
        return {
            "searches": len(self.saved),
            "workloads": len(lost),
            "saved": float(self.saved.mean()),
            "saved_se": _error(self.each(self.saved)),
            "lost": math.expm1(lost.mean()),
            "lost_se": _error(lost),
            "worst": math.expm1(self.lost.max()),
            "worst_workload": math.expm1(lost.max()),
            "lost_by_fixed": math.expm1(self.each(fixed).mean()),
            "behind_fixed": float(behind.mean()),
            "behind_fixed_se": _error(behind),
        }


def _end(trace: SearchTrace, rule: TaskRule) -> tuple[float, float]:
    counts = range(1, trace.full)
    end = next((count for count in counts if not rule.should_continue(trace.batches[:count])), trace.full)
    best = best_after(trace.batches[: trace.full])
    return 1.0 - end / trace.full, float(np.log(best[end - 1] / best[-1]))


def _lost_at(trace: SearchTrace, share: float) -> float:
    """What a share of the trials loses, interpolated between batches."""
    best = np.log(best_after(trace.batches[: trace.full]))
    return float(np.interp(share * trace.full, np.arange(1, trace.full + 1), best - best[-1]))


def in_hindsight(traces: Sequence[SearchTrace]) -> StoppedSearches:
    """Ends each search where it first comes within the tolerated loss of its end, which no rule can know."""
    ends = []
    for trace in traces:
        best = best_after(trace.batches[: trace.full])
        end = int(np.argmax(best <= best[-1] * (1.0 + TOLERATED)))
        ends.append((1.0 - (end + 1) / trace.full, float(np.log(best[end] / best[-1]))))
    saved, lost = np.array(ends).T
    return StoppedSearches(saved, lost, np.array([trace.workload for trace in traces]))


def choose(pairs: Mapping[str, Sequence[SearchTrace]], rule: str) -> Options:
    """The options that save most and lose no more than is tolerated, as means over the pairs.

    If all lose more, the options that lose least.
    """

    def worth(options: Options) -> tuple[bool, float]:
        ends = [StoppedSearches.of(traces, rule, options) for traces in pairs.values()]
        lost = math.expm1(np.mean([end.each(end.lost).mean() for end in ends]))
        saved = float(np.mean([end.saved.mean() for end in ends]))
        return lost <= TOLERATED, saved if lost <= TOLERATED else -lost

    return max(options_of(rule), key=worth)


def signals(traces: Sequence[SearchTrace], *, window: int = 4) -> dict[str, float]:
    """Rank correlation between what rules look at after each batch and the gain still to come."""
    seen: dict[str, list[float]] = {}
    for trace in traces:
        best = best_after(trace.batches[: trace.full])
        for count in range(window + 1, trace.full):
            so_far = trace.batches[:count]
            row = {
                "gain to come": float(np.log(best[count - 1] / best[-1])),
                "batches measured": -float(count),
                "variation of predictions": coefficient_of_variation(so_far[-window:]) or 0.0,
                "gain of the last batches": float(np.log(best[count - 1 - window] / best[count - 1])),
                "calibration alone": GainEstimate(window, 0.0)(so_far),
                "forecast": GainEstimate(window)(so_far),
            }
            for name, value in row.items():
                seen.setdefault(name, []).append(value)
    target = seen.pop("gain to come")
    return {name: rank_correlation(values, target) for name, values in seen.items()}


def at_other_budgets(traces: Sequence[SearchTrace], factor: float) -> list[SearchTrace]:
    """The same searches with another number of trials, as far as they were measured."""
    other = [replace(trace, trials=round(factor * trace.trials)) for trace in traces]
    return [trace for trace in other if len(trace.batches) >= trace.full]


@dataclass(frozen=True)
class NetworkTasks:
    """Tasks of one seed that share a budget."""

    name: str
    traces: tuple[SearchTrace, ...]
    weights: tuple[float, ...]

    @property
    def trials(self) -> int:
        """The sum of what its tasks get by themselves."""
        return sum(trace.trials for trace in self.traces)

    def shared(self, priority: Priority, rule: StopRule | None) -> tuple[np.ndarray, float]:
        """Replays an scheduler.

        Returns:
            (trials,) weighted latency in seconds after as many, infinite before all tasks have begun; and the
            share of the trials that was spent when the last task ended.
        """
        by_name = {trace.workload: trace for trace in self.traces}
        weights = dict(zip(by_name, self.weights, strict=True))
        scheduler = TaskScheduler(weights, trials=self.trials, priority=_remembered(priority), rule=rule)
        latency_s = np.full(self.trials, np.inf)
        while (name := scheduler.next_task()) is not None:
            scheduler.add(name, _next(by_name[name], len(scheduler.tasks[name].batches)))
            latency_s[self.trials - scheduler.left - 1 :] = scheduler.latency_s
        return latency_s, 1.0 - scheduler.left / self.trials

    def in_hindsight(self, trials: int) -> float:
        """The lowest weighted latency that so many trials can give, by dynamic programming."""
        batch = self.traces[0].batch
        best = np.zeros(1)
        for trace, weight in zip(self.traces, self.weights, strict=True):
            own = weight * best_after(trace.batches)
            sums = np.full(len(best) + len(own), np.inf)
            for count, latency_s in enumerate(own, start=1):
                sums[count : count + len(best)] = np.minimum(sums[count : count + len(best)], best + latency_s)
            best = sums
        return float(best[: trials // batch + 1].min())


def _next(trace: SearchTrace, count: int) -> TrialBatch:
    """The batch after so many; after the last one of the trace, nothing waits."""
    batch = trace.batches[count]
    return batch if count + 1 < len(trace.batches) else replace(batch, waiting=-math.inf)


def _remembered(priority: Priority) -> Priority:
    """The same, computed once for each state of a task."""
    values: dict[tuple[str, int], float] = {}

    def value(task: ScheduledTask) -> float:
        key = (task.name, len(task.batches))
        if key not in values:
            values[key] = priority(task)
        return values[key]

    return value


def networks(
    traces: Sequence[SearchTrace], drawn_from: Sequence[SearchTrace], *, draws: int, tasks: int
) -> Iterator[NetworkTasks]:
    """The networks that the data names, and some with drawn tasks and weights, of each seed."""
    for seed in sorted({trace.seed for trace in traces}):
        own = [trace for trace in traces if trace.seed == seed]
        for name in sorted({name for trace in own for name in trace.weights}):
            part = [trace for trace in own if name in trace.weights]
            if len(part) >= tasks // 2:
                yield NetworkTasks(name, tuple(part), tuple(trace.weights[name] for trace in part))
        rng, part = np.random.default_rng(seed), [trace for trace in drawn_from if trace.seed == seed]
        for number in range(draws):
            chosen = rng.permutation(len(part))[:tasks]
            weights = rng.integers(1, 7, len(chosen)).astype(float)
            yield NetworkTasks(f"drawn {number}", tuple(part[i] for i in chosen), tuple(weights))


def strategies(rule: StopRule, forecast: GainEstimate) -> dict[str, tuple[Priority, StopRule | None]]:
    """Ways to share a budget, the baselines first."""
    return {
        "in rotation": (fewest_batches_first, None),
        "gradient (TVM)": (GradientBased(), None),
        "expected gain": (ExpectedGain(forecast), None),
        "calibration alone": (ExpectedGain(GainEstimate(forecast.window, 0.0)), None),
        "in rotation, stopped": (fewest_batches_first, rule),
        "gradient, stopped": (GradientBased(), rule),
        "expected gain, stopped": (ExpectedGain(forecast), rule),
    }


def _error(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0
