"""Provides Strategy and Explorer: how a search proposes programs, and the strategies of the core."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tvm.ir.utils import derived_object
from tvm.s_tir.meta_schedule.arg_info import ArgInfo
from tvm.s_tir.meta_schedule.search_strategy import MeasureCandidate, PySearchStrategy

from costhub.collector.propose.spaces import BLOCKED, DEFAULT
from costhub.search.strategies.search_space import (
    EPSILON,
    DatabaseRecord,
    ScheduledProgram,
    SearchSpace,
    latency_of,
    read_records,
)

RANDOM_POOL = 768
"""Programs that a strategy scores per batch: as many as an evolution of 256 programs over two generations, which makes
strategies comparable."""
SIZES = {DEFAULT: (128, 1, 3.0), BLOCKED: (64, 1, 1.0)}
"""Design space -> population, generations and pressure of TVM's evolution. Larger ones find no better programs in the
time that they take; the space of blocked layouts holds few programs (docs/measured/search.md)."""


class Strategy(Protocol):
    """A way to search, for `costhub.search.tune.tune` and TVM's own tuning functions alike."""

    @property
    def name(self) -> str:
        """A key of `STRATEGIES`."""

    def to_tvm(self) -> Any:
        """A new ``ms.search_strategy.SearchStrategy``, for one task or to be cloned for each of several."""


class Exploration(Protocol):
    """A strategy at work on one workload, for the duration of the search."""

    def explore(self, count: int) -> None:
        """Scores programs by ``space.score``; the best of them that are new will be measured.

        Args:
            count: How many will be measured.
        """


class Explorer(ABC):
    """A strategy in plain Python: it only scores programs.

    Post-processing, the random programs among those measured, and TVM's interface are the same for all strategies.
    """

    name: str
    """A key of `STRATEGIES`."""

    @abstractmethod
    def begin(self, space: SearchSpace) -> Exploration:
        """Begins with one workload."""

    def to_tvm(self) -> Any:
        """See `Strategy`."""
        return TvmStrategy(self)


@derived_object
class TvmStrategy(PySearchStrategy):  # type: ignore[misc]  # TVM's base is untyped
    """Proposes the programs to which an explorer gave the best scores, and a few random ones.

    *Learning to Optimize Tensor Programs* (Chen et al., NeurIPS 2018), section 3.3, uses a share of 0.05 of
    random ones, and so does TVM's evolutionary search.

    Args:
        explorer: Looks for programs.
    """

    def __init__(self, explorer: Explorer) -> None:
        super().__init__()
        self.explorer = explorer
        self._context: Any = None
        self._space: SearchSpace | None = None
        self._exploration: Exploration | None = None
        self._left = self._batch = 0

    def _initialize_with_tune_context(self, context: Any) -> None:
        self._context = context

    def pre_tuning(
        self,
        max_trials: int,
        num_trials_per_iter: int,
        design_spaces: Sequence[Any],
        database: Any = None,
        cost_model: Any = None,
    ) -> None:
        """Begins the search with what the database holds for the workload and target."""
        self._left, self._batch = int(max_trials), int(num_trials_per_iter)
        records = [] if database is None else _records_of_task(database, self._context)
        # A search that continues must not draw again what it drew at first.
        seed = abs(int(self._context.rand_state)) + len(records)
        self._space = SearchSpace(self._context, list(design_spaces), cost_model, seed=seed)
        self._space.measured_before([(each.record.trace, each.latency_s) for each in records])
        self._exploration = self.explorer.begin(self._space)

    def post_tuning(self) -> None:
        """Lets go of the context, which holds this object."""
        self._context = self._space = self._exploration = None

    def generate_measure_candidates(self) -> list[Any] | None:
        """The next batch; None if all trials are spent or the space has no more."""
        space, exploration = self._space, self._exploration
        if space is None or exploration is None or self._left <= 0:
            return None
        count = min(self._batch, self._left)
        space.new_round()
        exploration.explore(count)
        chosen = space.best_new(count - int(space.rng.binomial(count, EPSILON)))
        if len(chosen) < count:
            chosen += space.propose(space.random(count - len(chosen)))
        return [measure_candidate(program) for program in chosen] or None

    def notify_runner_results(self, measure_candidates: Sequence[Any], results: Sequence[Any]) -> None:
        """Learns how fast the programs are."""
        self._left -= len(results)
        if self._space is not None:
            for candidate, result in zip(measure_candidates, results, strict=True):
                self._space.add_measured(candidate.sch.trace, latency_of(result))

    def clone(self) -> Any:
        """The same, for another task."""
        return TvmStrategy(self.explorer)


def _records_of_task(database: Any, context: Any) -> list[DatabaseRecord]:
    """What a database holds for workload and target, including failures."""
    if not database.has_workload(context.mod):
        return []
    return read_records(database, context.target, database.commit_workload(context.mod))


def measure_candidate(program: ScheduledProgram) -> Any:
    """The ``ms.MeasureCandidate`` of a program, whose arguments are in the layout that the schedule chose."""
    arguments = ArgInfo.from_entry_func(program.schedule.mod, remove_preproc=True)
    return MeasureCandidate(program.schedule, arguments)


@dataclass(frozen=True)
class Evolutionary:
    """TVM's evolutionary search (*Tensor Program Optimization with Probabilistic Programs*, section 4).

    Example:
        >>> Evolutionary().sized("blocked"), Evolutionary(population=99).sized("blocked").population
        (Evolutionary(population=64, generations=1, pressure=1.0), 99)
    """

    population: int | None = None
    """Programs per generation; by default as given by `SIZES` for the design space."""
    generations: int | None = None
    """How often they are changed for a batch; by default as given by `SIZES`."""
    pressure: float | None = None
    """How strongly parents with high scores are preferred, see `costhub.search.search_model.PositiveScores`; by default
    as given by `SIZES`."""

    name = "evolutionary"

    def sized(self, space: str) -> Evolutionary:
        """The same strategy, with the sizes for a design space where none were given.

        Args:
            space: Its name, see `costhub.collector.propose.spaces`.
        """
        population, generations, pressure = SIZES.get(space, SIZES[DEFAULT])
        return Evolutionary(self.population or population, self.generations or generations, self.pressure or pressure)

    def to_tvm(self) -> Any:
        """See `Strategy`."""
        from tvm.s_tir import meta_schedule as ms

        own = self.sized(DEFAULT)
        return ms.search_strategy.EvolutionarySearch(population_size=own.population, genetic_num_iters=own.generations)


def pressure_of(strategy: Strategy | None, space: str) -> float:
    """How strongly a strategy prefers parents with high scores in a design space; 1 unless it is TVM's evolution.

    Example:
        >>> [pressure_of(strategy, "default") for strategy in (None, Evolutionary(pressure=2.0), Random())]
        [3.0, 2.0, 1.0]
    """
    evolution = strategy or Evolutionary()
    return (evolution.sized(space).pressure or 1.0) if isinstance(evolution, Evolutionary) else 1.0


@dataclass(frozen=True)
class RandomTopK(Explorer):
    """Draws a new pool for each batch: the simplest use of a model, which other strategies have to beat."""

    pool: int = RANDOM_POOL
    """Programs that are scored for a batch."""

    name = "random-top-k"

    def begin(self, space: SearchSpace) -> Exploration:
        """See `Explorer`."""
        return _RandomPool(space, self.pool)


@dataclass(frozen=True)
class Random(Explorer):
    """Measures random programs, without a model."""

    name = "random"

    def begin(self, space: SearchSpace) -> Exploration:
        """See `Explorer`."""
        return _NoScores()


@dataclass(frozen=True)
class _RandomPool:
    space: SearchSpace
    pool: int

    def explore(self, count: int) -> None:
        programs = self.space.random(max(count, self.pool))
        if programs:
            self.space.score(programs)


class _NoScores:
    """Scores nothing, so that random programs fill the batch."""

    def explore(self, count: int) -> None:
        pass
