"""Provides tune and tune_all: searches over workloads, guided by a pretrained cost model."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from costhub.collector.measurer import BuiltProgram, Measurer
from costhub.collector.propose.spaces import space_for
from costhub.dataset.intrinsics import load_intrinsics
from costhub.dataset.workload import argument_shapes, check_schedulable, count_flop, module_to_json
from costhub.errors import ArgumentError
from costhub.names import check_different
from costhub.registry import Registry
from costhub.search.database import SearchDatabase, SearchFolder
from costhub.search.options import Job, OnTrial, Search
from costhub.search.result import TrialMeter, TuneResult
from costhub.search.scheduler import SearchProgress, TaskScheduler, search_progress
from costhub.search.search_model import DraftScorer, SearchModel
from costhub.search.strategies.strategy import pressure_of
from costhub.search.task import SearchTask
from costhub.search.tvm_seam import TvmCostModel

UNTUNED_TIMEOUT_S = 60.0
DRAFTS: Registry[Callable[[SearchModel, SearchModel], DraftScorer]] = Registry(
    "draft", {}, group="costhub.drafts", listing="the entry points `costhub.drafts`"
)
"""Name -> what combines a full and a cheap model; `pruner` is the only one that is part of costhub."""


def tune(
    mod: Any,
    name: str,
    search: Search,
    measurer: Measurer,
    *,
    out: Path | SearchFolder,
    trials: int,
    on_trial: Callable[[int, float | None], None] | None = None,
    time_unscheduled: bool = False,
) -> TuneResult:
    """Searches for a fast schedule of `mod` until `trials` programs have been measured.

    The records go to a MetaSchedule database in `out` (``database_workload.json`` and
    ``database_tuning_record.json``), from which stock TVM compiles with ``ms.tir_integration.compile_tir``.
    Existing records count as trials, so an interrupted search can be continued.

    Args:
        mod: The workload, a ``tvm.IRModule`` with one function.
        name: Its name in the report.
        search: The model that guides the search, and how the search proceeds.
        measurer: Builds and measures programs, for example `costhub.collector.measurer.local_measurer`.
        out: Folder for the database; no other search may use it meanwhile. A `SearchFolder` that the caller holds
            keeps the folder locked for what the caller does before and after the search.
        trials: How many programs to measure, including those that the database already holds.
        on_trial: Called after each trial with the number of trials so far and the best latency in us.
        time_unscheduled: Also time the workload without a schedule (plain loops on one thread), which can take
            a minute.

    Raises:
        WorkloadError: TVM cannot schedule the workload.
        ScoreError: The model gives no usable scores.
        MeasureError: A process that builds or runs cannot be started.
        DataError: Another search uses the folder `out`.
    """
    by_name = None if on_trial is None else lambda _, done, best_us: on_trial(done, best_us)
    (result,) = tune_all(
        [Job(name, mod)],
        search,
        measurer,
        out=out,
        trials=trials,
        on_trial=by_name,
        time_unscheduled=time_unscheduled,
    )
    return result


def tune_all(
    jobs: Sequence[Job],
    search: Search,
    measurer: Measurer,
    *,
    out: Path | SearchFolder,
    trials: int,
    on_trial: OnTrial | None = None,
    on_batch: Callable[[SearchProgress], None] | None = None,
    time_unscheduled: bool = False,
) -> list[TuneResult]:
    """Searches for fast schedules of several workloads; trials go to those that can still gain the most.

    Unless `search.stop_rule` ends the search, all trials are spent.

    Args:
        jobs: What to tune, each with a unique name.
        search: As for `tune`.
        measurer: As for `tune`.
        out: As for `tune`; the database holds all jobs.
        trials: How many programs to measure in all, including those that the database already holds.
        on_trial: Called after each trial.
        on_batch: Called before the first batch, after each batch, and when a rule ends the search.
        time_unscheduled: Also time each workload without a schedule, at the end.

    Returns:
        The results in the order of the jobs.

    Raises:
        CosthubError: As for `tune`, or a WorkloadError if two jobs have the same name.
    """
    if len(measurer.devices) != 1:
        raise ArgumentError(
            f"A search is for exactly one device, and this measurer has {len(measurer.devices)}: open one measurer for "
            "each device."
        )
    _check_jobs(jobs, measurer.target["kind"])
    with ExitStack() as held:
        folder = out if isinstance(out, SearchFolder) else held.enter_context(SearchFolder(out))
        measurer.launch()
        with _open_tasks(jobs, search, measurer, SearchDatabase(folder.path), trials, on_trial) as tasks:
            scheduler = TaskScheduler(
                {job.name: job.weight for job in jobs},
                trials=_budget(list(tasks.values()), trials, search.trials_per_round),
                priority=search.priority,
                rule=search.stop_rule,
                first=max(1, min(search.trials_per_round, trials // len(jobs))),
            )
            _measure(tasks, scheduler, search.trials_per_round, on_batch)
        plain_us = {job.name: untuned_us(job.mod, measurer) for job in jobs} if time_unscheduled else {}
        return [
            task.meter.result(
                job.name, task.model.search_model.health, plain_us.get(job.name), _flop(job.mod), space=task.space
            )
            for job, task in ((job, tasks[job.name]) for job in jobs)
        ]


def untuned_us(mod: Any, measurer: Measurer) -> float | None:
    """Latency in us of the unscheduled workload; None if it fails or takes over a minute."""
    (build,) = measurer.builder.build([module_to_json(mod)])
    try:
        ((_, result),) = measurer.measure([BuiltProgram(build, argument_shapes(mod))], timeout_s=UNTUNED_TIMEOUT_S)
    finally:
        build.remove()
    return statistics.median(result.run_s) * 1e6 if result.run_s else None


def _flop(mod: Any) -> float | None:
    try:
        return count_flop(mod)
    except Exception:  # TVM counts loops of known length only, and raises several kinds of errors
        return None


def _check_jobs(jobs: Sequence[Job], kind: str) -> None:
    """Checks the jobs, and loads TVM's intrinsics for this kind of target."""
    check_different([job.name for job in jobs])
    for job in jobs:
        check_schedulable(job.mod)
    load_intrinsics(kind)


@contextmanager
def _open_tasks(
    jobs: Sequence[Job],
    search: Search,
    measurer: Measurer,
    database: SearchDatabase,
    trials: int,
    on_trial: OnTrial | None,
) -> Iterator[dict[str, SearchTask]]:
    """The search of each job, by name; the searches end with the block."""
    tasks: dict[str, SearchTask] = {}
    try:
        for job in jobs:
            meter = TrialMeter(None if on_trial is None else partial(on_trial, job.name))
            pressure = pressure_of(search.strategy, space_for(job.mod, search.space).name)
            new_model = partial(SearchModel, method=search.method, seed=search.seed, pressure=pressure)
            full = new_model(search.model)
            draft = None if search.draft is None else DRAFTS["pruner"](full, new_model(search.draft))
            model = TvmCostModel(full, draft=draft, stages=meter.stages)
            tasks[job.name] = SearchTask(
                job.mod, search, measurer, model=model, score=model.raw, database=database, meter=meter, trials=trials
            )
        yield tasks
    finally:
        for task in tasks.values():
            task.close()


def _budget(tasks: Sequence[SearchTask], trials: int, batch: int) -> int:
    """The scheduler's budget: what earlier searches measured for the tasks, plus what is left of `trials`."""
    before = sum(part.n for task in tasks for part in task.before)
    return before + _trials_left(trials, [task.meter.trials for task in tasks], batch)


def _trials_left(trials: int, spent: Sequence[int], batch: int) -> int:
    """What is left of `trials`; each task gets what its first batch lacks, whatever others have spent.

    A share is at most what an interrupted search has left for each task, so that resuming never exceeds `trials`.

    Args:
        trials: Trials of all tasks together.
        spent: Trials spent by each task.
        batch: Trials of a first batch.
    """
    first = min(max(1, trials // len(spent)), batch)
    return max(trials - sum(spent), sum(max(0, first - each) for each in spent))


def _measure(
    tasks: Mapping[str, SearchTask],
    scheduler: TaskScheduler,
    trials_per_round: int,
    on_batch: Callable[[SearchProgress], None] | None,
) -> None:
    """Spends the scheduler's trials, batch by batch; what earlier searches measured counts as a batch, too."""

    def report(*, foreseen: bool) -> None:
        if on_batch is not None:
            on_batch(search_progress(scheduler, foreseen=foreseen))

    decides = len(tasks) > 1 or scheduler.rule is not None
    before = [name for name, task in tasks.items() if task.before]
    for name in before:
        for batch in tasks[name].before:
            scheduler.add(name, batch)
    report(foreseen=False)
    unforeseen = list(before) if decides else []
    while (next_name := _next_task(tasks, scheduler, trials_per_round, unforeseen)) is not None:
        measured = tasks[next_name].round(scheduler.most)
        if measured is None:
            scheduler.close(next_name)
            continue
        scheduler.add(next_name, measured)
        more = decides and scheduler.left > trials_per_round * scheduler.fresh
        if more:
            scheduler.set_waiting(next_name, tasks[next_name].waiting())
        elif decides:
            unforeseen.append(next_name)
        report(foreseen=more)
    if scheduler.stopped is not None:
        report(foreseen=True)


def _next_task(
    tasks: Mapping[str, SearchTask], scheduler: TaskScheduler, trials_per_round: int, unforeseen: list[str]
) -> str | None:
    """The task to measure next; a task looks for its next programs only if its turn may come again.

    Proposing, scoring and learning take longer than measuring a batch. A small budget is spent on first batches.
    """
    if scheduler.left > trials_per_round * scheduler.fresh:
        while unforeseen:
            name = unforeseen.pop(0)
            scheduler.set_waiting(name, tasks[name].waiting())
    return scheduler.next_task()
