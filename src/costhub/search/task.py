"""Provides SearchTask: the search over one workload, a batch of trials at a time."""

from __future__ import annotations

import logging
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import numpy as np

from costhub.collector.build.builder import BuildResult
from costhub.collector.measurer import BuiltProgram, Measurer, MeasureResult
from costhub.collector.propose.spaces import NamedSpace, failure, is_own, space_for
from costhub.dataset.workload import module_to_json
from costhub.errors import CosthubError, WorkloadError, last_line
from costhub.isolation.signals import uninterrupted
from costhub.models.protocol import Scores
from costhub.search.database import SearchDatabase
from costhub.search.options import Search
from costhub.search.proposals import OwnProposals
from costhub.search.result import BUILDING, EVOLUTION, LEARNING, OTHER, RUNNING, TrialMeter
from costhub.search.scheduler import TrialBatch
from costhub.search.selection import PROPOSED_PER_TRIAL, Shortlist
from costhub.search.strategies.search_space import latency_of
from costhub.search.strategies.strategy import Evolutionary
from costhub.search.tvm_seam import program_arguments, register_errors

MAX_REPEATED_BATCHES = 8
"""Batches in a row without a new program, after which the design space counts as exhausted."""
OWN_SHARE = 0.5
"""The largest share of a batch that may be known schedules or neighbours of the fastest."""
FAILED = "It failed in an earlier search."
_SILENT = logging.getLogger("costhub.tvm")


class SearchTask:
    """A search over one workload: a strategy proposes programs, and a model chooses which are worth measuring.

    Args:
        mod: The workload, a ``tvm.IRModule`` with one function.
        search: What proposes and selects; its models and scheduling are left to the caller.
        measurer: Builds and measures candidates.
        model: A ``ms.cost_model.CostModel``, which guides the search and learns.
        score: The same model's own scores for candidates in a context, for the task scheduler.
        database: What was measured before, and where new records go.
        meter: Counts trials and seconds; it shares its stopwatch with the model.
        trials: The most that this task may have.

    Raises:
        WorkloadError: TVM cannot build a design space.
    """

    def __init__(
        self,
        mod: Any,
        search: Search,
        measurer: Measurer,
        *,
        model: Any,
        score: Callable[[Any, Sequence[Any]], Scores] | None,
        database: SearchDatabase,
        meter: TrialMeter,
        trials: int,
    ) -> None:
        import tvm
        from tvm.s_tir import meta_schedule as ms

        self.mod, self.meter, self.model = mod, meter, model
        self.target = tvm.target.Target(measurer.target)
        self.before: list[TrialBatch] = []
        """What earlier searches measured, in batches of this search's size, with the scores of a model that has not
        learned from it."""
        self._measurer, self._database, self._score = measurer, database, score
        self._seen: set[int] = set()
        self._next: list[Any] | None = None
        self._unlearned: tuple[list[Any], list[Any]] | None = None
        self._batch = min(search.trials_per_round, trials)
        self._shortlist = None
        proposed_per_trial = 1
        if search.selection is not None:
            self._shortlist = Shortlist(search.selection, self._scores, seed=search.seed)
            proposed_per_trial = PROPOSED_PER_TRIAL
        space, strategy = space_for(mod, search.space), search.strategy or Evolutionary()
        self.space = space.name
        """Name of the design space."""
        if isinstance(strategy, Evolutionary):
            strategy = strategy.sized(space.name)
        _SILENT.setLevel(logging.ERROR)
        with meter.stages.during(EVOLUTION), _search_errors(), uninterrupted():
            self._context = ms.TuneContext(
                mod,  # not its function: TVM adds attributes to that, and records would belong to another workload
                target=self.target,
                space_generator=space.generator(self.target),
                search_strategy=strategy.to_tvm(),
                rand_state=ms.utils.fork_seed(search.seed + 1, n=1)[0],
                logger=_SILENT,
            ).clone()
            sketches = _sketches(self._context, space)
            self._own = OwnProposals(mod, search, self._context, sketches)
            self._resume()
            self._context.pre_tuning(
                proposed_per_trial * trials,
                proposed_per_trial * self._batch,
                sketches,
                database.database,
                model,
            )

    def round(self, most: int) -> TrialBatch | None:
        """Measures a batch of at most `most` programs, after the model has learned from the one before.

        Returns:
            What was measured, as if programs were waiting: only `waiting` looks for them. None if the design space has
            no more.

        Raises:
            WorkloadError: TVM's search fails on this workload.
            ScoreError: The model gives no usable scores.
            MeasureError: A process for building or running cannot be started.
        """
        stages = self.meter.stages
        with stages.during(OTHER), _search_errors():
            proposed = self._look_ahead()
            candidates, self._next = proposed[:most], proposed[most:] or None
            if not candidates:
                return None
            scores = self._scores(candidates)
            results = self._measured(candidates)
            self._unlearned = candidates, results
            with stages.during(EVOLUTION), uninterrupted():
                self._context.notify_runner_results(candidates, results)
                self._own.add(candidates, results)
        latency_s = np.array([latency_of(result) for result in results])
        return TrialBatch(latency_s, scores, waiting=0.0)

    def waiting(self) -> float:
        """The score of the best program that comes next; -inf if the design space has no more."""
        with self.meter.stages.during(OTHER), _search_errors():
            proposed = self._look_ahead()
            return float(self._scores(proposed).max()) if proposed else -math.inf

    def _look_ahead(self) -> list[Any]:
        """Learns from the last batch and proposes the next one; after the final batch, neither is of use."""
        if self._unlearned is not None:
            with self.meter.stages.during(LEARNING), uninterrupted():
                self.model.update(self._context, *self._unlearned)
            self._unlearned = None
        if self._next is None:
            self._next = self._new_candidates()
        return self._next

    def close(self) -> None:
        """Ends the search."""
        self._context.post_tuning()

    def _scores(self, candidates: Sequence[Any]) -> Scores:
        return np.zeros(len(candidates)) if self._score is None else self._score(self._context, candidates)

    def _new_candidates(self) -> list[Any]:
        """The candidates of the next batch that were never measured; none if the design space has no more.

        TVM does not consult its database, so a resumed search would propose its best programs again.
        """
        own = self._own_candidates()
        chosen: list[Any] = []
        for _ in range(MAX_REPEATED_BATCHES):
            with self.meter.stages.during(EVOLUTION), uninterrupted():
                proposed = list(self._context.generate_measure_candidates() or ())
            new = {s: c for c in proposed if (s := _structural_hash(c)) not in self._seen}
            self._seen.update(new)
            chosen = (
                list(new.values())
                if self._shortlist is None
                else self._shortlist.choose(list(new.values()), self._batch)
            )
            if chosen or not proposed:
                break
        return [*own, *chosen][: self._batch]

    def _own_candidates(self) -> list[Any]:
        """The best, by score, of costhub's own proposals that were never measured."""
        with self.meter.stages.during(EVOLUTION), uninterrupted():
            new = {s: c for c in self._own.propose() if (s := _structural_hash(c)) not in self._seen}
        if not new:
            return []
        structures, candidates = list(new), list(new.values())
        best = np.argsort(-self._scores(candidates), kind="stable")[: int(OWN_SHARE * self._batch)].tolist()
        self._seen.update(structures[place] for place in best)
        return [candidates[place] for place in best]

    def _measured(self, candidates: Sequence[Any]) -> list[Any]:
        """One ``ms.runner.RunnerResult`` each, kept in the database as soon as it arrives."""
        with self.meter.stages.during(BUILDING):
            built = self._measurer.builder.build([module_to_json(candidate.sch.mod) for candidate in candidates])
        results: list[Any] = [None] * len(candidates)
        try:
            for index, result in self._run(candidates, built):
                results[index] = self._kept(candidates[index], result.run_s, result.error, result.status)
        finally:
            for build in built:
                build.remove()
        return results

    def _run(self, candidates: Sequence[Any], built: Sequence[BuildResult]) -> Iterator[tuple[int, MeasureResult]]:
        """The index of each candidate and its measurement, as soon as it arrives."""
        programs = [
            BuiltProgram(build, program_arguments(candidate.args_info))
            for candidate, build in zip(candidates, built, strict=True)
        ]
        with closing(self._measurer.measure(programs)) as results:
            while True:
                with self.meter.stages.during(RUNNING):
                    measured = next(results, None)
                if measured is None:
                    return
                yield measured

    def _kept(self, candidate: Any, run_s: Sequence[float], error: str | None, status: str) -> Any:
        """Adds a record; returns the ``ms.runner.RunnerResult``."""
        from tvm.s_tir import meta_schedule as ms

        self._database.add(self.mod, candidate, list(run_s) or None, self.target)
        self.meter.measured(statistics.median(run_s) if run_s else None, status)
        return ms.runner.RunnerResult(list(run_s) or None, error)

    def _resume(self) -> None:
        """Counts and learns what an earlier search has measured."""
        from tvm.s_tir import meta_schedule as ms

        records = self._database.records(self.mod, self.target)
        if not records:
            return
        latency_s = np.array([math.inf if each.latency_s is None else each.latency_s for each in records])
        self.meter.measured_before(latency_s.tolist())
        candidates = [each.record.as_measure_candidate() for each in records]
        self._seen.update(map(_structural_hash, candidates))
        if self._shortlist is not None:
            self._shortlist.measured(candidates)
        results = [
            ms.runner.RunnerResult(list(each.run_s or ()) or None, None if each.run_s else FAILED) for each in records
        ]
        scores = self._scores(candidates)
        cuts = range(self._batch, len(records), self._batch)
        # The records come the fastest first; batches as they were measured have fast and slow programs alike.
        mixed = np.random.default_rng(0).permutation(len(records))
        parts = zip(np.split(latency_s[mixed], cuts), np.split(scores[mixed], cuts), strict=True)
        self.before = [TrialBatch(*part, waiting=0.0) for part in parts]
        self._own.add(candidates, results)
        with self.meter.stages.during(LEARNING):
            self.model.update(self._context, candidates, results)


def _sketches(context: Any, space: NamedSpace) -> Any:
    """The sketches of a design space, each a ``Schedule``; what a user's own code raises names its space."""
    try:
        return context.generate_design_space()
    except Exception as error:
        if is_own(space.name):
            raise failure(space.name, error) from error
        raise


def _structural_hash(candidate: Any) -> int:
    """The same for programs that are the same, whatever their decisions."""
    import tvm_ffi

    return int(tvm_ffi.structural_hash(candidate.sch.mod))


@contextmanager
def _search_errors() -> Iterator[None]:
    """What TVM's search raises becomes a `WorkloadError`; our own errors and ^C pass unchanged."""
    register_errors()
    try:
        yield
    except CosthubError:
        raise
    except Exception as error:
        raise WorkloadError(f"TVM's search failed on this workload: {last_line(error)}") from error
