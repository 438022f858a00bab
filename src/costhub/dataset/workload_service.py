"""Provides ModuleWorker: modules and traces from strangers, loaded and replayed in a child process."""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from costhub.dataset.intrinsics import load_intrinsics, names_intrinsics
from costhub.dataset.trace import replay, trace_to_json
from costhub.dataset.workload import module_from_json, workload_row
from costhub.errors import WorkloadError
from costhub.isolation.child import ChildDied, ChildTimeout, Worker
from costhub.isolation.limits import limit_memory

SERVICE = "costhub.dataset.workload_service:handle"
_LOAD_TIMEOUT_S = 60.0
_REPLAY_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class LoadModule:
    """Loads a module, on which traces are replayed from then on."""

    module_json: str


@dataclass(frozen=True)
class ReplayTrace:
    """Replays a trace on the module that was loaded last."""

    trace: str
    target: str


_loaded: list[Any] = []


def handle(request: LoadModule | ReplayTrace) -> dict[str, Any] | str | None:
    """The row of a module as `workload_row` makes it, or a canonical trace; None where TVM cannot."""
    limit_memory()
    try:
        if isinstance(request, LoadModule):
            _loaded[:] = [module_from_json(request.module_json)]
            return workload_row(_loaded[0], name="", operator="")
        if names_intrinsics(request.trace):
            load_intrinsics(str(json.loads(request.target)["kind"]))
        return trace_to_json(replay(_loaded[0], request.trace).trace)
    except (WorkloadError, MemoryError, ValueError, KeyError, IndexError, TypeError):
        return None


class ModuleWorker:
    """One module at a time, and the traces replayed on it; what brings TVM down counts as unreadable.

    Example:
        >>> with ModuleWorker() as worker:
        ...     worker.load("{}") is None
        True
    """

    def __init__(self) -> None:
        self._worker = Worker(SERVICE)
        self._module = ""

    def load(self, module_json: str) -> dict[str, Any] | None:
        """Its row of the workloads table, without a name; None where TVM cannot read it.

        Raises:
            MeasureError: The child process does not start.
        """
        self._module = module_json
        row: dict[str, Any] | None = self._call(LoadModule(module_json), _LOAD_TIMEOUT_S)
        return row

    def replay(self, trace: str, target: str) -> str | None:
        """The canonical trace of the schedule that `trace` makes of the module; None where it makes none.

        Raises:
            MeasureError: The child process does not start.
        """
        found: str | None = self._call(ReplayTrace(trace, target), _REPLAY_TIMEOUT_S)
        if found is None and self._worker.pid is None:
            # The trace took the child with it, which has to learn the module again.
            self._call(LoadModule(self._module), _LOAD_TIMEOUT_S)
        return found

    def _call(self, request: LoadModule | ReplayTrace, timeout_s: float) -> Any:
        try:
            return self._worker.call(request, timeout_s=timeout_s)
        except (ChildDied, ChildTimeout):
            return None

    def __enter__(self) -> ModuleWorker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._worker.kill()
