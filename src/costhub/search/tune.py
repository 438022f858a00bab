"""Provides tune and tune_all: searches over workloads, led by a pretrained cost model."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costhub.collector.measurer import BuiltProgram, Measurer
from costhub.dataset.intrinsics import load_intrinsics
from costhub.dataset.workload import argument_shapes, check_schedulable, module_to_json
from costhub.errors import WorkloadError
from costhub.models.protocol import CostModel
from costhub.papers.pruner import DraftModel
from costhub.search.database import SearchDatabase
from costhub.search.result import OnTrial, SearchOptions, TrialMeter, TuneResult
from costhub.search.scheduler import Priority, SearchProgress, StopRule, TaskScheduler, search_progress
from costhub.search.search_model import SearchModel
from costhub.search.selection import Selection
from costhub.search.strategies.strategy import Strategy
from costhub.transfer.methods.method import TransferMethod

if TYPE_CHECKING:
    from costhub.search.task import SearchTask

UNTUNED_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Job:
    """A workload to tune."""

    name: str
    mod: Any
    """A ``tvm.IRModule`` with one function."""
    weight: float = 1.0
    """How often it occurs in what is to be fast."""


def tune(
    mod: Any,
    name: str,
    *,
    model: CostModel,
    measurer: Measurer,
    out: Path,
    trials: int,
    draft: CostModel | None = None,
    method: TransferMethod | None = None,
    strategy: Strategy | None = None,
    selection: Selection | None = None,
    options: SearchOptions | None = None,
    seed: int = 0,
    on_trial: OnTrial | None = None,
) -> TuneResult:
    """Searches for a fast schedule of `mod` until `trials` programs are measured.

    The records go to a MetaSchedule database in `out` (``database_workload.json`` and
    ``database_tuning_record.json``), from which stock TVM compiles with ``ms.tir_integration.compile_tir``.
    Records that are already there count as trials, so an interrupted search can be continued.

    Args:
        mod: The workload, a ``tvm.IRModule`` with one function.
        name: Its name in the report.
        model: The pretrained model; it is not changed.
        measurer: Builds and measures candidates.
        out: Folder for the database.
        trials: How many programs to measure, including those that the database already holds.
        draft: A cheap model that ranks all candidates, so that `model` need see only the best of them.
        method: How the models learn from what is measured; by default `Brief`.
        strategy: How programs are proposed; by default TVM's evolutionary search.
        selection: Chooses what to measure among four times as many programs; by default the strategy's best
            programs are measured.
        options: Sizes of the search.
        seed: Seeds the search.
        on_trial: Called after each trial with the number of trials so far and the best latency in us.

    Raises:
        WorkloadError: TVM cannot schedule the workload.
        ScoreError: The model gives no usable scores.
        MeasureError: A process that builds or runs cannot be started.
    """
    told = None if on_trial is None else lambda _, done, best_us: on_trial(done, best_us)
    (found,) = tune_all(
        [Job(name, mod)],
        model=model,
        measurer=measurer,
        out=out,
        trials=trials,
        draft=draft,
        method=method,
        strategy=strategy,
        selection=selection,
        options=options,
        seed=seed,
        on_trial=told,
    )
    return found


def tune_all(
    jobs: Sequence[Job],
    *,
    model: CostModel,
    measurer: Measurer,
    out: Path,
    trials: int,
    draft: CostModel | None = None,
    method: TransferMethod | None = None,
    strategy: Strategy | None = None,
    selection: Selection | None = None,
    options: SearchOptions | None = None,
    priority: Priority | None = None,
    rule: StopRule | None = None,
    seed: int = 0,
    on_trial: Callable[[str, int, float | None], None] | None = None,
    on_batch: Callable[[SearchProgress], None] | None = None,
) -> list[TuneResult]:
    """Searches for fast schedules of several workloads; trials go to those that may still gain the most.

    Args:
        jobs: What to tune, each with a name of its own.
        model: As for `tune`, like the arguments that are not described in full here.
        measurer: Builds and measures candidates.
        out: Folder for the database of all of them.
        trials: How many programs to measure in all, including those that the database already holds.
        draft: A cheap model.
        method: How the models learn.
        strategy: How programs are proposed.
        selection: Chooses among them.
        options: Sizes of the search.
        priority: Says which workload is measured next; see `TaskScheduler`.
        rule: Decides when measuring a workload ends; its trials go to the others, until all have ended.
        seed: Seeds the search.
        on_trial: Called after each trial with the workload, its number of trials and its best latency in us.
        on_batch: Called before the first batch and after each batch with the state of the search.

    Returns:
        What was found, in the order of the jobs.

    Raises:
        CosthubError: As `tune`, or a WorkloadError if two jobs have the same name.
    """
    _check_jobs(jobs, measurer.target["kind"])
    bench = _SearchParts(
        model,
        draft,
        method,
        measurer,
        SearchDatabase(out),
        options or SearchOptions(),
        strategy,
        selection,
    )
    with bench.tasks(jobs, on_trial, most=trials, seed=seed) as (tasks, models):
        budget = _budget(list(tasks.values()), trials, bench.options.trials_per_round)
        allotment = TaskScheduler({j.name: j.weight for j in jobs}, trials=budget, priority=priority, rule=rule)
        _measure(tasks, allotment, bench.options.trials_per_round, on_batch)
    return [
        tasks[job.name].meter.result(job.name, models[job.name].health, untuned_us(job.mod, measurer)) for job in jobs
    ]


def _check_jobs(jobs: Sequence[Job], kind: str) -> None:
    """Checks the jobs, and makes TVM know the intrinsics of this kind of target."""
    names = [job.name for job in jobs]
    if len(set(names)) < len(names):
        raise WorkloadError(f"Each workload is tuned once, but two are called {max(names, key=names.count)}.")
    for job in jobs:
        check_schedulable(job.mod)
    load_intrinsics(kind)


def _budget(tasks: Sequence[SearchTask], trials: int, batch: int) -> int:
    """Of an allotment: what earlier searches measured of the tasks, and what is left of so many trials."""
    before = [task.before.n for task in tasks if task.before is not None]
    spent = sum(task.meter.trials for task in tasks)
    return sum(before) + _trials_left(trials, spent, new=len(tasks) - len(before), batch=batch)


def _trials_left(trials: int, spent: int, *, new: int, batch: int) -> int:
    """Trials to spend, of so many in all; tasks of which nothing ran have a batch in any case."""
    return max(trials - spent, min(trials, new * batch), 0)


def _measure(
    tasks: Mapping[str, SearchTask],
    allotment: TaskScheduler,
    each: int,
    on_batch: Callable[[SearchProgress], None] | None,
) -> None:
    """Spends the trials of an allotment, so many at a time; what was measured before is a batch, too."""

    def tell(*, foreseen: bool) -> None:
        if on_batch is not None:
            on_batch(search_progress(allotment, foreseen=foreseen))

    decides = len(tasks) > 1 or allotment.rule is not None
    known = [(name, task.before) for name, task in tasks.items() if task.before is not None]
    for of_task, measured in known:
        allotment.add(of_task, measured)
    tell(foreseen=False)
    if decides and allotment.left > each * (len(tasks) - len(known)):
        for of_task, _ in known:
            allotment.set_waiting(of_task, tasks[of_task].waiting())
    while (name := allotment.next_task()) is not None:
        batch = tasks[name].round(allotment.most)
        if batch is None:
            allotment.close(name)
            continue
        more = decides and batch.n < allotment.left
        allotment.add(name, replace(batch, waiting=tasks[name].waiting() if more else 0.0))
        tell(foreseen=more)


@dataclass(frozen=True)
class _SearchParts:
    """What all tasks of a search share."""

    model: CostModel
    draft: CostModel | None
    method: TransferMethod | None
    measurer: Measurer
    records: SearchDatabase
    options: SearchOptions
    strategy: Strategy | None
    selection: Selection | None

    @contextmanager
    def tasks(
        self,
        jobs: Sequence[Job],
        on_trial: Callable[[str, int, float | None], None] | None,
        *,
        most: int,
        seed: int,
    ) -> Iterator[tuple[dict[str, SearchTask], dict[str, SearchModel]]]:
        """The search of each job and the model that leads it, by name; the searches end with the block."""
        tasks: dict[str, SearchTask] = {}
        models: dict[str, SearchModel] = {}
        self.measurer.launch()
        try:
            for job in jobs:
                meter = TrialMeter(None if on_trial is None else partial(on_trial, job.name))
                tasks[job.name], models[job.name] = self.task(job.mod, meter, most=most, seed=seed)
            yield tasks, models
        finally:
            for task in tasks.values():
                task.close()

    def task(self, mod: Any, meter: TrialMeter, *, most: int, seed: int) -> tuple[SearchTask, SearchModel]:
        """A workload with a model of its own, since each learns from its own measurements."""
        import tvm

        from costhub.search.task import SearchTask
        from costhub.search.tvm_seam import TvmCostModel

        full = SearchModel(self.model, method=self.method, seed=seed)
        draft = DraftModel(full, SearchModel(self.draft, method=self.method, seed=seed)) if self.draft else None
        led = TvmCostModel(full, draft=draft, stages=meter.stages)
        task = SearchTask(
            mod,
            tvm.target.Target(self.measurer.target),
            model=led,
            score=led.raw,
            records=self.records,
            meter=meter,
            measurer=self.measurer,
            most=most,
            options=self.options,
            seed=seed,
            strategy=self.strategy,
            selection=self.selection,
        )
        return task, full


def untuned_us(mod: Any, measurer: Measurer) -> float | None:
    """Latency in us of the workload as it stands, unscheduled; None where it fails or takes over a minute."""
    (build,) = measurer.builder.build([module_to_json(mod)])
    try:
        ((_, result),) = measurer.measure([BuiltProgram(build, argument_shapes(mod))], timeout_s=UNTUNED_TIMEOUT_S)
    finally:
        build.remove()
    return statistics.median(result.run_s) * 1e6 if result.run_s else None


def summary(result: TuneResult) -> dict[str, Any]:
    """The result as plain JSON values."""
    plain: dict[str, Any] = json.loads(json.dumps({**result.__dict__, "health": result.health.__dict__}))
    return {**plain, "speedup": result.speedup}
