"""Provides usable_cpus, core_count and governor: which CPUs may compute, and who sets their clock."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

import psutil

CPUS = Path("/sys/devices/system/cpu")


def usable_cpus() -> list[int]:
    """The numbers of the CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def physical_cpus(root: Path = CPUS) -> list[int]:
    """One usable CPU of each core that TVM computes on: a kernel gains little from a second hardware thread."""
    first_of = {_siblings(cpu, root): cpu for cpu in reversed(fast_cpus(usable_cpus(), root))}
    return sorted(first_of.values())


def fast_cpus(cpus: Sequence[int], root: Path = CPUS) -> list[int]:
    """Those of the CPUs that TVM computes on.

    Where the CPUs have two maximum clocks, as on big.LITTLE chips, TVM computes on the faster ones alone, however many
    threads it may use; a target for all of them would divide the work by too many. With three clocks it takes them all.

    Args:
        cpus: Numbers of CPUs.
        root: Where Linux describes them.
    """
    clocks = {cpu: _highest_clock(cpu, root) for cpu in cpus}
    if len(set(clocks.values())) != 2:  # as in TVM's src/runtime/threading_backend.cc
        return list(cpus)
    return [cpu for cpu in cpus if clocks[cpu] == max(clocks.values())]


def core_count() -> int:
    """How many cores this process may use: a container or `taskset` may leave it fewer than there are."""
    usable = len(physical_cpus())
    # Where the system does not tell siblings apart, as on macOS, psutil does.
    return min(usable, psutil.cpu_count(logical=False) or usable)


def pick_cpus(threads: int, root: Path = CPUS) -> tuple[int, ...]:
    """The CPUs for that many threads: a core for each as far as there are cores, and the last ones first.

    The first CPU answers most of the interrupts, so one thread measures with less noise on the last.
    """
    cores = physical_cpus(root)
    others = [cpu for cpu in usable_cpus() if cpu not in cores]
    return tuple(sorted([*reversed(cores), *reversed(others)][:threads]))


def tvm_threads(threads: int | None = None) -> dict[str, str]:
    """The environment of a process in which TVM is to use that many threads, by default one per core.

    Left to itself TVM uses half of the CPUs that it sees.
    """
    return {"TVM_NUM_THREADS": str(threads or core_count())}


def use_cpus(cpus: Iterable[int]) -> None:
    """Binds this process to CPUs, before TVM is loaded: its threads inherit them, and NumPy's are moved as well."""
    if os.path.exists("/proc/self/task"):
        for thread in os.listdir("/proc/self/task"):
            os.sched_setaffinity(int(thread), cpus)


def cpu_list(cpus: Iterable[int]) -> str:
    """CPU numbers the way Linux writes them.

    Example:
        >>> cpu_list([0, 1, 2, 3, 7])
        '0-3,7'
    """
    runs = [
        [cpu for _, cpu in run] for _, run in groupby(enumerate(sorted(set(cpus))), key=lambda pair: pair[1] - pair[0])
    ]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def governor(root: Path = CPUS) -> str | None:
    """What sets the clock, such as ``performance`` or ``schedutil``; several are joined by ``+``.

    None where the operating system does not say, as in most virtual machines.
    """
    files = sorted(root.glob("cpu[0-9]*/cpufreq/scaling_governor"))
    return "+".join(sorted({file.read_text().strip() for file in files})) or None


def _highest_clock(cpu: int, root: Path) -> int:
    """In kHz; 0 where the system does not say, as in most virtual machines."""
    file = root / f"cpu{cpu}/cpufreq/cpuinfo_max_freq"
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return 0


def _siblings(cpu: int, root: Path) -> str:
    file = root / f"cpu{cpu}/topology/thread_siblings_list"
    return file.read_text().strip() if file.exists() else str(cpu)
