"""Provides replay: plays a strategy against measured workloads and scores it between random search and the optimum."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from costhub.dataset.programs import IntArray
from costhub.errors import DataError, failing_as
from costhub.search.replay.strategies import ReplayFactory
from costhub.search.replay.workloads import Latencies, ReplayWorkload

if TYPE_CHECKING:
    from costhub.search.search_model import SearchModel

CUTOFF = 0.95
"""A search ends when random search is expected to have come this far from the median to the optimum,"""
MOST_TRIALS = 64
"""or after this many trials, as in `costhub tune`: later, random search is so close that differences are noise."""
BATCH = 16
"""Programs measured between two questions, as in `costhub tune`."""
NEAR = 0.95
"""Throughput relative to the optimum from which a program counts as found."""


@dataclass(frozen=True)
class ReplaySettings:
    """How a strategy is played."""

    batch: int = BATCH
    """Programs measured between two questions."""
    seeds: int = 5
    """Searches of each workload."""
    trials: int | None = None
    """Trials of each search; by default `budget`, at most 64."""

    def __post_init__(self) -> None:
        """Refuses numbers below 1."""
        for name in ("batch", "seeds", "trials"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}.")


@dataclass(frozen=True)
class ReplayScore:
    """How a strategy did on one workload."""

    workload_id: str
    name: str
    device_id: str
    programs: int
    """How many of the workload were measured."""
    trials: int
    """How many each search has."""
    score: float
    """1 if the optimum was found at once, 0 for random search, below 0 if worse."""
    curve: tuple[float, ...] = field(repr=False)
    """(trials,) optimum / best so far, averaged over the seeds."""
    random_curve: tuple[float, ...] = field(repr=False)
    """The same for random search, in expectation."""
    chosen: tuple[tuple[int, ...], ...] = field(repr=False)
    """(seeds, trials) the programs in the order in which they were measured."""

    @property
    def trials_to_near(self) -> int | None:
        """Trials after which the mean of the best so far is within 5 % of the optimum; None if it never is."""
        return next((number + 1 for number, share in enumerate(self.curve) if share >= NEAR), None)

    @property
    def random_trials_to_near(self) -> int | None:
        """The same for random search."""
        return next((number + 1 for number, share in enumerate(self.random_curve) if share >= NEAR), None)


def expected_best(latency_s: Latencies, trials: int) -> Latencies:
    """(trials,) expected latency of the best of 1, 2, ... programs, drawn at random without repetition.

    The chance that the k-th best of N is the best of n is C(N - k, n - 1) / C(N, n).

    Example:
        >>> expected_best(np.array([3.0, 1.0, 2.0]), 3).round(3).tolist()
        [2.0, 1.333, 1.0]
    """
    ordered = np.sort(latency_s)
    total, steps = len(ordered), np.diff(ordered)
    # C(N - k, n) / C(N, n): the chance that the k best are all missed; E = best + sum of the steps missed.
    missed, expected = np.ones(total), np.empty(trials)
    k = np.arange(total)
    for drawn in range(trials):
        missed = missed * np.clip(total - k - drawn, 0, None) / max(total - drawn, 1)
        expected[drawn] = ordered[0] + float(steps @ missed[1:])
    return expected


def budget(latency_s: Latencies) -> int:
    """Trials that random search needs, in expectation, for 95 % of the way from the median to the optimum.

    Example:
        >>> budget(np.arange(1.0, 101.0))
        29
    """
    goal = np.median(latency_s) - CUTOFF * (np.median(latency_s) - latency_s.min())
    reached = np.flatnonzero(expected_best(latency_s, len(latency_s)) <= goal)
    return int(reached[0]) + 1 if len(reached) else len(latency_s)


def play(
    workload: ReplayWorkload, factory: ReplayFactory, model: SearchModel | None, *, batch: int, trials: int, seed: int
) -> IntArray:
    """One search: asks, measures and tells until the trials are spent.

    Args:
        workload: What is searched.
        factory: Makes the strategy.
        model: A fresh one, or None.
        batch: Programs measured between two questions.
        trials: Programs measured in all, at most as many as there are.
        seed: Seed of the strategy.

    Returns:
        (trials,) programs in the order in which they were measured.

    Raises:
        DataError: The strategy fails, asks for nothing, or for programs that do not exist or were measured before.
    """
    with failing_as(DataError, "The strategy"):
        strategy = factory(workload.task, model=model, seed=seed)
    name = type(strategy).__name__
    chosen: list[int] = []
    rest = set(range(workload.task.n))
    while len(chosen) < min(trials, workload.task.n):
        count = min(batch, trials - len(chosen), len(rest))
        with failing_as(DataError, f"`ask` of {name}"):
            asked = checked_positions(strategy.ask(count), rest, strategy=name)[:count]
        rest.difference_update(asked)
        chosen += asked
        programs = np.array(asked, np.int64)
        with failing_as(DataError, f"`tell` of {name}"):
            strategy.tell(programs, workload.latency_s[programs].copy())
    return np.array(chosen, np.int64)


def checked_positions(asked: Sequence[int] | IntArray, rest: set[int], *, strategy: str) -> list[int]:
    """What a strategy asked for, as numbers.

    Raises:
        DataError: It is not a list of positions, each given once, of programs that have not been measured yet.

    Example:
        >>> checked_positions(np.array([2, 0]), {0, 1, 2}, strategy="Mine")
        [2, 0]
    """
    try:
        found = [int(place) for place in asked]
    except (TypeError, ValueError) as error:
        raise DataError(f"`ask` of {strategy} must return positions of programs, got {asked!r:.80}.") from error
    if not found:
        raise DataError(f"`ask` of {strategy} returned no program; it must return at least one.")
    if len(set(found)) < len(found) or not rest.issuperset(found):
        wrong = next((place for place in found if place not in rest), found[0])
        raise DataError(
            f"`ask` of {strategy} returned program {wrong}, which does not exist, was measured before or was named "
            "twice; it must return positions of programs that have not been told yet, each once."
        )
    return found


def replay(
    workload: ReplayWorkload,
    factory: ReplayFactory,
    new_model: Callable[[int], SearchModel | None],
    settings: ReplaySettings,
) -> ReplayScore:
    """Plays a strategy against one workload with several seeds.

    The score is that of Willemsen et al. (2024), with trials in place of time: at each trial, how far the mean of the
    best latencies is on the way from random search to the optimum, averaged over the trials.

    Args:
        workload: What is searched.
        factory: Makes the strategy.
        new_model: Seed -> the model that the strategy is given.
        settings: How it is played.

    Raises:
        DataError: As for `play`.

    Example:
        >>> from costhub.search.replay.strategies import REPLAY_STRATEGIES
        >>> from costhub.testing import made_replay
        >>> found = replay(made_replay(), REPLAY_STRATEGIES["genetic"], lambda seed: None, ReplaySettings(seeds=2))
        >>> -1.0 < found.score <= 1.0
        True
    """
    latency_s, n = workload.latency_s, workload.task.n
    trials = min(settings.trials or min(budget(latency_s), MOST_TRIALS), n)
    chosen = [
        play(workload, factory, new_model(seed), batch=settings.batch, trials=trials, seed=seed)
        for seed in range(settings.seeds)
    ]
    best = np.mean([np.minimum.accumulate(latency_s[own]) for own in chosen], axis=0)
    by_chance = expected_best(latency_s, trials)
    return ReplayScore(
        workload.task.workload_id,
        workload.task.name,
        workload.task.device_id,
        n,
        trials,
        score_of(best, by_chance, workload.best_s),
        tuple((workload.best_s / best).tolist()),
        tuple((workload.best_s / by_chance).tolist()),
        tuple(tuple(own.tolist()) for own in chosen),
    )


def score_of(best_s: Latencies, random_s: Latencies, optimum_s: float) -> float:
    """Mean over the trials of the share of the way from random search to the optimum.

    Args:
        best_s: (trials,) best latency so far.
        random_s: (trials,) the same for random search.
        optimum_s: The lowest latency of all.

    Example:
        >>> score_of(np.array([2.0, 1.0]), np.array([3.0, 2.0]), 1.0)
        0.75
    """
    way = random_s - optimum_s
    open_way = way > 1e-9 * optimum_s
    if not open_way.any():
        return 0.0 if math.isclose(float(best_s[-1]), optimum_s) else -math.inf
    return float(np.mean((random_s - best_s)[open_way] / way[open_way]))
