"""Provides tune: from the name of a workload or network to fast programs, a report and a library."""

from __future__ import annotations

import datetime
import itertools
import json
import logging
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costhub.api.compile_inputs import check_held_out, data_folders, known_schedules
from costhub.api.measuring import (
    BoardsAt,
    Where,
    call_text,
    check_boards,
    check_limits,
    check_space,
    load_average,
    local_devices,
    one_device,
    open_measurer,
    options_given,
)
from costhub.api.models import ChosenModel, ModelChoice, advise
from costhub.api.network_jobs import check_lowering, each_once, launched_reader, network_jobs, no_kernels_error
from costhub.api.subjects import Subjects, read_subjects
from costhub.api.tune_progress import TuneProgress
from costhub.api.tune_report import (
    TuneReport,
    read_report,
    stopped_before,
    warn_of_other_device,
    warn_of_other_model,
    warn_of_other_space,
    warn_of_other_target,
)
from costhub.cards.reports.tune_history import on_target
from costhub.errors import ArgumentError, last_line
from costhub.names import check_different
from costhub.terminal_text import counted

if TYPE_CHECKING:
    from costhub.api.tuning import Tuning
    from costhub.collector.measurer import Measurer
    from costhub.collector.workloads.network_source import Lowering
    from costhub.isolation.child import Child
    from costhub.models.protocol import CostModel
    from costhub.search.database import SearchFolder
    from costhub.search.options import Job
    from costhub.search.result import StageTimer, TuneResult
    from costhub.search.whole_network.finish import FinishedNetwork
    from costhub.search.zero_trials.known import KnownSchedules

log = logging.getLogger("costhub")
MANY_PROGRAMS = 1000
"""Measured programs in a folder from which on `tune` says that reading them and learning from them may take minutes."""


@dataclass(frozen=True)
class TuneOptions:
    """How a search proceeds; the defaults are those of `costhub tune`.

    Example:
        >>> TuneOptions(strategy="annealing", select="diverse").said
        'annealing search, diverse; the model learns from each round by: brief'
    """

    method: str = "brief"
    """How the model learns from measurements: brief, frozen, or a method of `costhub.adapt`."""
    strategy: str = "evolutionary"
    """How programs are proposed: evolutionary (TVM's own), annealing, ppo, random-top-k or random."""
    select: str = "ranked"
    """Which proposals are measured: ranked (by score), diverse or clustered."""
    draft: str | CostModel | None = None
    """A cheap model that ranks all candidates, so that the model scores only the best of them."""
    stop: str = "gain"
    """When the search ends before its trials are spent: gain (when another batch promises too little), variation
    (when the model's predictions no longer vary) or never."""
    from_scratch: bool = False
    """Measure only what the strategy proposes. Otherwise the first batch also includes the fastest schedules that the
    hub knows for this very workload."""
    sources: tuple[str, ...] = ("measured",)
    """Where those schedules come from: measured for this workload, carried over from similar ones, or both."""
    without: tuple[str, ...] = ()
    """Workloads, suites and networks whose schedules count as unknown; see `CompileOptions.without`."""
    descends: bool = False
    """Measure neighbours of the fastest programs as well, each one decision away."""
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
    torch_compile: bool = False
    """Time networks under ``torch.compile`` as well, which takes a minute or more."""
    beside: tuple[str, ...] = ()
    """Further engines to time networks in on a CPU: onnxruntime, openvino; they need ``pip install
    'costhub[engines]'``. Both compute in float32, and OpenVINO with `precision` bf16 in what it chooses."""
    time_unscheduled: bool = False
    """Time each workload and network without a schedule as well: plain loops on one thread, up to a minute for a
    workload; a network is called six times or more."""
    allow_other_kind: bool = False
    """Accept a GPU model for a CPU, or the reverse, although it ranks programs about as well as chance."""
    command: str | None = None
    """The command that the report gives for repeating the search; by default the Python call."""

    @property
    def said(self) -> str:
        """A description for the report."""
        said = [f"{self.strategy} search, {self.select}; the model learns from each round by: {self.method}"]
        if self.from_scratch:
            said.append("no known schedules")
        elif self.sources != TuneOptions.sources:
            said.append(f"known schedules: {', '.join(self.sources)}")
        if self.without:
            said.append(f"taken as unknown: {', '.join(self.without)}")
        if self.space is not None:
            said.append(f"design space: {self.space}")
        if self.descends:
            said.append("neighbours of the fastest programs are measured")
        return "; ".join(said)

    @property
    def lowering(self) -> Lowering:
        """How networks are lowered to kernels."""
        from costhub.collector.workloads.network_source import Lowering

        return Lowering(self.fast_math, self.layout, self.precision)

    def check(self) -> None:
        """Refuses unknown names, and engines that are not installed, before torch or TVM is loaded.

        Raises:
            UnknownNameError: A method, strategy, selection, stop rule, design space, layout, precision, engine or
                workload does not exist.
            CosthubError: A source of schedules is unknown, or the package of an engine is missing.
        """
        from costhub.collector.propose.spaces import check_name
        from costhub.collector.workloads.network_source import Lowering
        from costhub.search.options import SEARCH_STOPS, SELECTIONS, check_known_sources
        from costhub.search.strategies.by_name import STRATEGIES
        from costhub.search.whole_network.engines import check_engines
        from costhub.transfer.methods.by_name import METHODS

        METHODS.check(self.method)
        STRATEGIES.check(self.strategy)
        SELECTIONS.check(self.select)
        SEARCH_STOPS.check(self.stop)
        if self.space is not None:
            check_name(self.space)
        if self.sources or not self.from_scratch:
            check_known_sources(self.sources)
        if self.without:
            check_held_out(self.without, data_folders())
        Lowering(layout=self.layout, precision=self.precision)
        check_engines(self.beside)


def tune(
    what: Any,
    out: str | Path,
    *,
    trials: int = 64,
    model: str | Path | CostModel = "auto",
    device: Where = "auto",
    options: TuneOptions | None = None,
    seed: int = 0,
    progress: bool = True,
) -> Tuning:
    """Searches for fast programs of workloads or whole networks, guided by a pretrained cost model.

    The folder `out` receives a TVM database, a report and a plot for each workload. A network is then
    compiled to ``out/NETWORK.so``, checked against torch and timed (not for GPUs at boards). After an interruption,
    the same call continues where the search stopped.

    Args:
        what: A workload (``matmul.256x256x256``), a suite, a network (``mobilenet_v2``), a file (``.pt2`` of
            ``torch.export.save``, ``.json`` of ``tvm.ir.save_json``), a ``torch.export.ExportedProgram``, a
            ``tvm.IRModule`` or a ``PrimFunc``; a list of these, or a dictionary that maps names to them.
        out: Folder for the results.
        trials: The most programs to measure per workload, on average; workloads likely to improve get more. The search
            ends sooner if another batch of programs promises too little; ``TuneOptions(stop="never")`` spends all.
        model: `auto` for the best model for this machine (one for its own device, or any-cpu or any-gpu otherwise); a
            name, address or folder as for `costhub.load_model`; or a `CostModel` of your own.
        device: `auto` for this machine's CPU, `cuda`, another device of this machine, `BoardsAt`, or a measurer
            of `costhub.collector.measurer`.
        options: How the search proceeds.
        seed: Seed of the search.
        progress: Show a progress bar on a terminal.

    Returns:
        What was found; `print` shows it as a table. A network with wrong outputs has an `error`, and no library.

    Raises:
        CosthubError: A name, file, model or device does not exist, or a workload cannot be scheduled or measured.

    Example:
        >>> tuning = tune("matmul.256x256x256", "tuned", trials=16)  # doctest: +SKIP
        >>> print(tuning)  # doctest: +SKIP
        workload            tuned (us)  GFLOP/s  of peak  programs
        matmul.256x256x256       210.3      160      31%        16
    """
    options = options_given(options, TuneOptions)
    options.check()
    check_limits(trials)
    chosen = ModelChoice(model, options.arch, allow_other_kind=options.allow_other_kind)
    draft = None if options.draft is None else ModelChoice(options.draft, allow_other_kind=options.allow_other_kind)
    device = _checked_device(Path(out), device)  # before a network in memory is written there
    subjects = read_subjects(what, Path(out))
    _check_beside(options, subjects, device)
    for name, choice in itertools.product(local_devices(device), filter(None, (chosen, draft))):
        choice.check_local_kind(name)
    subjects.check_once(local_devices(device))
    check_lowering(subjects.networks, options.lowering, local_devices(device))
    check_space(options.space, local_devices(device))
    check_boards(device)
    with launched_reader(subjects.networks) as reader:
        return _Search(subjects, Path(out), trials, chosen, draft, options, seed, progress).run(device, reader)


def _checked_device(out: Path, where: Any) -> Where:
    """The only device; refuses several, one that this machine lacks, and a folder that holds something else.

    Results in a model's folder would be published with the model.
    """
    from costhub.collector.device.local import find_local, local_kind
    from costhub.hub.catalogue.hubs import CONFIG

    if (out / CONFIG).exists():
        raise ArgumentError(f"{out} is the folder of a model ({CONFIG}). Choose another for the results.")
    read_report(out)
    device = one_device(where)
    find_local([name for name in local_devices(device) if name != "auto" and local_kind(name) is None])
    return device


@dataclass(frozen=True)
class _Search:
    """A search whose names have been checked."""

    subjects: Subjects
    out: Path
    trials: int
    """Per workload."""
    chosen: ModelChoice
    draft: ModelChoice | None
    options: TuneOptions
    seed: int
    progress: bool

    def run(self, device: Where, reader: Child | None) -> Tuning:
        """Searches, compiles networks, and writes the report."""
        from costhub.api.tuning import Tuning
        from costhub.collector.run.evaluator import COLLECTING
        from costhub.search.database import SearchFolder
        from costhub.search.result import FINISHING, OPENING, SEARCHING, StageTimer

        load, stages = load_average(), StageTimer()  # before this search adds to the load
        began = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
        out, networks, jobs = self.out, self.subjects.networks, self.subjects.jobs()
        check_different([job.name for job in jobs])  # before the folder is made, as everything that can be told by then
        with SearchFolder(out) as folder, ExitStack() as measuring:
            earlier = read_report(out)
            with stages.during(OPENING):
                measurer = measuring.enter_context(open_measurer(device, evaluator=COLLECTING))
                measurer.launch()  # Its processes get ready while this one reads the model and the networks.
                model = self.chosen.for_device(measurer.device)
                known = None if self.options.from_scratch else self._known(measurer)
            log.info("%s", model.line)
            for sentence in advise(model, measurer):
                log.info(sentence)
            _warn_of_kernels_alone(networks, measurer)
            device_id = str(measurer.device["device_id"])
            warn_of_other_device(out, earlier, device_id)
            _say_what_is_held(out)
            if networks:
                log.info("Finding the kernels of %s ...", " and ".join(networks))
            target = json.dumps(measurer.target)
            kernels = network_jobs(networks, target, self.options.lowering, stages=stages, reader=reader)
            jobs = each_once(jobs, kernels)
            if not jobs:
                raise no_kernels_error(networks, "tuned")
            warn_of_other_target(out, earlier, device_id, target)
            counted_before = on_target(earlier, target)
            warn_of_other_model(out, counted_before, model.name, device_id, {job.name for job in jobs})
            warn_of_other_space(out, counted_before, self.options.space, device_id, jobs)
            cap = self.trials * len(jobs)
            names, options = [job.name for job in jobs], self.options
            ended = stopped_before(counted_before, options.stop, cap, names, options.said)
            shown = TuneProgress(ended["trials"] if ended else cap, enabled=self.progress)
            with stages.during(SEARCHING):
                results = self._search(jobs, model.model, known, measurer, folder, shown)
            stopped = shown.stopped(self.options.stop)
            ended = stopped.to_json() if stopped else ended
            measuring.close()  # Its processes must not compute while a network is timed.
            weights = {job.name: job.weight for job in jobs}
            machine = {"load_average": load, "cores": os.cpu_count(), "on_board": measurer.boards is not None}
            what = self._about(model, device)
            about = {**what, **machine, "target": target, "began": began, "cap": cap, "stopped": ended}
            report = TuneReport(results, out, weights, shown.order, measurer.device, about, earlier)
            finished: list[FinishedNetwork] = []
            if networks and obstacle(measurer) is None:
                with stages.during(FINISHING):
                    finished = _finished(networks, measurer, out, self.options, report, stages)
            return Tuning(out, tuple(results), tuple(finished), report.write(finished, stages=stages.seconds()))

    def _known(self, measurer: Measurer) -> KnownSchedules:
        return known_schedules(measurer.device, without=self.options.without)

    def _search(
        self,
        jobs: Sequence[Job],
        model: CostModel,
        known: KnownSchedules | None,
        measurer: Measurer,
        folder: SearchFolder,
        shown: TuneProgress,
    ) -> list[TuneResult]:
        from costhub.search.options import SEARCH_STOPS, Search, find_selection
        from costhub.search.strategies.by_name import find_strategy
        from costhub.search.tune import tune_all
        from costhub.transfer.methods.by_name import find_method

        search = Search(
            model,
            draft=None if self.draft is None else self.draft.for_device(measurer.device).model,
            known=known,
            known_sources=self.options.sources,
            descends=self.options.descends,
            space=self.options.space,
            method=find_method(self.options.method),
            strategy=find_strategy(self.options.strategy),
            selection=find_selection(self.options.select),
            stop_rule=SEARCH_STOPS.find(self.options.stop)(),
            seed=self.seed,
        )
        with shown:
            return tune_all(
                jobs,
                search,
                measurer,
                out=folder,
                trials=shown.trials,
                on_trial=shown.trial,
                on_batch=shown.batch,
                time_unscheduled=self.options.time_unscheduled,
            )

    def _about(self, model: ChosenModel, device: Where) -> dict[str, str]:
        """What the report says about the search besides its results."""
        named = {"trials": self.trials, "model": model.argument, "device": device, "seed": self.seed}
        call = call_text("tune", self.subjects, self.out, named, self.options)
        return {
            "model": model.name,
            "model_reason": model.reason,
            "method": self.options.said,
            "command": self.options.command or call,
        }


def _finished(
    networks: Sequence[str],
    measurer: Measurer,
    out: Path,
    options: TuneOptions,
    report: TuneReport,
    stages: StageTimer,
) -> list[FinishedNetwork]:
    """Compiles and times whole networks after the search.

    Args:
        networks: Their names.
        measurer: That of the search, for a device that allows it.
        out: The folder of the search.
        options: Those of the search.
        report: Written in case a network fails: while TVM compiles the first one, and never while one is timed.
        stages: Counts the seconds for which networks wait for it.
    """
    from costhub.collector.workloads.network_kernels import name_networks
    from costhub.search.result import REPORTING
    from costhub.search.whole_network.finish import TORCH_COMPILE, UNTUNED, finish_network

    asked = {TORCH_COMPILE: options.torch_compile, UNTUNED: options.time_unscheduled}
    beside = [*(form for form, is_asked in asked.items() if is_asked), *options.beside]
    with ThreadPoolExecutor(1) as drawing:
        kept, steps = drawing.submit(report.write, stages=stages.seconds()), itertools.count()

        def on_step(step: str) -> None:
            if next(steps):  # the first one compiles
                with stages.during(REPORTING):
                    kept.result()
            log.info("%s ...", step)

        try:
            return [
                finish_network(
                    network,
                    label=label,
                    target=json.dumps(measurer.target),
                    database=out,
                    out=out,
                    lowering=options.lowering,
                    beside=beside,
                    boards=measurer.boards,
                    on_step=on_step,
                )
                for label, network in name_networks(networks).items()
            ]
        except BaseException as failure:
            if (error := kept.exception()) and error is not failure:
                log.warning("The report of the search could not be written: %s", last_line(error))
            raise


def _check_beside(options: TuneOptions, subjects: Subjects, where: Where) -> None:
    """Refuses engines and `torch.compile` where no network could run in them, before TVM or torch is loaded.

    Raises:
        ArgumentError: No network is named, or none that torch can run; for engines also if one of them is a relax
            module, or they are for a GPU or boards.
        CosthubError: What is named is nothing that can be tuned.
    """
    from costhub.collector.device.local import local_kind
    from costhub.collector.workloads.network_source import RELAX

    if not (options.beside or options.torch_compile):
        return
    if not subjects.networks:
        subjects.check()  # a file that is no network, such as ONNX, is told what it is
    if isinstance(where, str):
        on_boards, kind = False, local_kind(*local_devices(where))
    else:
        on_boards = isinstance(where, BoardsAt) or where.boards is not None
        kind = None if isinstance(where, BoardsAt) else str(where.device["kind"])
    of_relax = [name for name in subjects.networks if Path(name).suffix == RELAX]
    relax = of_relax[0] if of_relax and (options.beside or len(of_relax) == len(subjects.networks)) else None
    why = None
    if not subjects.networks:
        why = "times whole networks, and no network is named"
    elif relax:
        why = f"needs a network that torch can export, and {relax} is a relax module"
    elif on_boards and options.beside:
        why = "times networks on this machine, and this one is for boards"
    elif kind not in ("cpu", None) and options.beside:  # None: no device of this machine, which is refused elsewhere
        why = "times networks on CPUs, and this one is for a GPU"
    if why:
        option = "--beside (beside=" if options.beside else "--torch-compile (torch_compile="
        raise ArgumentError(f"{option} in Python) {why}: leave it out.")


def _warn_of_kernels_alone(networks: Sequence[str], measurer: Measurer) -> None:
    """Says before the search, which may take hours, that networks will not be compiled as a whole."""
    why_not = obstacle(measurer) if networks else None
    if why_not is not None:
        log.warning(
            "%s will not be compiled as a whole. %s Schedules of the kernels will be in the database.",
            " and ".join(networks),
            why_not,
        )


def _say_what_is_held(out: Path) -> None:
    """Says why a search in a folder with many measured programs begins late."""
    from costhub.search.database import measured_programs

    if (count := measured_programs(out)) >= MANY_PROGRAMS:
        log.info(
            "%s holds %s: reading them and learning from them may take minutes.",
            out,
            counted(count, "measured program"),
        )


def obstacle(measurer: Measurer) -> str | None:
    """A sentence that says why networks cannot be compiled for a device; None if they can."""
    from costhub.collector.build.linker import can_link

    triple = measurer.target.get("mtriple")
    if measurer.boards is not None and measurer.device["kind"] != "cpu":
        return "On boards, this is possible for CPUs only."
    if measurer.boards is not None and not can_link(triple):
        return f"No linker for {triple} is installed; on Debian, install lld or the binutils for it."
    return None
