"""Provides OwnProposals: programs that a search measures in addition to those of its strategy.

At first these are known schedules, such as the fastest that the hub has of the very workload. Later they are the
neighbours of the fastest programs measured so far, each one decision away, as in a coordinate descent: *Explore as a
Storm, Exploit as a Raindrop* (Canesche, Verma and Pereira, arXiv 2406.20037, 2024) ends Ansor's search with one. The
model chooses among them.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from costhub.search.knobs import SketchKnobs
from costhub.search.options import Search
from costhub.search.strategies.search_space import ScheduledProgram, SearchSpace, latency_of, unchanged
from costhub.search.strategies.strategy import measure_candidate
from costhub.search.zero_trials.carry import SketchTraces
from costhub.search.zero_trials.ranking import known_programs

BEGIN_FROM = 2
"""How many of the fastest programs have their neighbours considered."""


class OwnProposals:
    """The programs of one workload that costhub proposes itself.

    Args:
        mod: The workload, a ``tvm.IRModule``.
        search: Its `known`, `known_sources` and `descends` determine what is proposed.
        context: The ``ms.TuneContext`` of workload and target.
        sketches: What ``context.generate_design_space()`` returned.
    """

    def __init__(self, mod: Any, search: Search, context: Any, sketches: Sequence[Any]) -> None:
        self._mod, self._search, self._context, self._design = mod, search, context, sketches
        self._measured: list[tuple[float, Any]] = []

    @cached_property
    def _space(self) -> SearchSpace:
        return SearchSpace(self._context, self._design, None, seed=self._search.seed)

    @cached_property
    def _sketches(self) -> SketchTraces:
        # A GPU's target has no cores, and its programs no number of tasks that depends on them.
        return SketchTraces(self._design, int(self._context.target.attrs.get("num-cores", 1)))

    def propose(self) -> list[Any]:
        """A ``MeasureCandidate`` each: known schedules at first, neighbours of the fastest once something ran."""
        programs = self._neighbours() if self._measured else self._known()
        return [measure_candidate(each) for each in programs]

    def add(self, candidates: Sequence[Any], results: Sequence[Any]) -> None:
        """Takes what was measured, whatever its origin: ``MeasureCandidate`` and ``RunnerResult`` objects."""
        for candidate, result in zip(candidates, results, strict=True):
            latency_s = latency_of(result)
            if math.isfinite(latency_s):
                self._measured.append((latency_s, candidate.sch.trace))

    def _known(self) -> list[ScheduledProgram]:
        if self._search.known is None:
            return []
        found = known_programs(self._mod, self._space, self._sketches, self._search.known, self._search.known_sources)
        return _different(program for program, _ in found)

    def _neighbours(self) -> list[ScheduledProgram]:
        if not self._search.descends:
            return []
        fastest = heapq.nsmallest(BEGIN_FROM, self._measured, key=lambda pair: pair[0])
        turned = [partial(unchanged, trace) for _, own in fastest for trace in _one_step_away(own)]
        return _different(each for each in self._space.programs(turned) if each is not None)


def _one_step_away(trace: Any) -> Iterator[Any]:
    """Traces in which one knob is turned by a step."""
    knobs = SketchKnobs.of(trace)
    for place in range(len(knobs.knobs)):
        for step in (-1, 1):
            directions = np.zeros(len(knobs.knobs), dtype=np.int64)
            directions[place] = step
            yield knobs.turned(trace, directions)


def _different(programs: Iterable[ScheduledProgram]) -> list[ScheduledProgram]:
    return list({each.structure: each for each in programs}.values())
