"""Provides cover: which kernels of a network a database has tuned, and where its trials went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from costhub.dataset.doctor.examine import DatabaseWorkload, Examination
from costhub.dataset.metaschedule.export_pool import ExportPool
from costhub.terminal_text import counted

LEAST_SHARE = 0.01
"""A kernel with a smaller share of a network's arithmetic does not matter: without it, the network would be a hundredth
faster at best."""


@dataclass(frozen=True)
class NetworkKernel:
    """A kernel of a network."""

    name: str
    calls: float
    """Number of times the network calls it."""
    flop: float
    """Floating-point operations of one call."""
    module_json: str
    not_tuned: str = ""
    """Why `costhub tune` leaves it to TVM's default schedule; empty if it does not."""


@dataclass(frozen=True)
class KernelCoverage:
    """What a database contains for one kernel of a network."""

    name: str
    workload: str | None
    """Its name in the manifest of the database; None if the database lacks it."""
    calls: float
    flop_share: float
    """Its share of the arithmetic of all the network's kernels."""
    trials: int
    """Records of it, including those of failed programs."""
    failed: int
    trial_share: float
    """Its share of all records in the database."""
    best_us: float | None
    """Latency of its best program; None if it is not tuned."""
    time_share: float | None
    """Its share of the total time of the tuned kernels, each with its best program."""

    @property
    def is_tuned(self) -> bool:
        """Whether at least one of its programs ran."""
        return self.best_us is not None


@dataclass(frozen=True)
class NetworkCoverage:
    """What a database contains for a network."""

    network: str
    kernels: tuple[KernelCoverage, ...]
    """The kernels, the heaviest first."""
    left_out: Mapping[str, int]
    """Why other functions of the network have nothing to tune, with the number for each reason."""
    default_schedule: Mapping[str, int]
    """Why `costhub tune` leaves further kernels to the default schedule, with the number for each reason; without those
    for which the database has records."""
    trials: int
    """Number of records in the database."""
    foreign_trials: int
    """Number of records of workloads that are not in the network."""

    @property
    def tuned(self) -> int:
        """Number of tuned kernels."""
        return sum(kernel.is_tuned for kernel in self.kernels)

    @property
    def tuned_flop_share(self) -> float:
        """The tuned kernels' share of the network's arithmetic."""
        return sum(kernel.flop_share for kernel in self.kernels if kernel.is_tuned)

    @property
    def idle_trials(self) -> int:
        """Records of kernels that do not matter (`LEAST_SHARE`)."""
        return sum(kernel.trials for kernel in self.kernels if kernel.flop_share < LEAST_SHARE)


def cover(
    examination: Examination, network: str, kernels: Sequence[NetworkKernel], left_out: Mapping[str, int]
) -> NetworkCoverage:
    """Compares a database with the kernels of a network.

    Kernels match workloads by structural hash, which TVM also uses to look workloads up when it compiles the
    network.

    Args:
        examination: Examination of the database.
        network: The network's name.
        kernels: Its kernels.
        left_out: Why others have nothing to tune, with the number for each reason.

    Raises:
        MeasureError: A child process cannot be started.
    """
    held = {each.examined.structural_hash: each for each in examination.distinct}
    with ExportPool(workers=1) as pool:
        lines = [pool.workload(kernel.module_json) for kernel in kernels]
    found = [held.get(line.structural_hash) if line else None for line in lines]
    flop = sum(kernel.flop * kernel.calls for kernel in kernels) or 1.0
    pairs = list(zip(kernels, found, strict=True))
    kept = [pair for pair in pairs if not _is_by_default(*pair)]
    by_default = Counter(kernel.not_tuned for kernel, workload in pairs if _is_by_default(kernel, workload))
    time_s = sum(_time_s(kernel, workload) or 0.0 for kernel, workload in kept)
    trials = len(examination.records)
    rows = tuple(_covered(kernel, workload, flop=flop, time_s=time_s, trials=trials) for kernel, workload in kept)
    foreign = trials - sum(row.trials for row in rows)
    return NetworkCoverage(network, rows, dict(left_out), dict(by_default), trials, foreign)


def _is_by_default(kernel: NetworkKernel, workload: DatabaseWorkload | None) -> bool:
    return bool(kernel.not_tuned) and (workload is None or not workload.records)


def _time_s(kernel: NetworkKernel, workload: DatabaseWorkload | None) -> float | None:
    return None if workload is None or workload.best_s is None else workload.best_s * kernel.calls


def _covered(
    kernel: NetworkKernel, workload: DatabaseWorkload | None, *, flop: float, time_s: float, trials: int
) -> KernelCoverage:
    records = workload.records if workload else 0
    own_s = _time_s(kernel, workload)
    return KernelCoverage(
        kernel.name,
        None if workload is None else workload.name,
        kernel.calls,
        flop_share=kernel.flop * kernel.calls / flop,
        trials=records,
        failed=workload.failed if workload else 0,
        trial_share=records / trials if trials else 0.0,
        best_us=None if workload is None or workload.best_s is None else workload.best_s * 1e6,
        time_share=None if own_s is None else own_s / time_s,
    )


def add_findings(examination: Examination, coverage: NetworkCoverage) -> None:
    """Adds findings about kernels of a network that a database lacks, and about trials spent elsewhere.

    From then on, workloads in the network go by their names in the network, so that each has one name.
    """
    names = {kernel.workload: kernel.name for kernel in coverage.kernels if kernel.workload is not None}
    for workload in examination.distinct:
        workload.kernel = names.get(workload.name)
    examination.log.rename(names)
    for kernel in coverage.kernels:
        if not kernel.is_tuned:
            what = "none of its programs ran" if kernel.trials else "the folder has no record of it"
            examination.log.add("DB15", kernel.name, f"{what}; it has {kernel.flop_share:.1%} of the arithmetic")
        if kernel.trials and kernel.flop_share < LEAST_SHARE:
            shares = f"{kernel.trial_share:.1%} of the trials and {kernel.flop_share:.2%} of the arithmetic"
            examination.log.add("DB16", kernel.name, f"it has {shares}")
    if coverage.foreign_trials:
        share = f"{coverage.foreign_trials / coverage.trials:.1%}"
        message = f"{counted(coverage.foreign_trials, 'trial')} ({share}) of workloads that {coverage.network} lacks"
        examination.log.add("DB16", str(examination.folder), message)
