"""Provides compile: turns a network or workload into a library with the best known or predicted schedules."""

from __future__ import annotations

import datetime
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costhub.api.compile_inputs import (
    FoundTarget,
    check_held_out,
    check_target,
    data_folders,
    find_target,
    held_out,
    known_rows,
    own_folders,
)
from costhub.api.measuring import call_text, check_space, options_given
from costhub.api.models import ChosenModel, ModelChoice
from costhub.api.network_jobs import check_lowering, launched_reader, network_jobs, no_kernels_error
from costhub.api.subjects import Subjects, read_subjects
from costhub.cards.reports.compile_summary import compile_text
from costhub.errors import DataError, NetworkError
from costhub.files import MAX_REPORT_BYTES, read_regular, refuse_newer, write_replacing
from costhub.names import check_different, refuse_text
from costhub.progress import BarWithLines
from costhub.search.zero_trials.plan import ZeroTrialPlan
from costhub.terminal_text import Printed, counted
from costhub.versions import load_pandas

if TYPE_CHECKING:
    from costhub.collector.workloads.network_source import Lowering
    from costhub.isolation.child import Child
    from costhub.models.protocol import CostModel
    from costhub.search.database import SearchFolder
    from costhub.search.options import Job
    from costhub.search.result import StageTimer
    from costhub.search.whole_network.finish import FinishedNetwork
    from costhub.search.whole_network.tuned_network import TunedNetwork
    from costhub.search.zero_trials.compile import CompiledKernel
    from costhub.search.zero_trials.known import KnownSchedules

log = logging.getLogger("costhub")

REPORT = "report.json"
KIND = "compile report"
REPORT_VERSION = 1
"""Version of report.json; raised by one with every change that breaks programs reading it."""
LIBRARY_SUFFIXES = (".so", ".o")
"""Endings of the files that a compilation leaves beside its database."""


@dataclass(frozen=True)
class CompileOptions:
    """Which schedules to choose from; the defaults are those of `costhub compile`.

    Example:
        >>> CompileOptions(sources=("carried", "model")).pool
        128
    """

    sources: tuple[str, ...] = ("measured", "carried", "model")
    """Where schedules come from: measured for this workload, carried over from similar ones, or the model's choice."""
    without: tuple[str, ...] = ()
    """Workloads (ids or names), suites and networks whose measurements are not used, for benchmarks. The model may
    still have learned from them: pass one that has not."""
    data: tuple[str | Path, ...] = ()
    """Additional data folders to take schedules from, such as one written by `costhub collect`."""
    pool: int = 128
    """Random programs of each workload that the model scores, in addition to those derived from the best ones."""
    arch: str | None = None
    """Architecture of the model; by default that of the best one."""
    space: str | None = None
    """The design space of all workloads and kernels, whatever their layout: a name of `costhub collect --space`, or
    ``module:function`` of your own. By default each has its own: `blocked` in blocked layouts, else TVM's default."""
    fast_math: bool = False
    """Use polynomials for exp, tanh and erf in networks: several times as fast, but the last digits differ."""
    layout: str = "blocked"
    """Layout of a network's convolutions and dense layers on a CPU: blocked (NCHW16c with AVX-512) or plain, as in
    torch."""
    precision: str = "float32"
    """What a network's convolutions and dense layers multiply: float32, or bf16 (bfloat16, with sums in float32). The
    latter is about twice as fast on AMD's CPUs with AVX512-BF16, faster still in Intel's matrix units (AMX; there, both
    products of attention as well), slower where a virtual machine hides these units, and refused without AVX512-BF16;
    inputs and weights are rounded to 8 binary digits."""
    allow_other_kind: bool = False
    """Accept a GPU model, although it ranks programs of CPUs about as well as chance."""
    command: str | None = None
    """The command that the report gives for repeating the compilation; by default the Python call."""

    @property
    def lowering(self) -> Lowering:
        """How networks are lowered to kernels."""
        from costhub.collector.workloads.network_source import Lowering

        return Lowering(self.fast_math, self.layout, self.precision)

    def check(self) -> None:
        """Refuses unknown names before torch or TVM is loaded.

        Raises:
            UnknownNameError: The design space, the layout or the precision is unknown.
            ArgumentError: The sources are a text.
        """
        from costhub.collector.propose.spaces import check_name
        from costhub.collector.workloads.network_source import Lowering

        refuse_text(self.sources, "The sources of schedules are")
        Lowering(layout=self.layout, precision=self.precision)
        if self.space is not None:
            check_name(self.space)


@dataclass(frozen=True, repr=False)
class Compilation(Printed):
    """The outcome of `costhub.compile`; `print` shows it as a table.

    Example:
        >>> compiled = costhub.compile("matmul.128x128x128", "compiled")  # doctest: +SKIP
        >>> compiled.kernels[0].check  # doctest: +SKIP
        'compared'
    """

    out: Path
    """The folder of the results."""
    kernels: tuple[CompiledKernel, ...]
    """The schedule of each workload or kernel, and where it comes from."""
    networks: tuple[FinishedNetwork, ...]
    """The whole networks; empty if none was given, or no linker for the target is installed."""
    summary: Mapping[str, Any]
    """The content of `report.json`."""
    unlinked: tuple[str, ...] = ()
    """The networks that were not compiled as a whole, since no linker for the target is installed."""

    @property
    def database(self) -> Path:
        """The folder of the TVM database, for ``ms.database.JSONDatabase(work_dir=...)``."""
        return self.out

    @property
    def libraries(self) -> dict[str, Path]:
        """Network or workload -> its library or object file; those that are not correct are left out."""
        named = [(each.network, each.library) for each in self.networks]
        named += [(each.workload, each.library) for each in self.kernels]
        return {name: Path(library) for name, library in named if library}

    def load(self, network: str | None = None) -> TunedNetwork:
        """The network as a function of torch tensors.

        Args:
            network: Its name; not needed if there is only one.

        Raises:
            NetworkError: There is no such network, or it is for another machine.
        """
        from costhub.search.whole_network.tuned_network import TunedNetwork

        found = {each.network: each for each in self.networks if each.library and self.summary["runs_here"]}
        if network is None and len(found) == 1:
            (network,) = found
        if network not in found:
            have = f"the networks for this machine are {', '.join(found)}" if found else "none is for this machine"
            raise NetworkError(f"{network or 'Which network'}: {have}. `libraries` lists the files.")
        return TunedNetwork(str(found[network].library), threads=found[network].threads)

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with a row per kernel: its schedule, where that comes from, and how it was checked."""
        names = ("workload", "weight", "source", "known_workload", "known_device", "known_us", "rank")
        rows = [
            {
                **{name: getattr(kernel, name) for name in names},
                "programs": sum(kernel.counts.values()),
                "check": kernel.check,
                "error": kernel.error,
                "library": kernel.library,
                "seconds": kernel.seconds,
            }
            for kernel in self.kernels
        ]
        return load_pandas().DataFrame(rows)

    def __str__(self) -> str:
        return compile_text(self.summary)


def compile(
    what: Any,
    out: str | Path,
    *,
    model: str | Path | CostModel = "auto",
    device: str = "auto",
    options: CompileOptions | None = None,
    seed: int = 0,
    progress: bool = True,
) -> Compilation:
    """Compiles workloads or whole networks for a CPU with the best known or predicted schedules.

    Nothing is measured. For each kernel, the model ranks schedules that were measured for this very workload on the
    device or a similar one, schedules of similar workloads, and schedules from the design space; what `data` measured
    on the device itself comes first. The folder `out` receives a TVM database, a library for each network
    (``NETWORK.so``) or workload, and `report.json`. On the device, outputs are compared with those without a schedule.

    Args:
        what: As for `costhub.tune`.
        out: Folder for the results: a new one, or one of an earlier compilation, which is replaced.
        model: As for `costhub.tune`.
        device: `auto` for this machine's CPU, a part of it, any CPU of the device index, the file of another CPU's
            probe (`costhub probe --json`), or a TVM target as JSON with ``num-cores``. One for another is not run.
        options: Which schedules to choose from.
        seed: Seed of the random programs.
        progress: Show a progress bar on a terminal.

    Raises:
        CosthubError: A name, file, model or device does not exist, a workload cannot be scheduled, or `out` is taken.

    Example:
        >>> compiled = compile("matmul.256x256x256", "compiled")  # doctest: +SKIP
        >>> compiled.kernels[0].source  # doctest: +SKIP
        'measured'
    """
    options = options_given(options, CompileOptions)
    options.check()
    plan = ZeroTrialPlan(sources=tuple(options.sources), pool=options.pool, space=options.space, seed=seed)
    chosen = ModelChoice(model, options.arch, allow_other_kind=options.allow_other_kind)
    check_target(device)
    chosen.check_local_kind(device)
    check_folder(Path(out))
    own = own_folders(options.data)
    folders = data_folders(own)
    check_held_out(options.without, folders)
    subjects = read_subjects(what, Path(out))
    subjects.check_once()
    check_lowering(subjects.networks, options.lowering)
    check_space(options.space, ["auto"])  # only CPUs are compiled for
    with launched_reader(subjects.networks) as reader:
        from costhub.search.result import OPENING, StageTimer
        from costhub.search.zero_trials.known import KnownSchedules

        began, stages = datetime.datetime.now(datetime.timezone.utc), StageTimer()
        with stages.during(OPENING):
            found = find_target(device)
            known = KnownSchedules(known_rows(found.row, folders, own), without=held_out(options.without, folders))
            ranker = chosen.for_device(found.row)
        compilation = _Compilation(subjects, Path(out), device, found, ranker, options, progress, began, stages)
        return compilation.run(plan, known, reader)


def check_folder(out: Path) -> None:
    """Refuses a folder with results that a compilation would replace but did not write.

    Raises:
        DataError: It holds a database or report of something else.
    """
    from costhub.search.database import FILES

    report = out / REPORT
    try:
        content = json.loads(read_regular(report, limit=MAX_REPORT_BYTES, error=DataError)) if report.exists() else {}
    except (ValueError, RecursionError):
        content = None
    if isinstance(content, dict) and content.get("costhub") == KIND:
        refuse_newer(content, newest=REPORT_VERSION, what=report, error=DataError)
    elif content != {} or any((out / name).exists() for name in FILES):
        raise DataError(f"{out} holds the results of something else, such as `costhub tune`. Choose another folder.")


def _remove_libraries(out: Path) -> None:
    """Removes the libraries of an earlier compilation in the folder, as its report names them."""
    if (report := out / REPORT).exists():
        content = json.loads(read_regular(report, limit=MAX_REPORT_BYTES, error=DataError))
        for name in _libraries(content):
            (out / name).unlink(missing_ok=True)


def _libraries(report: Mapping[str, Any]) -> Iterator[str]:
    """The file names of the libraries in a report, which somebody else may have written."""
    for key in ("workloads", "networks"):
        entries = report.get(key)
        for entry in entries if isinstance(entries, list) else ():
            library = entry.get("library") if isinstance(entry, Mapping) else None
            if isinstance(library, str) and "\0" not in library and Path(library).suffix in LIBRARY_SUFFIXES:
                yield Path(library).name


@dataclass(frozen=True)
class _Compilation:
    """A compilation whose names have been checked."""

    subjects: Subjects
    out: Path
    device: str
    """As it was named."""
    found: FoundTarget
    model: ChosenModel
    options: CompileOptions
    progress: bool
    began: datetime.datetime
    stages: StageTimer

    def run(self, plan: ZeroTrialPlan, known: KnownSchedules, reader: Child | None) -> Compilation:
        """Chooses schedules, compiles networks and writes the report."""
        from costhub.collector.workloads.network_kernels import name_networks
        from costhub.search.database import SearchFolder
        from costhub.search.result import FINISHING, SCHEDULING
        from costhub.search.zero_trials.compile import file_name

        log.info("%s", self.model.line)
        jobs = self.subjects.jobs()
        own = frozenset(job.name for job in jobs)
        target, networks = self.found.target, self.subjects.networks
        unlinked = self._unlinked()
        jobs += network_jobs(networks, target.text, self.options.lowering, stages=self.stages, reader=reader)
        if not jobs:
            raise no_kernels_error(networks, "compiled with a schedule")
        check_different([job.name for job in jobs])
        # The library of a kernel and that of a network would replace one another.
        check_different([*map(file_name, sorted(own)), *name_networks(networks)])
        with SearchFolder(self.out) as folder:
            check_folder(self.out)  # again: a search may have written to it since
            # An interrupted compilation leaves a database, which the next one may replace.
            _remove_libraries(self.out)
            begun = {"costhub": KIND, "version": REPORT_VERSION, "is_finished": False}
            write_replacing(self.out / REPORT, json.dumps(begun).encode())
            with self.stages.during(SCHEDULING):
                kernels = self._kernels(jobs, known, plan, folder, own)
            with self.stages.during(FINISHING):
                finished = [] if unlinked else self._networks()
            summary = self._summary(kernels, finished, known, plan)
            write_replacing(self.out / REPORT, json.dumps(summary, indent=1).encode())
        return Compilation(self.out, tuple(kernels), tuple(finished), summary, unlinked)

    def _unlinked(self) -> tuple[str, ...]:
        """The networks if no linker for the target is installed; says so before the kernels take their time."""
        target = self.found.target
        if not self.subjects.networks or target.suffix == ".so":
            return ()
        from costhub.collector.workloads.network_kernels import name_networks

        networks = tuple(name_networks(self.subjects.networks))
        log.warning(
            "%s will not be compiled as a whole: no linker for %s is installed; on Debian, install lld or the binutils "
            "for it. Schedules of the kernels will be in the database.",
            " and ".join(networks),
            json.loads(target.text).get("mtriple"),
        )
        return networks

    def _kernels(
        self,
        jobs: Sequence[Job],
        known: KnownSchedules,
        plan: ZeroTrialPlan,
        folder: SearchFolder,
        own: frozenset[str],
    ) -> list[CompiledKernel]:
        from costhub.search.zero_trials.compile import compile_kernels

        done = 0
        with BarWithLines(len(jobs), desc="compiling", unit="kernel", lines=0, enabled=self.progress) as shown:

            def step(_: CompiledKernel) -> None:
                nonlocal done
                done += 1
                shown.step()
                shown.log(lambda: f"{done} of {counted(len(jobs), 'kernel')} compiled")

            return compile_kernels(
                jobs,
                self.model.model,
                self.found.target,
                known,
                plan,
                out=folder,
                libraries=own,
                on_kernel=step,
            )

    def _networks(self) -> list[FinishedNetwork]:
        from costhub.collector.workloads.network_kernels import name_networks
        from costhub.search.whole_network.finish import finish_untimed

        target = self.found.target
        return [
            finish_untimed(
                network,
                label=label,
                target=target.text,
                database=self.out,
                out=self.out,
                lowering=self.options.lowering,
                runs_here=target.runs_here,
                on_step=lambda step: log.info("%s ...", step),
            )
            for label, network in name_networks(self.subjects.networks).items()
        ]

    def _summary(
        self,
        kernels: Sequence[CompiledKernel],
        networks: Sequence[FinishedNetwork],
        known: KnownSchedules,
        plan: ZeroTrialPlan,
    ) -> dict[str, Any]:
        from costhub.versions import costhub_version, installed_versions

        plain: dict[str, Any] = {
            "costhub": KIND,
            "version": REPORT_VERSION,
            "device": self.found.row["device_id"],
            "target": json.loads(self.found.target.text),
            "is_finished": True,
            "runs_here": self.found.target.runs_here,
            "model": self.model.name,
            "model_reason": self.model.reason,
            "known_devices": [each.device_id for each in known.rows],
            "plan": asdict(plan),
            "without": list(self.options.without),
            "command": self.options.command or self._call(plan.seed),
            "began": self.began.isoformat(timespec="milliseconds"),
            "stages": self.stages.seconds(),
            "database": str(self.out),
            "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "versions": {"costhub": costhub_version(), **installed_versions()},
            "workloads": [asdict(kernel) for kernel in kernels],
            "networks": [network.to_json() for network in networks],
        }
        return plain

    def _call(self, seed: int) -> str:
        """The Python call that repeats the compilation."""
        named = {"model": self.model.argument, "device": self.device, "seed": seed}
        return call_text("compile", self.subjects, self.out, named, self.options)
