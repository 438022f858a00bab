"""Provides SearchSpace: the programs of one workload, to be drawn, changed and scored by a strategy."""

from __future__ import annotations

import heapq
import math
import statistics
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from costhub.collector.propose.draws import TracePreview
from costhub.collector.propose.spaces import DesignSpace
from costhub.dataset.metaschedule.lines import STORED_FAILURE_S, UNMEASURED_S
from costhub.models.protocol import Scores

_Made = TypeVar("_Made")
EPSILON = 0.05
"""Share of candidates that are chosen at random, as in AutoTVM."""
MIN_SCORE = 1e-9
"""Stands in for a score of zero, which has no logarithm; below any of `PositiveScores`."""
DRAWS_PER_PROGRAM, MAX_BARREN_DRAWS = 4, 256
"""Draws per requested program, and draws in a row without a new one, after which a space is assumed to have no
more: on GPUs nine out of ten may be rejected."""


@dataclass(frozen=True)
class DatabaseRecord:
    """A program that an earlier search has measured."""

    record: Any
    """Its ``ms.database.TuningRecord``."""
    run_s: tuple[float, ...] | None
    """Seconds of each repeat; None if it failed."""

    @property
    def latency_s(self) -> float | None:
        """Their median."""
        return statistics.median(self.run_s) if self.run_s else None


def read_records(database: Any, target: Any, workload: Any = None, *, unmeasured: bool = False) -> list[DatabaseRecord]:
    """The records of a ``ms.database.Database`` for one target; TVM's own queries return those of any target.

    Args:
        database: The database.
        target: The target.
        workload: A ``ms.database.Workload`` in it; None for all of them.
        unmeasured: Include records of programs that were never measured, with `UNMEASURED_S` as their latency.
    """
    records = []
    for record in database.get_all_tuning_records():
        of_it = workload is None or record.workload.same_as(workload)
        if of_it and str(record.target) == str(target):
            seconds = tuple(float(s) for s in record.run_secs or ())
            if seconds == (UNMEASURED_S,) and not unmeasured:
                continue
            records.append(DatabaseRecord(record, seconds if seconds and max(seconds) < STORED_FAILURE_S else None))
    return records


def latency_of(result: Any) -> float:
    """Median seconds of a ``ms.runner.RunnerResult``; infinite for a run that failed."""
    if result.error_msg is not None or not result.run_secs:
        return math.inf
    return statistics.median(float(s) for s in result.run_secs)


@dataclass(frozen=True, eq=False)
class ScheduledProgram:
    """A scheduled workload that post-processing has accepted."""

    schedule: Any
    """Its ``Schedule``."""
    structure: int
    """Equal for equal programs, whatever their decisions."""

    @property
    def trace(self) -> Any:
        """Its ``Trace``."""
        return self.schedule.trace


class SearchSpace:
    """The programs of one workload, to be drawn, changed and scored by a strategy.

    Scored programs are remembered until `new_round`; a round results in the best of them that have not been
    proposed yet. Schedules are created by as many threads as the context has.

    Args:
        context: The ``ms.TuneContext`` of workload and target.
        sketches: Its design space.
        cost_model: The ``ms.cost_model.CostModel`` that guides the search; None for strategies that do not score.
        seed: The only source of randomness.
    """

    def __init__(self, context: Any, sketches: Sequence[Any], cost_model: Any, *, seed: int) -> None:
        from tvm.s_tir import meta_schedule as ms

        self.rng = np.random.default_rng(seed)
        self._context, self._cost_model = context, cost_model
        self._design = DesignSpace(context, sketches)
        self._preview = TracePreview(context, sketches)
        self._threads = int(context.num_threads)
        # No feature depends on the arguments, and determining them for each schedule is slow.
        self._arguments = ms.arg_info.ArgInfo.from_entry_func(context.mod, remove_preproc=False)
        self._scored: dict[int, tuple[float, ScheduledProgram]] = {}
        self._proposed: set[int] = set()
        self._measured: list[tuple[float, Any]] = []

    def new_round(self) -> None:
        """Forgets the scores: the model may have learned."""
        self._scored.clear()

    def measured_before(self, measured: Sequence[tuple[Any, float | None]]) -> None:
        """Takes traces and latencies (None for a failure) of an earlier search; none is proposed again."""
        for program in self.programs([partial(unchanged, trace) for trace, _ in measured]):
            if program is not None:
                self._proposed.add(program.structure)
        for trace, latency_s in measured:
            if latency_s is not None:
                self.add_measured(trace, latency_s)

    def add_measured(self, trace: Any, latency_s: float) -> None:
        """Takes a measured program; an infinite latency means that it failed."""
        if np.isfinite(latency_s):
            self._measured.append((latency_s, trace))

    def fastest(self, count: int) -> list[ScheduledProgram]:
        """The `count` fastest programs measured so far, the fastest first."""
        fastest = heapq.nsmallest(count, self._measured, key=lambda pair: pair[0])
        programs = self.programs([partial(unchanged, trace) for _, trace in fastest])
        return [program for program in programs if program is not None]

    def random(self, count: int) -> list[ScheduledProgram]:
        """Up to `count` different random programs that have not been proposed; fewer if the space has no more."""
        new: dict[int, ScheduledProgram] = {}
        made: dict[int, ScheduledProgram | None] = {}
        most = max(MAX_BARREN_DRAWS, DRAWS_PER_PROGRAM * count)
        drawn = barren = 0
        while len(new) < count and drawn < most and barren < MAX_BARREN_DRAWS:
            batch, before = min(count - len(new), most - drawn), len(new)
            for program in self._made([self._design.random] * batch, made):
                if program is not None and program.structure not in self._proposed:
                    new.setdefault(program.structure, program)
            drawn += batch
            barren = 0 if len(new) > before else barren + batch
        return list(new.values())

    def neighbours(self, traces: Sequence[Any]) -> list[ScheduledProgram | None]:
        """One program near each trace, made by one of TVM's mutators; None if that yields no program."""
        if not self._design.mutates:
            return [None] * len(traces)
        return self.programs([partial(self._design.mutated, trace, most=1) for trace in traces])

    def programs(self, proposals: Sequence[Callable[[np.random.Generator], Any]]) -> list[ScheduledProgram | None]:
        """Post-processes proposed traces.

        Args:
            proposals: Each returns a ``Trace``; called with its own random numbers, possibly in another thread.

        Returns:
            One program each; None if TVM finds the decisions impossible.
        """
        return self._made(proposals, {})

    def _made(
        self,
        proposals: Sequence[Callable[[np.random.Generator], Any]],
        before: dict[int, ScheduledProgram | None],
    ) -> list[ScheduledProgram | None]:
        """Like `programs`; traces with equal decisions are replayed once.

        Args:
            proposals: As for `programs`.
            before: What became of earlier traces, by their keys; those of these proposals are added.
        """
        seeds = self.rng.integers(1, 2**30, size=len(proposals)).tolist()
        proposed = self._in_threads(self._trace, proposals, seeds)
        traces, keys = zip(*map(self._decided, proposed, seeds), strict=True) if seeds else ((), ())
        first: dict[int, int] = {}
        new = [
            place
            for place, key in enumerate(keys)
            if key is None or (key not in before and first.setdefault(key, place) == place)
        ]
        programs = self._in_threads(self._program, [traces[place] for place in new], [seeds[place] for place in new])
        found = dict(zip(new, programs, strict=True))
        before.update((key, found[place]) for place in new if (key := keys[place]) is not None)
        return [found[place] if key is None else before[key] for place, key in enumerate(keys)]

    def _in_threads(
        self, function: Callable[[Any, int], _Made], given: Sequence[Any], seeds: Sequence[int]
    ) -> list[_Made]:
        if self._threads == 1 or len(given) <= 1:
            return list(map(function, given, seeds))
        with ThreadPoolExecutor(self._threads) as pool:
            return list(pool.map(function, given, seeds))

    def score(self, programs: Sequence[ScheduledProgram]) -> Scores:
        """(n,) scores (higher is faster): logarithms of the scores that the model gives TVM.

        For costhub's models, that is their own score, in standard deviations.
        """
        from tvm.s_tir import meta_schedule as ms

        new = {p.structure: p for p in programs if p.structure not in self._scored}
        if new:
            candidates = [ms.MeasureCandidate(p.schedule, self._arguments) for p in new.values()]
            scores = np.asarray(self._cost_model.predict(self._context, candidates), dtype=np.float64)
            for program, score in zip(new.values(), np.log(np.fmax(scores, MIN_SCORE)).tolist(), strict=True):
                self._scored[program.structure] = score, program
        return np.array([self._scored[program.structure][0] for program in programs])

    def best(self, count: int, *, new: bool = False) -> list[ScheduledProgram]:
        """The `count` programs with the highest scores of this round, the best first.

        Args:
            count: How many to return at most.
            new: Whether to return only those that were never proposed.
        """
        scored = list(self._scored.values())
        if new:
            scored = [s for s in scored if s[1].structure not in self._proposed]
        return [program for _, program in heapq.nlargest(count, scored, key=lambda s: s[0])]

    def propose(self, programs: Sequence[ScheduledProgram]) -> list[ScheduledProgram]:
        """Those of `programs` that were never proposed; they will not be again."""
        new = {p.structure: p for p in programs if p.structure not in self._proposed}
        self._proposed.update(new)
        return list(new.values())

    def best_new(self, count: int) -> list[ScheduledProgram]:
        """Proposes the `count` best of this round that are new."""
        return self.propose(self.best(count, new=True))

    def _trace(self, propose: Callable[[np.random.Generator], Any], seed: int) -> Any:
        """The ``Trace`` of a proposal; None if TVM finds it impossible."""
        import tvm

        try:
            return propose(np.random.default_rng(seed))
        except (tvm.s_tir.ScheduleError, tvm.error.InternalError):  # a mutator has to replay some traces
            return None

    def _decided(self, trace: Any, seed: int) -> tuple[Any, int | None]:
        """A trace with the decisions that it will have, and its key; None where only a replay can tell."""
        return (None, None) if trace is None else self._preview.decided(trace, seed)

    def _program(self, trace: Any, seed: int) -> ScheduledProgram | None:
        import tvm_ffi

        # Traces that post-processing would reject for their decisions alone are not replayed.
        if trace is None or self._preview.refuses(trace):
            return None
        schedule = self._design.finish(trace, seed)
        return None if schedule is None else ScheduledProgram(schedule, int(tvm_ffi.structural_hash(schedule.mod)))


def unchanged(trace: Any, _: np.random.Generator) -> Any:
    """Proposes a trace as it is; ``partial(unchanged, trace)`` is one of the proposals of `SearchSpace.programs`."""
    return trace
