"""Provides replay_recorded: a trace of a database as the canonical trace of TVM 0.27."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import Any

from costhub.dataset.intrinsics import load_intrinsics, names_intrinsics
from costhub.dataset.metaschedule.old_trace import today_trace
from costhub.dataset.target import parse_target
from costhub.dataset.trace import check_decisions, replay, trace_to_json
from costhub.dataset.workload import module_from_json
from costhub.errors import WorkloadError, last_line

_POSTPROC = "EnterPostproc"


@dataclass(frozen=True)
class Replayed:
    """A trace that replays."""

    trace: str
    """The canonical trace of the schedule it made."""
    redone: bool
    """Whether its post-processing is that of TVM 0.27, because as recorded it does not replay."""


def replay_recorded(module_json: str, trace: str, target: str) -> Replayed:
    """Replays a trace on its workload, which can crash TVM: only to be called in a child process.

    Args:
        module_json: The workload, as JSON of TVM 0.27.
        trace: Instructions and decisions as JSON, of whatever TVM wrote them.
        target: The TVM target, as JSON of TVM 0.27.

    Raises:
        WorkloadError: The trace does not fit the workload, even with its post-processing redone.
    """
    instructions, decisions = _today(trace)
    kinds = [instruction[0] for instruction in instructions]
    if names_intrinsics(trace):
        _load_intrinsics(target)
    try:
        schedule = replay(_module(module_json), json.dumps([instructions, decisions]))
    except WorkloadError:
        if _POSTPROC not in kinds:
            raise
        cut = kinds.index(_POSTPROC)
        before = [decision for decision in decisions if decision[0] < cut]
        schedule = replay(_module(module_json), json.dumps([instructions[:cut], before]))
        _postprocess(module_json, schedule, target)
        return Replayed(trace_to_json(schedule.trace), True)
    return Replayed(trace_to_json(schedule.trace), False)


def _today(trace: str) -> tuple[list[Any], list[Any]]:
    """The instructions and decisions in today's words."""
    instructions, decisions = json.loads(trace)
    try:
        instructions = today_trace(instructions)
    except (ValueError, TypeError, AttributeError) as error:
        raise WorkloadError("its trace is not of instructions and decisions") from error
    # Here as well as in `replay`: cutting off the post-processing would drop such a decision unseen.
    check_decisions(instructions, decisions)
    return instructions, decisions


@functools.lru_cache(maxsize=4)
def _module(module_json: str) -> Any:
    return module_from_json(module_json)


def _load_intrinsics(target: str) -> None:
    load_intrinsics(json.loads(target)["kind"])


@functools.lru_cache(maxsize=4)
def _context(module_json: str, target: str) -> Any:
    """What TVM tunes the workload with: it has the post-processing of the target's kind."""
    from tvm.s_tir import meta_schedule as ms

    _load_intrinsics(target)
    return ms.TuneContext(
        _module(module_json), target=parse_target(target), space_generator="post-order-apply", num_threads=1
    )


def _postprocess(module_json: str, schedule: Any, target: str) -> None:
    try:
        postprocs = _context(module_json, target).space_generator.postprocs
        schedule.enter_postproc()
        accepted = all(postproc.apply(schedule) for postproc in postprocs)
    except Exception as error:
        raise WorkloadError(f"its post-processing cannot be redone ({last_line(error)})") from error
    if not accepted:
        raise WorkloadError("TVM 0.27 refuses its schedule when it redoes the post-processing")
