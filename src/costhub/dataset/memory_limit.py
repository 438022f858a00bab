"""Provides limit_memory: a bound on what a child process may allocate for data from strangers."""

from __future__ import annotations

import functools
import resource

MEMORY_BYTES = 8 << 30


@functools.lru_cache(maxsize=1)
def limit_memory(most_bytes: int = MEMORY_BYTES, *, beyond_tvm: bool = True) -> None:
    """Bounds the memory of this process, beyond what Python and its libraries take, once and for all.

    Args:
        most_bytes: Further bytes it may map.
        beyond_tvm: Load TVM first, so that its libraries do not count.
    """
    if beyond_tvm:
        import tvm  # noqa: F401

    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            taken = int(file.read().split()[0]) * resource.getpagesize()
    except OSError:  # not Linux: no limit
        return
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = taken + most_bytes
    if hard == resource.RLIM_INFINITY or limit < hard:
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
