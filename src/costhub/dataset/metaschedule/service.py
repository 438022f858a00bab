"""Provides the service that reads workloads and replays traces in a child process, where a crash is cheap."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from costhub.dataset.memory_limit import limit_memory
from costhub.dataset.metaschedule.replay import Replayed, replay_recorded
from costhub.dataset.metaschedule.target import today_target
from costhub.dataset.metaschedule.workload_line import read_workload
from costhub.errors import WorkloadError, last_line

SERVICE = "costhub.dataset.metaschedule.service:handle"

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class LoadRequest:
    """A line of the database's workloads; an empty one only makes the service load TVM."""

    line: bytes = b""


@dataclass(frozen=True)
class LoadedWorkload:
    """A workload that could be read."""

    row: dict[str, Any]
    """Its row of the workloads table, with an empty name."""
    tvm_version: str | None
    """The version of TVM that wrote it."""


@dataclass(frozen=True)
class ReplayRequest:
    """Recorded traces of one workload and one target."""

    module_json: str
    target: str
    traces: tuple[str, ...]


@dataclass(frozen=True)
class ReplayReply:
    """What became of the traces."""

    target: str
    """The target, as TVM 0.27 takes it."""
    device_kind: str
    programs: tuple[Replayed | str, ...]
    """One per trace; a string says why it does not replay."""


def handle(request: LoadRequest | ReplayRequest) -> LoadedWorkload | ReplayReply | str:
    """Answers a request; a string says why that is not possible."""
    limit_memory()
    return _described(_load if isinstance(request, LoadRequest) else _replay, request)


def _load(request: LoadRequest) -> LoadedWorkload | str:
    if not request.line:
        return ""
    from costhub.dataset.operator_class import classify
    from costhub.dataset.workload_row import workload_row

    mod, tvm_version = read_workload(request.line)
    return LoadedWorkload(workload_row(mod, name="", operator=classify(mod)), tvm_version)


def _replay(request: ReplayRequest) -> ReplayReply:
    target, device_kind = today_target(request.target)

    def replayed(trace: str) -> Replayed:
        return replay_recorded(request.module_json, trace, target)

    return ReplayReply(target, device_kind, tuple(_described(replayed, trace) for trace in request.traces))


def _described(work: Callable[[Any], _Result], given: Any) -> _Result | str:
    """The result, or a string that says why there is none."""
    try:
        return work(given)
    except WorkloadError as error:
        return str(error)
    except Exception as error:
        # TVM and what a stranger's text makes of our own code raise anything; the child lives on.
        return f"TVM fails on it ({last_line(error)})"
