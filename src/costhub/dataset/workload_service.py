"""Provides hash_modules: the ids of modules from strangers, computed in a child process."""

from __future__ import annotations

from collections.abc import Sequence

from costhub.dataset.workload import module_from_json, workload_id
from costhub.errors import WorkloadError
from costhub.worker import Worker, WorkerDied, WorkerTimeout

SERVICE = "costhub.dataset.workload_service:handle"
_TIMEOUT_S = 120.0


def handle(module_json: str) -> str | None:
    """The id of the workload in `module_json`; None where TVM cannot read it."""
    try:
        return workload_id(module_from_json(module_json))
    except WorkloadError:
        return None


def hash_modules(modules: Sequence[str]) -> list[str | None]:
    """Computes the ids of workloads; None for one that TVM cannot read, or that brings it down.

    Raises:
        MeasureError: The child process does not start.
    """
    if not modules:
        return []
    with Worker(SERVICE) as worker:
        return [_hash(worker, module) for module in modules]


def _hash(worker: Worker, module: str) -> str | None:
    try:
        found: str | None = worker.call(module, timeout_s=_TIMEOUT_S)
    except (WorkerDied, WorkerTimeout):
        return None
    return found
