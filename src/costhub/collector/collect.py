"""Provides collect: measure a suite of workloads into a data folder, resumably."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from costhub.collector.batch import Outcome, Watch, measure_batch
from costhub.collector.builder import Builder
from costhub.collector.operators import FAMILY
from costhub.collector.row import Session
from costhub.collector.runner import Runner
from costhub.collector.sampler import Program, Sampler
from costhub.collector.suite import Workload
from costhub.dataset.folder import DataFolder
from costhub.dataset.shards.writer import MeasurementWriter
from costhub.dataset.workload_row import workload_row

BATCH = 32
PARENTS = 8
MUTATED_SHARE = 0.5
# The first programs of a workload are all random: there is nothing yet worth changing.
RANDOM_FIRST = 32


@dataclass
class Progress:
    """What a collection has done so far, as told to `on_outcome`."""

    done: int = 0
    good: int = 0
    failed: int = 0
    best_us: dict[str, float] = field(default_factory=dict)
    """Best latency in microseconds by workload name."""


@dataclass
class Plan:
    """One workload under collection."""

    workload: Workload
    workload_id: str
    sampler: Sampler
    attempts: int
    good: list[tuple[float, str]]
    """(latency in seconds, trace) of its good measurements."""
    exhausted: bool = False

    def propose(self, count: int) -> list[Program]:
        """The next programs: half mutations of the best so far, once there is a best."""
        mutated: list[Program] = []
        if self.attempts >= RANDOM_FIRST and self.good:
            parents = [trace for _, trace in sorted(self.good)[:PARENTS]]
            mutated = self.sampler.mutate(parents, int(count * MUTATED_SHARE))
        programs = self.sampler.random(count - len(mutated)) + mutated
        self.exhausted = not programs
        return programs

    def note(self, outcome: Outcome) -> None:
        """Counts an outcome and keeps what the next proposals need."""
        self.attempts += 1
        if outcome.ran is not None and outcome.ran.run_s:
            self.good.append((statistics.median(outcome.ran.run_s), outcome.program.trace))


def collect(
    workloads: Sequence[Workload],
    folder: DataFolder,
    *,
    session: Session,
    trials: int,
    budget_s: float,
    builder: Builder,
    runner: Runner,
    seed: int,
    on_outcome: Callable[[Plan, Outcome, Progress], None],
) -> Progress:
    """Measures up to `trials` programs of each workload within `budget_s`, the least measured workload first.

    Every row is safe on disk before the next program runs: an interruption at any moment loses at most the
    program in flight, and calling again goes on where it stopped.

    Raises:
        DataError: the folder holds something unreadable, or another collection is writing to it.
        WorkloadError: TVM cannot schedule a workload.
        MeasureError: the device no longer runs the reference kernel.
    """
    end = time.monotonic() + budget_s
    progress = Progress()
    with folder.writer(session.device_id) as writer:
        builder.launch()
        runner.launch()
        plans = _plans(workloads, folder, session, seed)
        watch = Watch(runner)
        while time.monotonic() < end:
            plan = _next_plan(plans, trials)
            if plan is None:
                break
            programs = plan.propose(min(BATCH, trials - plan.attempts))
            for outcome in measure_batch(programs, builder=builder, runner=runner, watch=watch):
                _record(outcome, plan, writer, session, progress)
                on_outcome(plan, outcome, progress)
                if time.monotonic() >= end:
                    break
    return progress


def _next_plan(plans: Sequence[Plan], trials: int) -> Plan | None:
    unfinished = [p for p in plans if p.attempts < trials and not p.exhausted]
    return min(unfinished, key=lambda p: p.attempts, default=None)


def _record(
    outcome: Outcome, plan: Plan, writer: MeasurementWriter, session: Session, progress: Progress
) -> None:
    writer.append(session.row(plan.workload_id, outcome))
    plan.note(outcome)
    progress.done += 1
    if outcome.status == "ok":
        progress.good += 1
        progress.best_us[plan.workload.name] = min(plan.good)[0] * 1e6
    else:
        progress.failed += 1


def _plans(workloads: Sequence[Workload], folder: DataFolder, session: Session, seed: int) -> list[Plan]:
    """One plan per workload, with what the folder already holds of it counted in."""
    columns = ["workload_id", "program_id", "status", "run_s", "trace"]
    held = folder.measurements(session.device_id, columns=columns).to_pylist()
    by_workload: dict[str, list[dict[str, Any]]] = {}
    for row in held:
        by_workload.setdefault(row["workload_id"], []).append(row)
    target = json.dumps(session.target)
    plans, rows = [], []
    for position, workload in enumerate(workloads):
        mod = workload.module()
        family = FAMILY[workload.operator]
        rows.append(workload_row(mod, name=workload.name, operator=family, networks=workload.networks))
        before = by_workload.get(rows[-1]["workload_id"], [])
        # The seed moves on with what is there, or a resumed run would draw the programs it has drawn already.
        sampler = Sampler(
            mod,
            target,
            seed=seed + 1000 * position + len(before),
            seen=frozenset(r["program_id"] for r in before),
        )
        good = [(statistics.median(r["run_s"]), r["trace"]) for r in before if r["status"] == "ok"]
        plans.append(Plan(workload, rows[-1]["workload_id"], sampler, len(before), good))
    folder.put_workloads(rows)
    return plans
