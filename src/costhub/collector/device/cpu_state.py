"""Provides pick_cpus, core_count and governor: which CPUs programs use, and what controls their clock."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

import psutil

from costhub.isolation.limits import usable_cpus

CPUS = Path("/sys/devices/system/cpu")
CGROUPS = Path("/sys/fs/cgroup")
ONE_CPU_PER_THREAD = -2
"""TVM's mode of its thread pool in which each thread has its own CPU (kSpecifyOneCorePerThread)."""


def physical_cpus(root: Path = CPUS) -> list[int]:
    """One usable CPU per core that TVM uses: a kernel gains little from a second hardware thread."""
    first_of = {_siblings(cpu, root): cpu for cpu in reversed(fast_cpus(usable_cpus(), root))}
    return sorted(first_of.values())


def fast_cpus(cpus: Sequence[int], root: Path = CPUS) -> list[int]:
    """The subset of the CPUs that TVM computes on.

    If the CPUs have different maximum clocks, as on big.LITTLE chips and desktops with P- and E-cores, TVM leaves out
    those with the lowest, however many threads it may use; a target for all of them would divide the work by too many.

    Args:
        cpus: Numbers of CPUs.
        root: The folder where Linux describes them.
    """
    clocks = {cpu: _highest_clock(cpu, root) for cpu in cpus}
    slowest = min(clocks.values(), default=0)
    # As InitSortedOrder in TVM's src/runtime/threading_backend.cc: of three clocks or more, only the lowest is little.
    return [cpu for cpu in cpus if clocks[cpu] > slowest] or list(cpus)


def core_count(cgroups: Path = CGROUPS) -> int:
    """Number of cores that this process may use: a container, its quota of CPU time, or `taskset` may limit it."""
    usable = len(physical_cpus())
    # Where the system does not list thread siblings, as on macOS, psutil knows the cores.
    cores = min(usable, psutil.cpu_count(logical=False) or usable)
    return max(1, min(cores, int(cpu_quota(cgroups) or cores)))


def cpu_quota(cgroups: Path = CGROUPS) -> float | None:
    """How many CPUs' worth of time a container may use, such as 4.0 for ``docker run --cpus=4``; None if unlimited.

    Threads beyond it only wait for each other: the system stops all of them until the next period.

    Args:
        cgroups: The folder where Linux shows the limits of control groups, of version 2 or 1.
    """
    for files in (["cpu.max"], ["cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"]):
        try:
            quota, period = " ".join((cgroups / file).read_text() for file in files).split()
            return int(quota) / int(period) if int(quota) > 0 else None
        except (OSError, ValueError):  # another version, or "max"
            continue
    return None


def pick_cpus(threads: int, root: Path = CPUS) -> tuple[int, ...]:
    """Picks CPUs for `threads` threads: a core for each while there are enough, the last ones first.

    The first CPU handles most interrupts, so a single thread measures with less noise on the last one.
    """
    cores = physical_cpus(root)
    others = [cpu for cpu in usable_cpus() if cpu not in cores]
    return tuple(sorted([*reversed(cores), *reversed(others)][:threads]))


PINNED = {"TVM_BIND_THREADS": "1"}
"""For the environment of a process that measures: TVM obeys there when its threads are bound to CPUs. The parent may
have turned that off for itself (`load_network` does), and its children would inherit it."""


def tvm_threads(threads: int | None = None) -> dict[str, str]:
    """The environment for a process in which TVM should use `threads` threads, by default one per core.

    By default TVM uses half of the CPUs that it sees.
    """
    return {"TVM_NUM_THREADS": str(threads or core_count())}


def use_cpus(cpus: Iterable[int]) -> None:
    """Binds this process to CPUs before TVM is loaded: its threads inherit them, and NumPy's threads are moved too."""
    if os.path.exists("/proc/self/task"):
        for thread in os.listdir("/proc/self/task"):
            os.sched_setaffinity(int(thread), cpus)


def cpu_list(cpus: Iterable[int]) -> str:
    """Formats CPU numbers the way Linux does.

    Example:
        >>> cpu_list([0, 1, 2, 3, 7])
        '0-3,7'
    """
    runs = [
        [cpu for _, cpu in run] for _, run in groupby(enumerate(sorted(set(cpus))), key=lambda pair: pair[1] - pair[0])
    ]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def governor(root: Path = CPUS) -> str | None:
    """The clock governor, such as ``performance`` or ``schedutil``; several are joined by ``+``.

    None if the operating system does not report one, as in most virtual machines.
    """
    files = sorted(root.glob("cpu[0-9]*/cpufreq/scaling_governor"))
    return "+".join(sorted({file.read_text().strip() for file in files})) or None


def _highest_clock(cpu: int, root: Path) -> int:
    """The highest clock in kHz; 0 if the system does not report it, as in most virtual machines."""
    file = root / f"cpu{cpu}/cpufreq/cpuinfo_max_freq"
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return 0


def _siblings(cpu: int, root: Path) -> str:
    file = root / f"cpu{cpu}/topology/thread_siblings_list"
    return file.read_text().strip() if file.exists() else str(cpu)
