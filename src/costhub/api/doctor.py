"""Provides doctor and merge: examine MetaSchedule databases, and make clean ones from them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from costhub.errors import ArgumentError, DataError, DeviceError, UnknownNameError
from costhub.terminal_text import Printed
from costhub.versions import load_pandas

if TYPE_CHECKING:
    from costhub.collector.run.database_outputs import OutputReport
    from costhub.dataset.doctor.clean_copy import CopyReport
    from costhub.dataset.doctor.coverage import NetworkCoverage
    from costhub.dataset.doctor.database_rules import DatabaseFinding
    from costhub.dataset.doctor.examine import Examination

_EXAMPLE = '{"kind": "llvm", "mcpu": "znver4", "num-cores": 2}'
_OF_A_CHIP = ("kind", "arch", "mcpu", "num-cores")
"""Attributes of a target that tell devices apart; the others also depend on the compiler."""


@dataclass(frozen=True, repr=False)
class Diagnosis(Printed):
    """What a MetaSchedule database holds and what is wrong with it; `print` shows it as `costhub doctor` does."""

    examination: Examination
    """Its contents, with the findings in `log`."""
    coverage: NetworkCoverage | None = None
    """That of the network that was named."""
    outputs: OutputReport | None = None
    """How many programs were run and compared, if requested."""
    copy: CopyReport | None = None
    """The clean copy, if one was requested."""

    @property
    def errors(self) -> int:
        """Number of findings that keep TVM from loading the folder, or make it answer wrongly."""
        return self.examination.log.count("error")

    @property
    def warnings(self) -> int:
        """Number of findings that deserve a look."""
        return self.examination.log.count("warning")

    @property
    def findings(self) -> Sequence[DatabaseFinding]:
        """What was found, by rule: the first 1,000 places of each."""
        return self.examination.log.findings()

    @property
    def identity(self) -> str:
        """64 hex digits: the same for equal contents, regardless of order and form."""
        return self.examination.identity

    def manifest(self) -> dict[str, Any]:
        """Identity, files with their hashes, targets, workloads and counts, as JSON values."""
        from costhub.dataset.doctor.manifest import manifest

        return manifest(self.examination)

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        return {
            "folder": str(self.examination.folder),
            "manifest": self.manifest(),
            "findings": [asdict(finding) for finding in self.findings],
            "outputs": None if self.outputs is None else asdict(self.outputs),
            "coverage": None if self.coverage is None else _coverage_json(self.coverage),
            "copy": None if self.copy is None else {**asdict(self.copy), "folder": str(self.copy.folder)},
        }

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with a row per finding: the rule, how grave it is, where, and what was found."""
        columns = ("rule", "severity", "where", "message")
        return load_pandas().DataFrame([asdict(finding) for finding in self.findings], columns=columns)

    def __str__(self) -> str:
        from costhub.cards.reports.doctor import doctor_text
        from costhub.terminal_text import counted

        lines = [doctor_text(self.examination, self.coverage)]
        if self.outputs is not None:
            ran = self.outputs
            rest = f"; {ran.not_run:,} could not be compared here" if ran.not_run else ""
            lines.append(f"Outputs compared: {counted(ran.right + ran.wrong, 'program')}, {ran.wrong:,} wrong{rest}.")
        return "\n".join([*lines, *(self.copy.sentences() if self.copy else ())])


def _coverage_json(coverage: NetworkCoverage) -> dict[str, Any]:
    return {**asdict(coverage), "tuned": coverage.tuned, "tuned_flop_share": coverage.tuned_flop_share}


@dataclass(frozen=True)
class CleanCopy:
    """Where `costhub.doctor` writes a clean copy, and what goes into it.

    Example:
        >>> CleanCopy("clean/", failures=False).failures
        False
    """

    out: str | Path
    """A new folder."""
    failures: bool = True
    """Whether the copy keeps the records of programs that failed."""


def doctor(
    folder: str | Path,
    *,
    target: str | None = None,
    replay: bool = True,
    run: Literal["all"] | int | None = None,
    network: str | None = None,
    fast_math: bool = False,
    fix: str | Path | CleanCopy | None = None,
    workers: int | None = None,
    progress: bool = True,
) -> Diagnosis:
    """Examines the folder that a search with MetaSchedule wrote, without importing it.

    TVM reads workloads and replays schedules in child processes with limits; nothing is written to the folder. What
    an interrupted run has found out about schedules is kept in the cache, and the next run picks it up.

    Args:
        folder: Holds ``database_workload.json`` and ``database_tuning_record.json``, optionally gzipped, or as
            ``.sqlite``, from TVM 0.10 to 0.27.
        target: Use only the records of one target: a device of `costhub devices`, ``auto`` or a part of this
            machine, or a TVM target as JSON; only the attributes that it gives are compared.
        replay: Replay every schedule; without it, an examination takes seconds.
        run: Build and run programs for CPUs that this machine can run, and compare their outputs: all programs, or
            this many of the fastest of each workload.
        network: A network by name, or a ``.pt2`` or ``.json`` file: report which of its kernels are tuned.
        fast_math: Whether the network was tuned with fast mathematics.
        fix: A new folder for a clean copy, or a `CleanCopy`.
        workers: Child processes; one per core by default.
        progress: Show progress bars on a terminal.

    Raises:
        ArgumentError: `fix` or `run` is given without `replay`, `run` is less than 1, or `target` is not a target.
        UnknownNameError: There is no device with the name `target`.
        DeviceError: The device has no target.
        DataError: The folder holds no database or no record of the target, `fix` is a folder that is not empty, or no
            record is good.
        CosthubError: The network cannot be read.

    Example:
        >>> print(doctor("tuned/", network="resnet18", fix="clean/"))  # doctest: +SKIP
    """
    from costhub.dataset.doctor.clean_copy import write_clean_copy
    from costhub.dataset.doctor.examine import examine_database

    if not replay and (fix is not None or run is not None):
        raise ArgumentError("A clean copy and --run need replayed schedules; leave out --no-replay (replay=False).")
    if isinstance(run, int) and run < 1:
        raise ArgumentError(f"run is {run}; it must be 1 or more, or 'all'.")
    copied = CleanCopy(fix) if isinstance(fix, str | Path) else fix
    if copied is not None:
        _check_new(Path(copied.out))
    if network is not None:
        _check_network(network)
    wanted = None if target is None else _target(target)
    examination = examine_database(folder, target=wanted, replay=replay, workers=workers, progress=progress)
    coverage = None if network is None else _coverage(examination, network, fast_math)
    outputs = None if run is None else _outputs(examination, None if run == "all" else run, progress)
    copy = None if copied is None else write_clean_copy([examination], copied.out, failures=copied.failures)
    return Diagnosis(examination, coverage, outputs, copy)


def merge(
    folders: Sequence[str | Path],
    out: str | Path,
    *,
    failures: bool = True,
    workers: int | None = None,
    progress: bool = True,
) -> CopyReport:
    """Merges the good records of MetaSchedule databases for one target, each workload and record once.

    Args:
        folders: As for `doctor`.
        out: The new folder.
        failures: Whether to keep the records of programs that failed.
        workers: Child processes; one per core by default.
        progress: Show progress bars on a terminal.

    Raises:
        DataError: A folder holds no database, the targets differ, `out` is not empty, no record is good, or this
            machine was too busy to judge all of them.

    Example:
        >>> merge(["monday/", "tuesday/"], "all/").sentences()  # doctest: +SKIP
    """
    from costhub.dataset.doctor.clean_copy import check_one_target, write_clean_copy
    from costhub.dataset.doctor.examine import examine_database

    _check_new(Path(out))
    examinations = [examine_database(folder, workers=workers, progress=progress) for folder in folders]
    check_one_target(examinations)
    return write_clean_copy(examinations, out, failures=failures)


def _target(text: str) -> dict[str, Any]:
    """The target attributes by which records are chosen: all of a JSON text, or those of a device's chip.

    Raises:
        ArgumentError: The text is not a target.
        UnknownNameError: It is not a device, either.
        DeviceError: The device has no target.
    """
    if text.lstrip().startswith("{"):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ArgumentError(f"The target {text:.99} is not JSON; write for example {_EXAMPLE}.") from error
        if not found:
            raise ArgumentError(f"The target {text:.99} is empty; write for example {_EXAMPLE}.")
        return dict(found)
    from costhub.collector.device.local import find_local, local_kind
    from costhub.hub.catalogue.names import resolve_device

    if local_kind(text) == "cpu":  # `auto`, or a part of this machine, listed or not
        target = find_local([text])[0].target
    else:
        device = resolve_device(text)
        if device.target is None:
            raise DeviceError(
                f"{device.device_id} has no target in the index of devices; give one, such as {_EXAMPLE}."
            )
        target = json.loads(device.target)
    return {name: target[name] for name in _OF_A_CHIP if name in target}


def _outputs(examination: Examination, best: int | None, progress: bool) -> OutputReport:
    from costhub.collector.run.database_outputs import compare_outputs

    return compare_outputs(examination, best=best, progress=progress)


def _check_new(out: Path) -> None:
    """Refuses early what the copy would refuse at its end."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DataError(f"{out} exists and is not empty; name a new folder.")


def _check_network(network: str) -> None:
    """Refuses early what is not a network."""
    from costhub.api.wrong_files import check_exported, is_meant_as_file, wrong_file
    from costhub.collector.workloads.network_kernels import name_networks
    from costhub.collector.workloads.network_source import TORCH

    try:
        names = name_networks([network])
    except UnknownNameError:
        if is_meant_as_file(network):
            raise wrong_file(network) from None
        raise
    if len(names) != 1:
        raise ArgumentError(f"{network!r} names {len(names)} networks; name one.")
    if Path(network).suffix == TORCH:
        check_exported(network)


def _coverage(examination: Examination, network: str, fast_math: bool) -> NetworkCoverage:
    from costhub.api.network_jobs import MOST_BYTES
    from costhub.collector.workloads.kernel_extraction import KernelBounds
    from costhub.collector.workloads.network_kernels import LEAST_BYTES, LEAST_FLOP, NetworkReport, network_workloads
    from costhub.collector.workloads.network_source import (
        BF16,
        BLOCKED,
        LAYOUTS,
        PLAIN,
        RELAX,
        Lowering,
    )
    from costhub.dataset.doctor.coverage import NetworkKernel, add_findings, cover

    if not examination.targets:
        raise DataError(
            f"{examination.folder} has no good record, so its target is unknown and there is nothing to compare."
        )
    found: list[NetworkCoverage] = []
    of_tune = KernelBounds(LEAST_FLOP, LEAST_BYTES, MOST_BYTES)
    [(target, _)] = examination.targets.most_common(1)
    lowerings = [Lowering(fast_math, layout) for layout in LAYOUTS]
    if _multiplies_bf16(target):  # on others, no record can be of such kernels
        lowerings.append(Lowering(fast_math, BLOCKED, BF16))
    if Path(network).suffix == RELAX:  # it keeps its own layouts and types
        lowerings = [Lowering(fast_math, PLAIN)]
    for lowering in lowerings:
        reports: list[NetworkReport] = []
        # Every kernel that a search could tune, however small.
        workloads = network_workloads(
            [network],
            target=target,
            least_flop=0.0,
            least_bytes=0.0,
            most_bytes=float("inf"),
            lowering=lowering,
            on_network=reports.append,
        )
        kernels = [
            NetworkKernel(
                each.name,
                sum(calls for _, calls in each.networks),
                each.flop,
                each.module_json,
                of_tune.reason(each.flop, each.argument_bytes),
            )
            for each in workloads
        ]
        found.append(cover(examination, reports[0].network, kernels, reports[0].left_out))
    # The records do not say in which layout and precision the network was tuned.
    best = max(found, key=lambda coverage: coverage.tuned)
    add_findings(examination, best)
    return best


def _multiplies_bf16(target: str) -> bool:
    """Whether the CPU of a target multiplies in bfloat16; no if TVM does not accept the target.

    Raises:
        DataError: It crashes, or takes too long.
    """
    from costhub.api.compile_inputs import ask_llvm
    from costhub.collector.workloads.network_source import multiplies_bf16
    from costhub.isolation.child import CallFailed, ChildDied, ChildTimeout

    try:
        return ask_llvm(multiplies_bf16, target)
    except (CallFailed, ValueError, TypeError, LookupError):
        return False
    except (ChildDied, ChildTimeout) as error:
        raise DataError(
            f"LLVM crashes on the target of the records, {target!r:.200}, or takes too long, so no kernel of "
            "the network can be made for it. Leave --network out."
        ) from error
