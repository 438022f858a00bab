"""Provides Limits, the resources of a child process, beyond which it fails and loses only its own row; usable_cpus."""

from __future__ import annotations

import contextlib
import math
import os
import resource
from dataclasses import dataclass, replace

# What TVM, LLVM, Python and the C++ library print when an allocation fails under the limit.
OUT_OF_MEMORY = ("bad_alloc", "out of memory", "MemoryError", "Cannot allocate memory", "cannot map zero")

# Memory that TVM, LLVM and their libraries map besides a program but barely use: at most 3 GiB on two
# cores (1.2 GiB in a builder), and more with the stacks of more threads.
MAPPED_BYTES = 4 << 30
MAPPED_BYTES_PER_CPU = 128 << 20
# torch with GPU libraries and TVM with LLVM map about 6 GB but use little of it.
NETWORK_MAPPED_BYTES = 8 << 30
# Far more than the pools of torch, TVM and a compiler, and far fewer than would bring a machine down.
NETWORK_THREADS = 4096
# No single file written by a build or a program comes close.
FILE_BYTES = 1 << 30


@dataclass(frozen=True)
class Limits:
    """Limits of one child process, which sets them itself with setrlimit; None leaves one unchanged.

    Example:
        >>> Limits(cpu_s=5).broken("SIGXCPU", "")
        'It used up its limit of 5 s of processor time.'
    """

    address_space_bytes: int | None = None
    """Limit on virtual memory; TVM alone maps about 3 GB, and the drivers of GPUs far more than they use."""
    cpu_s: float | None = None
    """Processor seconds of all threads together for one request, in whole seconds rounded up."""
    open_files: int | None = None
    file_bytes: int | None = None
    """Limit on the size of a file that it writes."""
    further_bytes: int | None = None
    """Virtual memory that one call may add to the process's existing mappings."""
    further_threads: int | None = None
    """Threads and processes of this user, on top of those running when a call begins; not enforced for root."""

    @classmethod
    def share(cls, children: int, *, cpu_s: float) -> Limits:
        """Limits for each of `children` children working at once: a share of the memory, on top of what TVM maps.

        Example:
            >>> Limits.share(4, cpu_s=60).address_space_bytes < Limits.share(1, cpu_s=60).address_space_bytes
            True
        """
        import psutil

        mapped = MAPPED_BYTES + (psutil.cpu_count() or 1) * MAPPED_BYTES_PER_CPU
        memory = psutil.virtual_memory().total // (children + 1)  # one for the parent and everything else
        return cls(address_space_bytes=mapped + memory, cpu_s=cpu_s, file_bytes=FILE_BYTES)

    def among(self, children: int) -> Limits:
        """The same limits for each of `children` children, with at most a share of the memory for a call.

        Example:
            >>> FOR_STRANGERS.among(1000).further_bytes < FOR_STRANGERS.further_bytes
            True
        """
        if self.further_bytes is None:
            return self
        import psutil

        share = psutil.virtual_memory().total // children
        return replace(self, further_bytes=min(self.further_bytes, share))

    @classmethod
    def for_network(cls, *, timeout_s: float) -> Limits:
        """Limits for a child that reads a network: half of the memory on top of what torch and TVM map, and every core.

        Args:
            timeout_s: Time limit of a call.

        Example:
            >>> Limits.for_network(timeout_s=60).further_bytes > 8 << 30
            True
        """
        import psutil

        return cls(
            further_bytes=NETWORK_MAPPED_BYTES + psutil.virtual_memory().total // 2,
            cpu_s=timeout_s * (psutil.cpu_count() or 1),
            further_threads=NETWORK_THREADS,
        )

    def apply(self) -> None:
        """Sets the limits of this process, and disables core files."""
        _lower(resource.RLIMIT_CORE, 0)
        _lower(resource.RLIMIT_AS, self.address_space_bytes)
        _lower(resource.RLIMIT_NOFILE, self.open_files)
        _lower(resource.RLIMIT_FSIZE, self.file_bytes)

    def begin_call(self) -> None:
        """Grants this process `cpu_s` and `further_bytes` from now on; the system counts from the start."""
        if self.cpu_s is not None:
            used = resource.getrusage(resource.RUSAGE_SELF)
            _lower_soft(resource.RLIMIT_CPU, math.ceil(used.ru_utime + used.ru_stime + self.cpu_s))
        if self.further_bytes is not None and (mapped := _mapped_bytes()):
            _lower_soft(resource.RLIMIT_AS, mapped + self.further_bytes)
        if self.further_threads is not None and (running := _threads_of_user()):
            _lower_soft(resource.RLIMIT_NPROC, running + self.further_threads)

    def broken(self, signal_name: str | None, said: str) -> str | None:
        """A sentence naming the limit that a child has hit; None if it hit none.

        Args:
            signal_name: what killed it, such as ``SIGABRT``; None if nothing did.
            said: what it printed or answered last.
        """
        if signal_name == "SIGXCPU":
            return f"It used up its limit of {self.cpu_s or 0:g} s of processor time."
        if signal_name == "SIGXFSZ" or "File too large" in said:
            return f"It wrote more than its limit of {(self.file_bytes or 0) / 2**20:g} MiB to one file."
        memory = self.address_space_bytes if self.further_bytes is None else self.further_bytes
        if memory is not None and any(words in said for words in OUT_OF_MEMORY):
            return f"It ran into its memory limit of {memory / 2**30:.3g} GiB."
        return None


FOR_STRANGERS = Limits(further_bytes=8 << 30)
"""For work on untrusted data: far more than any legitimate workload needs. Children of a pool share the machine's
memory (`Limits.among`)."""


def usable_cpus() -> list[int]:
    """The numbers of the CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _lower(kind: int, value: int | None) -> None:
    if value is None:
        return
    _, hard = resource.getrlimit(kind)
    value = value if hard < 0 else min(value, hard)
    # A system that knows a limit but does not support it (RLIMIT_AS on macOS) refuses to set it.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(kind, (value, value))


def _lower_soft(kind: int, value: int) -> None:
    """Sets the soft limit, which a later call may raise again."""
    _, hard = resource.getrlimit(kind)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(kind, (value if hard < 0 else min(value, hard), hard))


def _mapped_bytes() -> int:
    """Virtual memory of this process; 0 if the system does not report it."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:  # not Linux
        return 0


def _threads_of_user() -> int:
    """Threads running under this user, as counted by the system for its limit; 0 if it does not report them."""
    threads = 0
    with contextlib.suppress(OSError):  # not Linux
        for process in os.scandir("/proc"):
            with contextlib.suppress(OSError):  # it has ended in the meantime
                if process.name.isdecimal() and process.stat().st_uid == os.getuid():
                    threads += len(os.listdir(f"{process.path}/task"))
    return threads
