"""Provides collect: measured programs of named workloads, in a data folder."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from costhub.api.measuring import (
    Where,
    check_boards,
    check_limits,
    folder_of,
    local_devices,
    open_measurer,
    options_given,
)
from costhub.api.models import ModelChoice
from costhub.api.network_jobs import check_lowering
from costhub.api.subjects import read_subjects
from costhub.dataset.credit import check_rights
from costhub.dataset.folder import DataFolder
from costhub.errors import ArgumentError, MeasureError
from costhub.progress import BarWithLines
from costhub.registry import Registry
from costhub.terminal_text import Printed, counted

if TYPE_CHECKING:
    from costhub.collector.collect import CollectionProgress, Proposals
    from costhub.collector.measurer import Measurer
    from costhub.collector.propose.sampler import Shares
    from costhub.collector.run.evaluator import Evaluator
    from costhub.collector.workload_queue import QueuedWorkload, WorkloadSpec
    from costhub.collector.workloads.network_source import Lowering
    from costhub.dataset.programs import Programs
    from costhub.models.protocol import CostModel


NO_FLUSH = "Only a CPU's caches can be flushed, not a GPU's: leave --flush-caches out (flush_caches in Python)."


class CollectionStop(Protocol):
    """Says when a collection is large enough."""

    def reason_to_stop(self, done: int, /) -> str | None:
        """Why to stop, as a sentence; None as long as the collection should go on.

        Args:
            done: Programs measured in this run.
        """


# As strings, so that a wrong name is refused before the code that learns is loaded.
COLLECT_STOPS: Registry[Callable[..., CollectionStop]] = Registry(
    "stop rule",
    {"gain": "costhub.transfer.collection_stop:LearningCurve", "never": "costhub.transfer.collection_stop:spend_all"},
    group="costhub.collect_stops",
    listing="`costhub collect --help`",
)
"""Name -> a rule that ends a collection before its trials and its budget are spent; called like `LearningCurve`."""


@dataclass(frozen=True)
class CollectOptions:
    """What to measure, how, and in whose name; the defaults are those of `costhub collect`.

    Example:
        >>> CollectOptions(contributor="Ada Lovelace").licence
        'CC-BY-4.0'
    """

    contributor: str = "anonymous"
    """Name written into the rows."""
    licence: str = "CC-BY-4.0"
    """Licence of the rows (an SPDX name)."""
    space: str = "default"
    """Design space: a name, or ``module:function``."""
    precision: str = "float32"
    """What convolutions and dense layers of networks multiply: ``float32``, or ``bf16`` in the space `blocked`."""
    shares: str | Shares | None = None
    """Share of the programs from each source, such as ``random=0.5,mutation=0.3,model=0.2``; by default
    ``random=0.5,mutation=0.5``."""
    model: str | CostModel | None = None
    """The model for the share `model`, as for `costhub.load_model`."""
    check_outputs: bool = False
    """Compare outputs with the default schedule's; on this machine only."""
    flush_caches: bool = False
    """Flush the caches before every repeat."""
    allow_other_kind: bool = False
    """Accept a GPU model for a CPU, or the reverse, although it ranks programs about as well as chance."""
    stop: str = "never"
    """``gain`` ends the collection when more programs no longer improve a model that learns from it."""

    def check(self) -> None:
        """Refuses what can be told from the options alone, before TVM is loaded or anything is made.

        Raises:
            CosthubError: One of its kinds: a licence, a stop rule or a share is wrong.
        """
        check_rights(self.contributor, self.licence)
        COLLECT_STOPS.check(self.stop)
        self.parsed_shares()

    @property
    def lowering(self) -> Lowering:
        """How networks are lowered to kernels: the space `blocked` is for blocked layouts.

        Raises:
            UnknownNameError: The precision is unknown.
            ArgumentError: The precision is bf16, and the space is not `blocked`.
        """
        from costhub.collector.workloads.network_source import BF16, BLOCKED, PLAIN, Lowering

        if self.precision == BF16 and self.space != BLOCKED:
            raise ArgumentError(
                "Kernels in bfloat16 are written for blocked layouts: give --space blocked (space= in Python) with "
                "--precision bf16."
            )
        return Lowering(layout=BLOCKED if self.space == BLOCKED else PLAIN, precision=self.precision)

    def guide(self) -> ModelChoice | None:
        """The choice of the model for the share `model`; None without one."""
        return None if self.model is None else ModelChoice(self.model, allow_other_kind=self.allow_other_kind)

    def evaluator(self) -> Evaluator:
        """How a latency is measured."""
        from costhub.collector.run.evaluator import COLLECTING

        return replace(COLLECTING, cache_flush=self.flush_caches)

    def parsed_shares(self) -> Shares:
        """The shares.

        Raises:
            ArgumentError: They have the wrong form, include a model but none is named, or the reverse.
        """
        from costhub.collector.propose.sampler import Shares

        text = self.shares
        found = Shares.parse(text) if isinstance(text, str) else text or Shares()
        if found.model and self.model is None:
            raise ArgumentError("The shares include a model: name it with --model (model=... in Python).")
        if self.model is not None and not found.model:
            raise ArgumentError(
                "A model proposes the programs of the share `model`, which is 0: give --shares (shares=... in Python), "
                "such as random=0.4,mutation=0.4,model=0.2, or leave the model out."
            )
        return found


@dataclass(frozen=True)
class RepeatNoise:
    """How far apart the repeats of a device's measured programs are, as rule CH060 of `costhub check` counts it.

    Example:
        >>> print(RepeatNoise.of("amd-epyc-zen5-2c", [[1e-3, 1.02e-3], [2e-3, 2.4e-3], [3e-3, 3e-3]]))
        Noise of repeats on amd-epyc-zen5-2c: in the median row, the slowest takes 1.02 times as long as the \
fastest; 1 of 3 rows with several repeats is above 1.1 times.
    """

    device_id: str
    rows: int
    """Rows with two repeats or more."""
    median: float
    """Slowest / fastest repeat of the median row."""
    above: int
    """Rows above the limit."""
    limit: float
    """What `costhub check` allows for the median row of a session on a CPU."""
    warns: bool
    """Whether it would warn about these rows if they were a session."""

    @classmethod
    def of(cls, device_id: str, runs: Sequence[Sequence[float]], *, is_cpu: bool = True) -> RepeatNoise | None:
        """The noise of some rows; None if nothing was repeated.

        Args:
            device_id: The device.
            runs: The repeats of each row, in seconds.
            is_cpu: Whether the device is a CPU; the rule applies to CPUs only.
        """
        from costhub.dataset.check.latencies import ENOUGH_ROWS, MOST_USUAL_SPREAD

        spreads = [max(run_s) / min(run_s) for run_s in runs if len(run_s) > 1 and min(run_s) > 0]
        if not spreads:
            return None
        median, above = statistics.median(spreads), sum(spread > MOST_USUAL_SPREAD for spread in spreads)
        warns = is_cpu and len(spreads) >= ENOUGH_ROWS and median > MOST_USUAL_SPREAD
        return cls(device_id, len(spreads), median, above, MOST_USUAL_SPREAD, warns)

    def __str__(self) -> str:
        from costhub.dataset.check.rules import RULES

        text = (
            f"Noise of repeats on {self.device_id}: in the median row, the slowest takes {self.median:.2f} times as "
            f"long as the fastest; {self.above:,} of {counted(self.rows, 'row')} with several repeats "
            f"{'is' if self.above == 1 else 'are'} above {self.limit:g} times."
        )
        return f"{text} `costhub check` warns of such a session (CH060): {RULES['CH060'].fix}" if self.warns else text


@dataclass(frozen=True, repr=False)
class Collection(Printed):
    """The outcome of a collection; `print` shows a summary."""

    folder: Path
    """The data folder, to be read by `costhub.load_measurements` and `costhub.load_programs`."""
    device_ids: tuple[str, ...]
    progress: CollectionProgress
    """Counts, problems by workload, and where the time went."""
    noise: tuple[RepeatNoise, ...] = ()
    """For each device on which something was repeated."""

    @property
    def good(self) -> int:
        """Programs that ran and were measured."""
        return self.progress.good

    @property
    def failed(self) -> int:
        """Programs that failed; these are rows, too."""
        return self.progress.failed

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with everything in the folder about these devices, one row per measurement."""
        from costhub.dataset.load import load_measurements

        return load_measurements(self.folder, device=list(self.device_ids), format="pandas")

    def __str__(self) -> str:
        devices = " and ".join(self.device_ids)
        added = f"{counted(self.good, 'good measurement')} and {counted(self.failed, 'failure')}"
        lines = [f"{added} of {devices} added to {self.folder}."]
        if self.progress.is_complete and self.progress.before and not self.progress.done and not self.progress.problems:
            first, *others = self.device_ids
            lines = [f"Nothing was left to measure: {self.folder} already holds these programs of {first}."]
            if others:
                lines.append(
                    f"What is left to measure is counted on {first} only; {' and '.join(others)} got only the programs "
                    "that were measured together with it. To measure more on another of these devices, name only that "
                    "device."
                )
        lines += map(str, self.noise)
        lines += [] if self.progress.stopped is None else [f"{self.progress.stopped} Measuring more would gain little."]
        lines += [f"{name} was given up: {problem}" for name, problem in self.progress.problems.items()]
        return "\n".join(lines)


def collect(
    what: Any,
    out: str | Path,
    *,
    trials: int = 160,
    budget_s: float = 1800.0,
    device: Where | Sequence[str] = "auto",
    options: CollectOptions | None = None,
    seed: int = 0,
    progress: bool = True,
) -> Collection:
    """Measures programs of workloads on this machine or on boards and writes them to a data folder.

    Every row is safe on disk before the next program runs. After an interruption, the same call resumes:
    it loses nothing and measures nothing twice. Nothing leaves this machine.

    Args:
        what: As for `costhub.tune`: workloads, suites, networks, files or modules.
        out: The data folder, created if it is missing.
        trials: Programs per workload, including those already measured.
        budget_s: Seconds after which no further program is measured.
        device: As for `costhub.tune`, or several devices of this machine that share builds.
        options: What to measure, how, and in whose name.
        seed: Chooses the programs.
        progress: Show a progress bar on a terminal.

    Returns:
        What was measured.

    Raises:
        CosthubError: One of its subclasses: a name, file or device does not exist, or nothing can be measured.

    Example:
        >>> print(collect("matmul.128x128x128", "measurements", trials=32, budget_s=60))  # doctest: +SKIP
        31 good measurements and 1 failure of amd-epyc-zen5-2c added to measurements.
    """
    options = options_given(options, CollectOptions)
    check_limits(trials, budget_s=budget_s)
    if (guide := options.guide()) is not None:
        for name in local_devices(device):
            guide.check_local_kind(name)
    options.check()
    DataFolder.check_place(out)
    with tempfile.TemporaryDirectory(prefix="costhub-collect-") as scratch:  # a data folder holds no networks
        subjects = read_subjects(what, Path(scratch))
        subjects.check(local_devices(device))
        check_lowering(subjects.networks, options.lowering, local_devices(device))
        check_boards(device)
        with open_measurer(device, evaluator=options.evaluator()) as measurer:
            _check_measurer(measurer, options)
            workloads = subjects.specs(measurer.target, options.lowering)
            limits: dict[str, Any] = {"trials": trials, "budget_s": budget_s, "options": options, "seed": seed}
            done = collect_workloads(workloads, measurer, Path(out), progress=progress, **limits)
    if done.progress.is_complete:  # otherwise the budget ended it, perhaps before any other workload had its turn
        check_measured(done.progress)
    return done


def _check_measurer(measurer: Measurer, options: CollectOptions) -> None:
    """Refuses what a measurer cannot do."""
    if options.check_outputs and measurer.boards is not None:
        raise ArgumentError("Outputs can be compared on this machine only, not at boards.")
    if options.flush_caches and not measurer.evaluator.cache_flush:
        raise ArgumentError(
            "This measurer does not flush caches: open it with Evaluator(cache_flush=True), or leave flush_caches out."
        )
    if options.flush_caches and any(each.stored_row["kind"] != "cpu" for each in measurer.devices):
        raise ArgumentError(NO_FLUSH)


def check_measured(progress: CollectionProgress) -> None:
    """Refuses the outcome of a collection that gave up workloads and has nothing of any.

    Raises:
        MeasureError: Nothing was measured, now or earlier.
    """
    if progress.problems and not progress.done and not progress.before:
        given_up = [f"{name}: {why}" for name, why in progress.problems.items()]
        others = len(given_up) - 3
        more = f" So {'was' if others == 1 else 'were'} {counted(others, 'other')}." if others > 0 else ""
        raise MeasureError(f"Nothing could be measured. Given up: {' '.join(given_up[:3])}{more}")


def collect_workloads(
    workloads: Sequence[WorkloadSpec],
    measurer: Measurer,
    out: Path,
    *,
    trials: int,
    budget_s: float,
    options: CollectOptions,
    seed: int,
    progress: bool = False,
) -> Collection:
    """Like `collect`, for workloads that have been found and a measurer that is open.

    Args:
        workloads: What to measure.
        measurer: Builds and measures.
        out: The data folder.
        trials: As for `collect`, like the rest.
        budget_s: See there.
        options: See there.
        seed: See there.
        progress: See there.

    Raises:
        CosthubError: As for `collect`.
    """
    from costhub.collector.collect import Proposals
    from costhub.search.search_model import ScheduleScorer

    guide, scorer = options.guide(), None
    if guide is not None:
        scorer = ScheduleScorer(guide.for_device(measurer.devices[0].stored_row).model)
    proposals = Proposals(trials, options.parsed_shares(), scorer, options.space, seed, options.check_outputs)
    return _collected(workloads, measurer, proposals, options, out=out, budget_s=budget_s, progress=progress)


def _collected(
    workloads: Sequence[WorkloadSpec],
    measurer: Measurer,
    proposals: Proposals,
    options: CollectOptions,
    *,
    out: Path,
    budget_s: float,
    progress: bool,
) -> Collection:
    from costhub.collector.collect import collect
    from costhub.collector.session import Rights

    count = len(measurer.devices)
    total = len(workloads) * proposals.trials * count
    runs: dict[str, list[Sequence[float]]] = {each.device_id: [] for each in measurer.devices}
    with BarWithLines(total, desc="measuring", unit="program", lines=1, enabled=progress) as shown:

        def show(workload: QueuedWorkload, row: dict[str, Any], done: CollectionProgress) -> None:
            runs[row["device_id"]].append(row["run_s"])
            if done.done == 1:
                shown.start_at(done.before * count, total)
            best = f"best {workload.best_us:,.0f} us" if workload.best_us else row["status"]
            state = f"{workload.spec.name} on {row['device_id']}: {best}; {done.failed} failed in all"
            shown.show(state)
            shown.step()
            shown.log(lambda: progress_text(done, total, state, devices=count))

        done = collect(
            workloads,
            folder_of(out, measurer),
            measurer=measurer,
            rights=Rights(options.contributor, options.licence),
            proposals=proposals,
            budget_s=budget_s,
            on_row=show,
            reason_to_stop=_reason_to_stop(out, measurer, options, proposals.seed),
        )
    kinds = {each.device_id: each.stored_row["kind"] for each in measurer.devices}
    found = (RepeatNoise.of(name, own, is_cpu=kinds[name] == "cpu") for name, own in runs.items())
    return Collection(out, tuple(kinds), done, tuple(noise for noise in found if noise is not None))


def progress_text(done: CollectionProgress, total: int, state: str, *, devices: int = 1) -> str:
    """What a log says of a collection now and then.

    Args:
        done: Its progress.
        total: Programs on all devices, with those that existed.
        state: What has been measured last.
        devices: Devices that measure each program.
    """
    return f"{done.before * devices + done.done:,} of {total:,} programs measured; {state}"


def _reason_to_stop(out: Path, measurer: Measurer, options: CollectOptions, seed: int) -> Callable[[int], str | None]:
    """The function that says between batches whether to stop."""
    from costhub.dataset.features.specs import DEFAULT_SPEC
    from costhub.dataset.load import load_programs

    device_id = measurer.devices[0].device_id

    def read() -> Programs:
        return load_programs(out, device=device_id, spec=DEFAULT_SPEC, progress=False)

    return COLLECT_STOPS.find(options.stop)(read, DEFAULT_SPEC, seed=seed).reason_to_stop
