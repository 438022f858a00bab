"""Provides rank_programs: programs of one workload from all sources, ranked before anything is measured."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from costhub.collector.propose.sampler import open_design_space
from costhub.collector.propose.spaces import space_for
from costhub.models.protocol import CostModel
from costhub.search.result import StageTimer
from costhub.search.search_model import SearchModel
from costhub.search.strategies.search_space import ScheduledProgram, SearchSpace, unchanged
from costhub.search.tvm_seam import TvmCostModel
from costhub.search.zero_trials.carry import SketchTraces
from costhub.search.zero_trials.known import KnownSchedule, KnownSchedules
from costhub.search.zero_trials.plan import CARRIED, CHOSEN, MEASURED, SOURCES, ZeroTrialPlan
from costhub.transfer.methods.method import Frozen

SPACE, CARRYING, CHOOSING = "space", "carrying", "choosing"
"""Stages: making the design space, replaying known schedules, and drawing and changing programs for the model."""


@dataclass(frozen=True)
class Origin:
    """Where a program comes from."""

    source: str
    """`MEASURED`, `CARRIED` or `CHOSEN`."""
    known: KnownSchedule | None = None
    """The measured schedule that it is, or from which it takes its decisions."""

    @property
    def comes_first(self) -> bool:
        """Whether the user measured this very program on the device that it is for."""
        known = self.known if self.source == MEASURED else None
        return known is not None and known.is_target and known.is_own


@dataclass(frozen=True)
class RankedProgram:
    """A program with what is expected of it."""

    program: ScheduledProgram
    origin: Origin
    rank: int
    """Its place by the model's score, counted from 1."""


@dataclass(frozen=True)
class Ranking:
    """The programs of a workload, the one to take first."""

    programs: tuple[RankedProgram, ...]
    counts: dict[str, int] = field(default_factory=dict)
    """Source -> programs that replay, each counted under the source that found it first."""
    stages: dict[str, float] = field(default_factory=dict)
    """Stage -> seconds of the ranking; features and predictions are stages of their own."""
    space: str | None = None
    """Name of the design space whose sketches all programs have."""


def rank_programs(mod: Any, target: str, model: CostModel, known: KnownSchedules, plan: ZeroTrialPlan) -> Ranking:
    """Ranks programs of a workload by a model that is not changed.

    Programs that the user's own data measured on the target device come first, the fastest first. All others follow by
    their scores, those measured by the hub included: the hub knows some dozens of programs of a workload, and the model
    often finds a faster one among hundreds (docs/compile.md).

    Args:
        mod: The workload, a ``tvm.IRModule``.
        target: The TVM target, as JSON.
        model: The cost model, bound to the device.
        known: Measured schedules.
        plan: Which programs to rank.

    Returns:
        The ranking; empty if the sources have nothing for this workload.

    Raises:
        WorkloadError: TVM cannot build the design space for the workload, or it is for another kind of target.
        ScoreError: The model gives no usable scores.
    """
    stages = StageTimer()
    with stages.during(SPACE):
        chosen = space_for(mod, plan.space)
        context, sketches = open_design_space(mod, target, chosen, plan.seed)
    # A space asks once for the score of a program.
    scorer = TvmCostModel(SearchModel(model, method=Frozen(), seed=plan.seed), stages=stages, remembers=False)
    space = SearchSpace(context, sketches, scorer, seed=plan.seed)
    origins: dict[int, Origin] = {}
    pool: dict[int, ScheduledProgram] = {}
    traces = SketchTraces(sketches, int(json.loads(target)["num-cores"]))
    with stages.during(CARRYING):
        for program, origin in known_programs(mod, space, traces, known, plan.sources):
            if program.structure not in pool:
                pool[program.structure], origins[program.structure] = program, origin
    if "model" in plan.sources:
        with stages.during(CHOOSING):
            for program in _chosen(space, list(pool.values()), plan):
                pool.setdefault(program.structure, program)
    programs = list(pool.values())
    scores = space.score(programs) if programs else np.zeros(0)
    ranked = [
        RankedProgram(programs[place], origins.get(programs[place].structure, Origin(CHOSEN)), rank)
        for rank, place in enumerate(np.argsort(-scores, kind="stable").tolist(), start=1)
    ]
    counts = {source: sum(each.origin.source == source for each in ranked) for source in SOURCES.values()}
    return Ranking(tuple(sorted(ranked, key=_order)), counts, stages.seconds(), chosen.name)


def _order(ranked: RankedProgram) -> tuple[float, int]:
    known = ranked.origin.known
    return (known.latency_us if ranked.origin.comes_first and known else float("inf"), ranked.rank)


def known_programs(
    mod: Any, space: SearchSpace, sketches: SketchTraces, known: KnownSchedules, sources: Collection[str]
) -> list[tuple[ScheduledProgram, Origin]]:
    """Programs with known decisions, those of the workload itself first; any that do not replay are left out.

    Args:
        mod: The workload, a ``tvm.IRModule``.
        space: Its programs.
        sketches: Its sketches, which take the decisions.
        known: Measured schedules.
        sources: Keys of `SOURCES`: ``measured``, ``carried`` or both.
    """
    wanted: list[tuple[Any, Origin]] = []
    if "measured" in sources:
        for each in known.measured(mod, sketches):
            wanted += [(trace, Origin(MEASURED, each)) for trace in sketches.unchanged(each.decisions, each.cores)]
    if "carried" in sources:
        for each in known.near(mod, sketches):
            wanted += [(trace, Origin(CARRIED, each)) for trace in sketches.carried(each.decisions, each.cores)]
    programs = space.programs([partial(unchanged, trace) for trace, _ in wanted])
    return [(program, origin) for program, (_, origin) in zip(programs, wanted, strict=True) if program is not None]


def _chosen(space: SearchSpace, begin: Sequence[ScheduledProgram], plan: ZeroTrialPlan) -> list[ScheduledProgram]:
    """Random programs, and the best of all after a few changes."""
    found = space.random(plan.pool)
    space.score([*begin, *found])
    for _ in range(plan.generations):
        parents = space.best(max(1, plan.children // 4))
        repeated = [parents[i % len(parents)].trace for i in range(plan.children)] if parents else []
        children = [program for program in space.neighbours(repeated) if program is not None]
        space.score(children)
        found += children
    return found
