"""Provides collect: measure workloads into a data folder, resumably, building and timing in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import NamedTuple

from costhub.collector.bench import Bench, Expected, Made
from costhub.collector.builder import Builder, Built
from costhub.collector.default_program import default_program
from costhub.collector.isolated_sampler import open_samplers
from costhub.collector.outcome import Outcome
from costhub.collector.plan import Plan, Subject, make_plans, next_plan
from costhub.collector.profile import Profile
from costhub.collector.rig import Rig
from costhub.collector.sampler import Program, Scorer
from costhub.collector.shares import Shares
from costhub.dataset.folder import DataFolder

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
class Progress:
    """What a collection has done so far, as passed to `on_outcome`."""

    profile: Profile
    done: int = 0
    good: int = 0
    failed: int = 0
    problems: dict[str, str] = field(default_factory=dict)
    """Why a workload was given up, by its name."""


class _Job(NamedTuple):
    plan: Plan
    program: Program
    building: Future[Built]


def collect(
    workloads: Sequence[Subject],
    folder: DataFolder,
    *,
    rig: Rig,
    proposals: Proposals,
    budget_s: float,
    on_outcome: Callable[[Plan, Outcome, Progress], None],
) -> Progress:
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
        plans = make_plans(
            workloads, folder, first, open_sampler=open_sampler, space=proposals.space, seed=proposals.seed
        )
        work = _Work(plans, proposals, rig.builder, Progress(Profile(rig.builder.processes)))
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
        self, plans: Sequence[Plan], proposals: Proposals, builder: Builder, progress: Progress
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
            plan = next_plan(self._plans, proposals.trials)
            if plan is None:
                return
            count = min(CHUNK, proposals.trials - plan.attempts)
            with self.progress.profile.sampling():
                programs = plan.propose(count, shares=proposals.shares, scorer=proposals.scorer)
            if plan.problem is not None:
                self.progress.problems[plan.workload.name] = plan.problem
            self._jobs += [_Job(plan, p, self._builder.submit(p.module_json)) for p in programs]

    def measured(self, jobs: Sequence[_Job], bench: Bench) -> Iterator[tuple[Plan, Outcome]]:
        """Times the programs of `jobs`."""
        plans = {job.program.program_id: job.plan for job in jobs}
        if self._proposals.check_outputs:
            self._build_expected([plan for plan in plans.values() if plan.expected is None])
        programs = [Made(job.program, job.building.result(), job.plan.expected) for job in jobs]
        with closing(bench.measure(programs)) as outcomes:
            while True:
                with self.progress.profile.measuring():
                    outcome = next(outcomes, None)
                if outcome is None:
                    return
                yield plans[outcome.program.program_id], outcome

    def _build_expected(self, plans: Sequence[Plan]) -> None:
        for plan in {id(plan): plan for plan in plans}.values():
            program = default_program(plan.workload.module(), self._builder.target)
            (built,) = self._builder.build([program.module_json])
            if built.artifact is not None:
                plan.expected = Expected(program, built.artifact)

    def note(self, plan: Plan, outcome: Outcome, *, is_first: bool) -> None:
        """Counts an outcome whose row is safe."""
        progress = self.progress
        progress.profile.note(outcome, is_first=is_first)
        if is_first:
            plan.note(outcome)
        progress.done += 1
        progress.good += outcome.status == "ok"
        progress.failed += outcome.status != "ok"
