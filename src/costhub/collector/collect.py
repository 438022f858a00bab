"""Provides collect: measures workloads into a data folder, resumably, with a profile of the time spent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from costhub.collector.build.builder import BuildResult
from costhub.collector.measurer import BuiltProgram, BuiltReference, Measurer, MeasureResult
from costhub.collector.propose.isolated_sampler import open_samplers
from costhub.collector.propose.sampler import Program, Scorer, Shares
from costhub.collector.run.drift_monitor import DriftSeconds
from costhub.collector.run.output_check import default_program
from costhub.collector.session import Rights, open_sessions
from costhub.collector.workload_queue import QueuedWorkload, WorkloadSpec, make_queue, next_workload
from costhub.dataset.folder import DataFolder

STAGES = ("sample", "lower", "llvm", "link", "run", *DriftSeconds._fields, "other")

# Programs timed in one batch. Meanwhile the builders are frozen; before it the reference kernel runs in full.
BATCH = 32

# Programs sampled at once, and the fewest waiting to be built: enough that no build process ever waits
# for the sampler, which shares their cores.
CHUNK = 16

MOST_AHEAD = 4 * BATCH
"""No more programs are proposed while so many are built or wait to be built."""


@dataclass(frozen=True)
class Proposals:
    """How programs are proposed."""

    trials: int
    """Programs per workload, including those that already exist."""
    shares: Shares = field(default_factory=Shares)
    scorer: Scorer | None = None
    space: str = "default"
    seed: int = 0
    check_outputs: bool = False
    """Whether outputs are compared with those of the workload without a schedule."""


@dataclass
class CollectionProgress:
    """Progress of a collection so far, as passed to `on_row`."""

    profile: Profile
    before: int = 0
    """Programs of these workloads already in the folder, on the first device; at most the trials of each."""
    done: int = 0
    good: int = 0
    failed: int = 0
    problems: dict[str, str] = field(default_factory=dict)
    """Why workloads were given up, by name."""
    stopped: str | None = None
    """Why it ended before its trials or its budget were used up."""
    is_complete: bool = False
    """Whether nothing is left to measure: each workload has its trials or no further programs, or was given up. On a
    cluster only where nothing was left to begin with."""


def collect(
    workloads: Sequence[WorkloadSpec],
    folder: DataFolder,
    *,
    measurer: Measurer,
    rights: Rights,
    proposals: Proposals,
    budget_s: float,
    on_row: Callable[[QueuedWorkload, dict[str, Any], CollectionProgress], None],
    reason_to_stop: Callable[[int], str | None] = lambda done: None,
) -> CollectionProgress:
    """Measures programs of each workload within `budget_s`, starting with the least measured workload.

    Every row is safe on disk before the next program runs: an interruption loses at most the program in flight, and a
    second call resumes. Several devices time a batch one after another: the later ones may lack rows of the first.

    Args:
        workloads: What to measure.
        folder: Where the rows go.
        measurer: Builds and measures; the best programs on the first of several devices are changed and tried again.
        rights: Contributor and licence of the rows.
        proposals: How many programs, and which.
        budget_s: Seconds after which no further program (with several devices, no further batch) is timed.
        on_row: Called with each row of the measurements table once it is safe on disk.
        reason_to_stop: Called between batches with the number of measurements, on all devices together; a reason ends
            the collection.

    Raises:
        DataError: The folder holds something unreadable, or another collection is writing to it.
        WorkloadError: The design space cannot be loaded; a workload that cannot be scheduled is listed in `problems`.
        MeasureError: A device no longer runs the reference kernel.
    """
    sessions = {session.device.device_id: session for session in open_sessions(measurer, rights)}
    first = next(iter(sessions))
    with ExitStack() as stack:
        writers = {device_id: stack.enter_context(folder.writer(device_id)) for device_id in sessions}
        measurer.launch()
        open_sampler = stack.enter_context(open_samplers(proposals.space))
        queue = make_queue(
            workloads,
            folder,
            device_id=first,
            target=measurer.target,
            open_sampler=open_sampler,
            space=proposals.space,
            seed=proposals.seed,
        )
        work = _Work(queue, proposals, measurer)
        end = time.monotonic() + budget_s
        while time.monotonic() < end and (jobs := work.next_batch()):
            for job, result in work.measured(jobs):
                row = sessions[result.device_id].row(job.workload.workload_id, job.program, result)
                writers[result.device_id].append(row)
                work.note(job, result, is_first=result.device_id == first)
                on_row(job.workload, row, work.progress)
                if time.monotonic() >= end and len(sessions) == 1:
                    break  # With several devices, each one measures the whole batch.
            if work.stops(reason_to_stop):
                break
    return work.finished()


class _Job(NamedTuple):
    workload: QueuedWorkload
    program: Program
    building: Future[BuildResult]


class _Work:
    """Programs in progress: proposed and being built, or built and waiting to be timed."""

    def __init__(self, queue: Sequence[QueuedWorkload], proposals: Proposals, measurer: Measurer) -> None:
        before = sum(min(each.attempts, proposals.trials) for each in queue)
        self.progress = CollectionProgress(Profile(measurer.builder.processes), before)
        self._queue = queue
        self._proposals = proposals
        self._measurer = measurer
        self._jobs: list[_Job] = []
        self._is_cut_short = False
        """Whether programs of a batch were left unmeasured."""

    def stops(self, reason_to_stop: Callable[[int], str | None]) -> bool:
        """Whether there is a reason to stop; records that reason."""
        self.progress.stopped = reason_to_stop(self.progress.done)
        return self.progress.stopped is not None

    def finished(self) -> CollectionProgress:
        """The progress, which says from now on whether it is complete."""
        self.progress.is_complete = (
            not (self._jobs or self._is_cut_short) and next_workload(self._queue, self._proposals.trials) is None
        )
        self.progress.profile.stop()
        return self.progress

    def next_batch(self) -> list[_Job]:
        """Waits for a batch of built programs, proposing more meanwhile; the last batch may be smaller."""
        while True:
            self._propose()
            built = [job for job in self._jobs if job.building.done()]
            if len(built) >= BATCH or len(built) == len(self._jobs):
                batch = built[:BATCH]
                self._jobs = [job for job in self._jobs if job not in batch]
                return batch
            wait([job.building for job in self._jobs if job not in built], return_when=FIRST_COMPLETED)

    def _propose(self) -> None:
        proposals = self._proposals
        # Where builds are quicker than runs, as with many cores, their libraries must not pile up.
        while len(self._jobs) < MOST_AHEAD and sum(not job.building.done() for job in self._jobs) < CHUNK:
            workload = next_workload(self._queue, proposals.trials)
            if workload is None:
                return
            count = min(CHUNK, proposals.trials - workload.attempts)
            with self.progress.profile.sampling():
                programs = workload.propose(count, shares=proposals.shares, scorer=proposals.scorer)
            if workload.problem is not None:
                self.progress.problems[workload.spec.name] = workload.problem
            if workload.exhausted or workload.attempts >= proposals.trials:
                workload.forget_sampler()
            submit = self._measurer.builder.submit
            self._jobs += [_Job(workload, program, submit(program.module_json)) for program in programs]

    def measured(self, jobs: Sequence[_Job]) -> Iterator[tuple[_Job, MeasureResult]]:
        """Times the programs of `jobs`, and removes their libraries."""
        builds = [job.building.result() for job in jobs]
        done = 0
        try:
            if self._proposals.check_outputs:
                self._build_references(jobs)
            programs = [
                BuiltProgram(build, job.program.arguments, job.program.module_json, job.workload.reference)
                for job, build in zip(jobs, builds, strict=True)
            ]
            with closing(self._measurer.measure(programs)) as results:
                while True:
                    with self.progress.profile.watching(self._measurer.drift_seconds):
                        measured = next(results, None)
                    if measured is None:
                        return
                    index, result = measured
                    done += 1
                    self._is_cut_short = done < len(jobs)
                    yield jobs[index], result
        finally:
            for build in builds:
                build.remove()

    def _build_references(self, jobs: Sequence[_Job]) -> None:
        builder = self._measurer.builder
        for job in jobs:
            workload = job.workload
            if workload.reference is None and not workload.has_no_reference:
                program = default_program(workload.spec.module(), builder.target)
                (build,) = builder.build([program.module_json])
                if build.artifact is None:
                    workload.has_no_reference = True
                else:
                    workload.reference = BuiltReference(program, build.artifact)

    def note(self, job: _Job, result: MeasureResult, *, is_first: bool) -> None:
        """Counts a result whose row is safely stored."""
        progress = self.progress
        progress.profile.note(result, is_first=is_first)
        if is_first:
            job.workload.note(job.program, result)
        progress.done += 1
        progress.good += result.status == "ok"
        progress.failed += result.status != "ok"


@dataclass
class Profile:
    """Core-seconds by stage.

    Sampling and building take one core each. While a program or the reference kernel (`reference`) is timed, no other
    core may work, so these stages take all cores, as do waiting for a quiet machine (`wait`) and runs that are not
    kept, with the kernel around the next ones (`repeat`). The remainder, `other`, is start-up, messages between
    processes, what ended in a crash, writing rows, and idle cores.
    """

    cores: int
    wall_s: float = 0.0
    programs: int = 0
    good: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    """Core-seconds by stage; `other` is filled in by `stop`."""
    _start: float = field(default_factory=time.monotonic)

    @contextmanager
    def sampling(self) -> Iterator[None]:
        """Counts the block as sampling; by CPU time, since it shares the cores with the builds."""
        start = time.thread_time()
        yield
        self.seconds["sample"] += time.thread_time() - start

    @contextmanager
    def watching(self, drift_seconds: Callable[[], DriftSeconds]) -> Iterator[None]:
        """Counts what watching over the devices takes during the block, by what was taken before and after it."""
        before = drift_seconds()
        yield
        for stage, then, now in zip(DriftSeconds._fields, before, drift_seconds(), strict=True):
            self.seconds[stage] += (now - then) * self.cores

    def note(self, result: MeasureResult, *, is_first: bool) -> None:
        """Counts a result; its build only on the first of several devices that share it."""
        if is_first:
            self.programs += 1
            for stage in ("lower", "llvm", "link"):
                self.seconds[stage] += getattr(result.build.seconds, stage)
        self.good += result.status == "ok"
        if result.run is not None:
            self.seconds["run"] += result.run.wall_s * self.cores

    def stop(self) -> None:
        """Stops the accounting."""
        self.wall_s = time.monotonic() - self._start
        counted = sum(s for stage, s in self.seconds.items() if stage != "other")
        self.seconds["other"] = self.wall_s * self.cores - counted

    @property
    def floor_s(self) -> float:
        """Wall-clock seconds that no collector can avoid: LLVM's time over all cores, plus the runs; 0 on a cluster."""
        return (self.seconds["llvm"] + self.seconds["run"]) / self.cores if self.cores else 0.0

    @property
    def good_per_s(self) -> float:
        """Good measurements per wall-clock second."""
        return self.good / self.wall_s if self.wall_s else 0.0

    @property
    def floor_share(self) -> float:
        """`floor_s` over `wall_s`."""
        return self.floor_s / self.wall_s if self.wall_s else 0.0

    def as_dict(self) -> dict[str, float | dict[str, float]]:
        """The figures for a JSON file."""
        return {
            "cores": self.cores,
            "wall_s": self.wall_s,
            "programs": self.programs,
            "good": self.good,
            "good_per_s": self.good_per_s,
            "floor_s": self.floor_s,
            "floor_share": self.floor_share,
            "core_seconds": dict(self.seconds),
        }
