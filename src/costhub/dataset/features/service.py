"""Provides the service that computes features in a child process, where a crash of TVM costs one program."""

from __future__ import annotations

import functools
import resource
from dataclasses import dataclass
from typing import Any

from costhub.dataset.features.per_store import extract
from costhub.dataset.programs import FloatArray
from costhub.dataset.workload import module_from_json
from costhub.errors import WorkloadError

SERVICE = "costhub.dataset.features.service:handle"

_MEMORY_BYTES = 8 << 30


@dataclass(frozen=True)
class FeatureRequest:
    """Programs of one workload; with no traces it only makes the service load what the workload needs."""

    module_json: str
    target: str
    traces: tuple[str, ...] = ()


def handle(request: FeatureRequest) -> list[FloatArray | None]:
    """Computes one (rows, 172) array per trace; None where that is not possible."""
    _limit_memory()
    try:
        return extract(_module(request.module_json), request.traces, request.target)
    except WorkloadError:
        return [None] * len(request.traces)


@functools.lru_cache(maxsize=4)
def _module(text: str) -> Any:
    return module_from_json(text)


@functools.lru_cache(maxsize=1)
def _limit_memory() -> None:
    """Bounds what a trace from a stranger can allocate, beyond what Python and TVM take by themselves."""
    import tvm  # noqa: F401 - its libraries count, so they are mapped first

    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            taken = int(file.read().split()[0]) * resource.getpagesize()
    except OSError:  # not Linux: no limit
        return
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = taken + _MEMORY_BYTES
    if hard == resource.RLIM_INFINITY or limit < hard:
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
