"""Provides compile_kernels: a schedule for each workload without measuring, built, checked and put in a database."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence, Set
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from costhub.collector.build.builder import Builder, BuildResult
from costhub.collector.build.linker import can_link
from costhub.collector.run.evaluator import Arguments
from costhub.collector.run.output_check import DefaultProgram, default_program
from costhub.collector.run.runner import Runner
from costhub.dataset.metaschedule.lines import UNMEASURED_S
from costhub.dataset.trace import replay, trace_to_json
from costhub.dataset.workload import argument_shapes, module_to_json
from costhub.errors import WorkloadError
from costhub.isolation.signals import uninterrupted
from costhub.models.protocol import CostModel
from costhub.search.database import FILES, SearchDatabase, SearchFolder
from costhub.search.options import Job
from costhub.search.result import BUILDING, WAITING, StageTimer
from costhub.search.strategies.strategy import measure_candidate
from costhub.search.zero_trials.known import KnownSchedules
from costhub.search.zero_trials.plan import SOURCES, ZeroTrialPlan
from costhub.search.zero_trials.ranking import RankedProgram, Ranking, rank_programs

MOST_ATTEMPTS = 4
"""The most programs of a workload that are built and checked until one is correct."""
BUILD_TIMEOUT_S = 60.0
RUN_TIMEOUT_S = 60.0
COMPARED, BUILT = "compared", "built"
"""What was checked: that the outputs of a library are those of the untuned program, or only that it can be built."""
REPLAYING, COMPARING = "replaying", "comparing"
"""Stages: replaying the trace of a program, and running it and the untuned program."""


@dataclass(frozen=True)
class CompiledKernel:
    """The schedule of a workload, chosen without measuring."""

    workload: str
    weight: float
    source: str | None = None
    """A value of `costhub.search.zero_trials.plan.SOURCES`; None if there is no schedule."""
    known_workload: str | None = None
    """The workload whose measured schedule this is, or from which it was carried over."""
    known_device: str | None = None
    """The device that measured that schedule."""
    known_us: float | None = None
    """Its latency there, in microseconds."""
    rank: int | None = None
    """Place by the model's score among all programs, from 1."""
    counts: dict[str, int] = field(default_factory=dict)
    """Source -> programs that were ranked."""
    check: str | None = None
    """`COMPARED` or `BUILT`; None if nothing could be built."""
    failed: tuple[str, ...] = ()
    """What was wrong with the programs that were preferred to this one, and why outputs were not compared if so."""
    error: str | None = None
    """Why there is no schedule, as a sentence."""
    library: str | None = None
    """The file, for workloads that are not part of a network."""
    arguments: Arguments = ()
    """(dtype, shape) of each argument of the library, in the layout that the schedule chose."""
    seconds: float = 0.0
    """Seconds of ranking; builds go on meanwhile."""
    stages: dict[str, float] = field(default_factory=dict)
    """Stage -> seconds: those of ranking, then replaying, waiting for builds (`building`) and comparing outputs."""
    space: str | None = None
    """Name of the design space whose sketches all of its programs have."""


@dataclass(frozen=True)
class CompileTarget:
    """What to compile for."""

    text: str
    """The TVM target, as JSON, with ``num-cores``."""
    threads: int | None = None
    """Threads of programs that are run for the check; None if this machine cannot run them."""

    @property
    def runs_here(self) -> bool:
        """Whether outputs can be compared."""
        return self.threads is not None

    @property
    def suffix(self) -> str:
        """Ending of the libraries' names: that of object files if no linker for the target is installed."""
        triple = json.loads(self.text).get("mtriple")
        return ".so" if triple is None or can_link(triple) else ".o"


def compile_kernels(
    jobs: Sequence[Job],
    model: CostModel,
    target: CompileTarget,
    known: KnownSchedules,
    plan: ZeroTrialPlan,
    *,
    out: SearchFolder,
    libraries: Set[str] = frozenset(),
    on_kernel: Callable[[CompiledKernel], None] | None = None,
) -> list[CompiledKernel]:
    """Chooses a schedule for each workload without measuring one, and writes them to a MetaSchedule database.

    An earlier database in the folder is replaced.

    Args:
        jobs: The workloads.
        model: The cost model, bound to the device.
        target: What to compile for.
        known: Measured schedules.
        plan: Which programs to rank.
        out: The folder.
        libraries: Names of jobs whose programs are kept as ``<name>.so``, or as ``<name>.o`` without a linker.
        on_kernel: Called with each result.

    Raises:
        WorkloadError: TVM cannot build a design space for a workload.
        ScoreError: The model gives no usable scores.
        MeasureError: A process for building or running cannot be started.
    """
    # Also the libraries of an interrupted compilation, whose report names none: a kernel may get no schedule this time.
    for name in (*FILES, *(f"{file_name(each)}{target.suffix}" for each in libraries)):
        (out.path / name).unlink(missing_ok=True)
    database = SearchDatabase(out.path)
    done: list[CompiledKernel] = []
    with ExitStack() as held:
        builder = held.enter_context(Builder(target.text, timeout_s=BUILD_TIMEOUT_S))
        builder.launch()
        runner = None
        if target.threads is not None:
            runner = held.enter_context(Runner(target.text, threads=target.threads, timeout_s=RUN_TIMEOUT_S))
            runner.launch()
        # The top-ranked program is built while the next workload is ranked.
        begun: list[_Kernel] = []
        for job in jobs:
            with uninterrupted():
                begun.append(_Kernel.begin(job, model, target, known, plan, builder))
        for kernel in begun:
            chosen, found = kernel.first_right(builder, runner)
            if chosen is not None:
                _keep(database, kernel.job, chosen, target.text)
            if chosen is not None and kernel.job.name in libraries:
                library = out.path / f"{file_name(kernel.job.name)}{target.suffix}"
                shutil.copyfile(str(kernel.artifact), library)
                found = replace(found, library=str(library))
            kernel.remove()
            done.append(found)
            if on_kernel is not None:
                on_kernel(found)
    return done


def file_name(workload: str) -> str:
    """A file name for a workload.

    Example:
        >>> file_name("conv2d.1x3x8/a b")
        'conv2d.1x3x8_a_b'
    """
    return re.sub(r"[^\w.+-]", "_", workload)


def _keep(database: SearchDatabase, job: Job, chosen: RankedProgram, target: str) -> None:
    import tvm

    candidate = measure_candidate(chosen.program)
    database.add(job.mod, candidate, [UNMEASURED_S], tvm.target.Target(json.loads(target)))


class _Kernel:
    """A workload on its way: ranked, and its first program given to the builder."""

    def __init__(
        self, job: Job, ranking: Ranking, default: DefaultProgram | None, builder: Builder, *, allows_all: bool = False
    ) -> None:
        self.job, self.ranking = job, ranking
        self.artifact: str | None = None
        """The library of the program that is correct."""
        self._stages = StageTimer(WAITING)
        self._default = default
        self._allows_all = allows_all
        self._is_compared = False
        """Whether the outputs of the last program that ran were compared."""
        self._built: list[Future[BuildResult]] = []
        self._default_built = None if default is None else builder.submit(default.module_json)
        self._submit(builder)

    @classmethod
    def begin(
        cls,
        job: Job,
        model: CostModel,
        target: CompileTarget,
        known: KnownSchedules,
        plan: ZeroTrialPlan,
        builder: Builder,
    ) -> _Kernel:
        """Ranks the programs of a workload."""
        ranking = rank_programs(job.mod, target.text, model, known, plan)
        # A schedule takes much memory, and a network has many kernels.
        ranking = replace(ranking, programs=ranking.programs[:MOST_ATTEMPTS])
        default = default_program(job.mod, target.text) if target.runs_here and ranking.programs else None
        return cls(job, ranking, default, builder, allows_all=set(plan.sources) == set(SOURCES))

    def first_right(self, builder: Builder, runner: Runner | None) -> tuple[RankedProgram | None, CompiledKernel]:
        """The first program that replays, can be built and computes what the workload does."""
        chosen, found = self._first_right(builder, runner)
        return chosen, replace(found, stages={**self.ranking.stages, **self._stages.seconds()})

    def _first_right(self, builder: Builder, runner: Runner | None) -> tuple[RankedProgram | None, CompiledKernel]:
        seconds = sum(self.ranking.stages.values())
        found = CompiledKernel(
            self.job.name, self.job.weight, counts=self.ranking.counts, seconds=seconds, space=self.ranking.space
        )
        why = self._reference(runner)
        failed: list[str] = []
        for place, ranked in enumerate(self.ranking.programs[:MOST_ATTEMPTS]):
            if place == len(self._built):
                self._submit(builder)
            with self._stages.during(BUILDING):
                built = self._built[place].result()
            problem = self._problem(ranked, built, runner)
            if problem is None:
                self.artifact = built.artifact
                if runner is not None and why is None and not self._is_compared:
                    why = _OTHER_LAYOUT
                return ranked, _described(found, ranked, why, self._is_compared, failed)
            failed.append(problem)
        return None, replace(found, error=_nothing_right(failed, allows_all=self._allows_all), failed=tuple(failed))

    def remove(self) -> None:
        """Removes what was built; the untuned program stays until the runner ends, which may need it again."""
        for built in self._built:
            built.result().remove()

    def _submit(self, builder: Builder) -> None:
        if len(self._built) < len(self.ranking.programs):
            program = self.ranking.programs[len(self._built)].program
            self._built.append(builder.submit(module_to_json(program.schedule.mod)))

    def _reference(self, runner: Runner | None) -> str | None:
        """Runs the untuned program; a sentence if outputs cannot be compared with its own."""
        if runner is None or self._default is None or self._default_built is None:
            return None
        runner.expect_nothing()  # of this workload: what the one before it computes is no measure
        with self._stages.during(BUILDING):
            built = self._default_built.result()
        if built.artifact is None:
            return f"The untuned program cannot be built ({built.error}), so outputs were not compared."
        with self._stages.during(COMPARING):
            ran = runner.expected(built.artifact, self._default.arguments, reduction=self._default.reduction)
        if ran.status == "ok":
            return None
        return f"The untuned program does not run ({ran.error}), so outputs were not compared."

    def _problem(self, ranked: RankedProgram, built: BuildResult, runner: Runner | None) -> str | None:
        """What is wrong with a program, as a sentence."""
        if built.artifact is None:
            return f"It cannot be built: {built.error}."
        with self._stages.during(REPLAYING):
            problem = _replay_problem(self.job.mod, ranked)
        if problem is None and runner is not None:
            mod = ranked.program.schedule.mod
            with self._stages.during(COMPARING):
                ran = runner.compare(built.artifact, argument_shapes(mod), module_to_json(mod))
            self._is_compared = ran.output_checked
            if ran.status != "ok":
                return f"It does not run as the untuned program does: {ran.error}."
        return problem


_NOTHING = "No source has a schedule for this workload"
_ALLOW_OTHERS = "allow others with --source (sources=... in Python)."
_NO_PROGRAM = (
    "TVM finds no valid program in its design space; another one (--space, space=... in Python) may have some."
)
_OTHER_LAYOUT = "It takes its weights in a layout that cannot be converted here, so outputs were not compared."


def _nothing_right(failed: Sequence[str], *, allows_all: bool) -> str:
    """Why a workload gets no schedule, from what was wrong with its best programs."""
    if not failed:
        return f"{_NOTHING}: {_NO_PROGRAM}" if allows_all else f"{_NOTHING}; {_ALLOW_OTHERS}"
    if len(failed) == 1:
        return f"Its only program is not correct: {failed[0]}"
    return f"None of the {len(failed)} best programs is correct: {failed[0]}"


def _replay_problem(mod: Any, ranked: RankedProgram) -> str | None:
    """What is wrong with the trace: a database with one that does not replay cannot be loaded at all."""
    import tvm_ffi

    try:
        again = replay(mod, trace_to_json(ranked.program.trace))
    except WorkloadError as error:
        return str(error)
    same = int(tvm_ffi.structural_hash(again.mod)) == ranked.program.structure
    return None if same else "Its trace does not replay to the same program."


def _described(
    found: CompiledKernel, ranked: RankedProgram, why: str | None, is_compared: bool, failed: Sequence[str]
) -> CompiledKernel:
    known = ranked.origin.known
    return replace(
        found,
        source=ranked.origin.source,
        known_workload=known.workload if known else None,
        known_device=known.device_id if known else None,
        known_us=known.latency_us if known else None,
        rank=ranked.rank,
        check=COMPARED if is_compared else BUILT,
        failed=(*failed, *([why] if why else [])),
        arguments=argument_shapes(ranked.program.schedule.mod),
    )
