"""Provides collect: measure workloads into a data folder, resumably, and a profile of where the time went."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from costhub.collector.build.builder import Builder, BuildResult
from costhub.collector.measurer import BatchMeasurer, BuiltProgram, BuiltReference, CollectionMeasurer
from costhub.collector.propose.isolated_sampler import open_samplers
from costhub.collector.propose.sampler import Program, Scorer, Shares
from costhub.collector.run.output_check import default_program
from costhub.collector.session import MeasureResult
from costhub.collector.workload_queue import QueuedWorkload, WorkloadSpec, make_queue, next_workload
from costhub.dataset.folder import DataFolder

STAGES = ("sample", "lower", "llvm", "link", "run", "reference", "other")


@dataclass
class Profile:
    """Core-seconds by stage.

    Sampling and building take one core each; while a program or the reference kernel is timed, no other core
    may work, so that those take all of them. What is left over, `other`, is start-up, messages
    between processes, writing rows, and cores with nothing to do.
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
        """Counts the block as sampling; by CPU time, as it shares the cores with the builds."""
        start = time.thread_time()
        yield
        self.seconds["sample"] += time.thread_time() - start

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Counts the block as the reference kernel, but for the run, which `note` takes off again."""
        start = time.monotonic()
        yield
        self.seconds["reference"] += (time.monotonic() - start) * self.cores

    def note(self, outcome: MeasureResult, *, is_first: bool) -> None:
        """Counts an outcome; its build only on the first of several devices that share it."""
        if is_first:
            self.programs += 1
            for stage in ("lower", "llvm", "link"):
                self.seconds[stage] += getattr(outcome.built.seconds, stage)
        self.good += outcome.status == "ok"
        if outcome.ran is not None:
            self.seconds["run"] += outcome.ran.wall_s * self.cores
            self.seconds["reference"] -= outcome.ran.wall_s * self.cores

    def stop(self) -> None:
        """Ends the account."""
        self.wall_s = time.monotonic() - self._start
        counted = sum(s for stage, s in self.seconds.items() if stage != "other")
        self.seconds["other"] = self.wall_s * self.cores - counted

    @property
    def floor_s(self) -> float:
        """Wall seconds that no collector can avoid: LLVM's time over all cores, plus the runs."""
        return (self.seconds["llvm"] + self.seconds["run"]) / self.cores

    @property
    def good_per_s(self) -> float:
        """Good measurements per wall second."""
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


# Programs timed in one go. The builders are frozen meanwhile, and the reference kernel is run in full before.
BATCH = 32
# Programs sampled in one go, and the fewest that wait to be built: enough that no build process ever waits
# for the sampler, which shares their cores.
CHUNK = 16


@dataclass(frozen=True)
class Proposals:
    """How programs are proposed."""

    trials: int
    """Programs per workload, those that are there already included."""
    shares: Shares = field(default_factory=Shares)
    scorer: Scorer | None = None
    space: str = "default"
    seed: int = 0
    check_outputs: bool = False
    """Whether outputs are compared with those of the workload without a schedule."""


@dataclass
class CollectionProgress:
    """What a collection has done so far, as passed to `on_outcome`."""

    profile: Profile
    done: int = 0
    good: int = 0
    failed: int = 0
    problems: dict[str, str] = field(default_factory=dict)
    """Why a workload was given up, by its name."""


class _Job(NamedTuple):
    plan: QueuedWorkload
    program: Program
    building: Future[BuildResult]


def collect(
    workloads: Sequence[WorkloadSpec],
    folder: DataFolder,
    *,
    rig: CollectionMeasurer,
    proposals: Proposals,
    budget_s: float,
    on_outcome: Callable[[QueuedWorkload, MeasureResult, CollectionProgress], None],
) -> CollectionProgress:
    """Measures programs of each workload within `budget_s`, the least measured workload first.

    Every row is safe on disk before the next program runs: an interruption at any moment loses at most the
    program in flight, and a second call resumes where the first stopped. Several devices time a batch one
    after another, so an interrupted collection may lack on the later ones what it has on the first.

    Args:
        workloads: What to measure.
        folder: Where the rows go.
        rig: Builds and times them; of several devices the first one's best programs are those that are
            changed and tried again.
        proposals: How many programs, and which.
        budget_s: Seconds after which no further program is timed, on several devices no further batch.
        on_outcome: Called with each row once it is safe on disk.

    Raises:
        DataError: The folder holds something unreadable, or another collection is writing to it.
        WorkloadError: The design space cannot be loaded. A single workload that cannot be scheduled is
            listed in `Progress.problems`.
        MeasureError: A device no longer runs the reference kernel.
    """
    first, *_ = rig.sessions
    sessions = {session.device_id: session for session in rig.sessions}
    with ExitStack() as held:
        writers = {device_id: held.enter_context(folder.writer(device_id)) for device_id in sessions}
        rig.builder.launch()
        rig.bench.launch()
        open_sampler = held.enter_context(open_samplers(proposals.space))
        plans = make_queue(
            workloads, folder, first, open_sampler=open_sampler, space=proposals.space, seed=proposals.seed
        )
        work = _Work(plans, proposals, rig.builder, CollectionProgress(Profile(rig.builder.processes)))
        end = time.monotonic() + budget_s
        while time.monotonic() < end and (jobs := work.next_batch()):
            for plan, outcome in work.measured(jobs, rig.bench):
                device_id = outcome.device_id
                writers[device_id].append(sessions[device_id].row(plan.workload_id, outcome))
                work.note(plan, outcome, is_first=device_id == first.device_id)
                on_outcome(plan, outcome, work.progress)
                if time.monotonic() >= end and len(sessions) == 1:
                    break  # Of several devices each has the whole batch.
    work.progress.profile.stop()
    return work.progress


class _Work:
    """Programs under way: proposed and being built, or built and waiting to be timed."""

    def __init__(
        self, plans: Sequence[QueuedWorkload], proposals: Proposals, builder: Builder, progress: CollectionProgress
    ) -> None:
        self.progress = progress
        self._plans = plans
        self._proposals = proposals
        self._builder = builder
        self._jobs: list[_Job] = []

    def next_batch(self) -> list[_Job]:
        """Waits for a batch of built programs, and proposes more meanwhile; the last may be smaller."""
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
        while sum(not job.building.done() for job in self._jobs) < CHUNK:
            plan = next_workload(self._plans, proposals.trials)
            if plan is None:
                return
            count = min(CHUNK, proposals.trials - plan.attempts)
            with self.progress.profile.sampling():
                programs = plan.propose(count, shares=proposals.shares, scorer=proposals.scorer)
            if plan.problem is not None:
                self.progress.problems[plan.workload.name] = plan.problem
            self._jobs += [_Job(plan, p, self._builder.submit(p.module_json)) for p in programs]

    def measured(self, jobs: Sequence[_Job], bench: BatchMeasurer) -> Iterator[tuple[QueuedWorkload, MeasureResult]]:
        """Times the programs of `jobs`."""
        plans = {job.program.program_id: job.plan for job in jobs}
        if self._proposals.check_outputs:
            self._build_expected([plan for plan in plans.values() if plan.expected is None])
        programs = [BuiltProgram(job.program, job.building.result(), job.plan.expected) for job in jobs]
        with closing(bench.measure(programs)) as outcomes:
            while True:
                with self.progress.profile.measuring():
                    outcome = next(outcomes, None)
                if outcome is None:
                    return
                yield plans[outcome.program.program_id], outcome

    def _build_expected(self, plans: Sequence[QueuedWorkload]) -> None:
        for plan in {id(plan): plan for plan in plans}.values():
            program = default_program(plan.workload.module(), self._builder.target)
            (built,) = self._builder.build([program.module_json])
            if built.artifact is not None:
                plan.expected = BuiltReference(program, built.artifact)

    def note(self, plan: QueuedWorkload, outcome: MeasureResult, *, is_first: bool) -> None:
        """Counts an outcome whose row is safe."""
        progress = self.progress
        progress.profile.note(outcome, is_first=is_first)
        if is_first:
            plan.note(outcome)
        progress.done += 1
        progress.good += outcome.status == "ok"
        progress.failed += outcome.status != "ok"
