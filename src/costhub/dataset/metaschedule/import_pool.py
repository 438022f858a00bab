"""Provides ImportPool: child processes that read workloads and replay traces, where a crash only costs one record."""

from __future__ import annotations

import contextlib
import functools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from costhub.dataset.intrinsics import load_intrinsics, names_intrinsics
from costhub.dataset.metaschedule.translate import read_workload, translate_target, translate_trace
from costhub.dataset.operator_class import classify
from costhub.dataset.trace import POSTPROC, check_decisions, replay, trace_to_json
from costhub.dataset.workload import module_from_json, parse_target, workload_row
from costhub.errors import WorkloadError, last_line
from costhub.isolation.pool import CRASHED, STARVED, LostCall
from costhub.isolation.tvm_children import tvm_pool
from costhub.terminal_text import clean

ReplayCall = tuple[str, str, tuple[str, ...]]
"""The module of a workload, the recorded target, and traces."""
BUSY = "this machine was too busy for TVM to finish reading this record: run the command again when less is running"
"""The reason given for a record that could not be judged."""
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class ReplayedTrace:
    """A trace that replays."""

    trace: str
    """The canonical trace of the resulting schedule."""
    redone: bool
    """Whether TVM 0.27 redid its post-processing because the recorded one does not replay."""


def replay_recorded(module_json: str, trace: str, target: str) -> ReplayedTrace:
    """Replays a trace on its workload, which can crash TVM: call it in a child process only.

    Args:
        module_json: The workload, as JSON of TVM 0.27.
        trace: Instructions and decisions as JSON, of any TVM version.
        target: The TVM target, as JSON of TVM 0.27.

    Raises:
        WorkloadError: The trace does not fit the workload, even with its post-processing redone, or TVM replaces one of
            its decisions.
    """
    instructions, decisions = _translated(trace)
    kinds = [instruction[0] for instruction in instructions]
    if names_intrinsics(trace):
        _load_intrinsics(target)
    try:
        schedule = replay(_cached_module(module_json), json.dumps([instructions, decisions]))
    except WorkloadError:
        if POSTPROC not in kinds:
            raise
        cut = kinds.index(POSTPROC)
        before = [decision for decision in decisions if decision[0] < cut]
        schedule = replay(_cached_module(module_json), json.dumps([instructions[:cut], before]))
        _postprocess(module_json, schedule, target)
        return _kept(before, schedule, redone=True)
    return _kept(decisions, schedule, redone=False)


def _kept(recorded: list[Any], schedule: Any, *, redone: bool) -> ReplayedTrace:
    trace = trace_to_json(schedule.trace)
    check_kept(recorded, json.loads(trace)[1])
    return ReplayedTrace(trace, redone)


def check_kept(recorded: list[Any], replayed: list[Any]) -> None:
    """Rejects decisions that TVM silently replaces, such as a tile that does not divide its loop.

    The time of such a record is that of another program.

    Args:
        recorded: Number of an instruction and its decision, as recorded.
        replayed: The same, as TVM gives them back.

    Raises:
        WorkloadError: One of them differs.
    """
    kept = {number: decision for number, decision in replayed}
    for number, decision in recorded:
        if kept.get(number, decision) != decision:
            raise WorkloadError(f"TVM replaces its decision {number}, {decision!r:.60}, by {kept[number]!r:.60}")


def _translated(trace: str) -> tuple[list[Any], list[Any]]:
    """The instructions and decisions in the form of TVM 0.27."""
    instructions, decisions = json.loads(trace)
    try:
        instructions = translate_trace(instructions)
    except (ValueError, TypeError, AttributeError) as error:
        raise WorkloadError("its trace does not consist of instructions and decisions") from error
    # Checked here as well as in `replay`: cutting off the post-processing would silently drop such a decision.
    check_decisions(instructions, decisions)
    return instructions, decisions


@functools.lru_cache(maxsize=4)
def _cached_module(module_json: str) -> Any:
    return module_from_json(module_json)


def _load_intrinsics(target: str) -> None:
    load_intrinsics(json.loads(target)["kind"])


@functools.lru_cache(maxsize=4)
def _tune_context(module_json: str, target: str) -> Any:
    """The tuning context of the workload, with the post-processing for the target's kind."""
    from tvm.s_tir import meta_schedule as ms

    _load_intrinsics(target)
    return ms.TuneContext(
        _cached_module(module_json), target=parse_target(target), space_generator="post-order-apply", num_threads=1
    )


def _postprocess(module_json: str, schedule: Any, target: str) -> None:
    try:
        postprocs = _tune_context(module_json, target).space_generator.postprocs
        schedule.enter_postproc()
        accepted = all(postproc.apply(schedule) for postproc in postprocs)
    except Exception as error:
        raise WorkloadError(f"its post-processing cannot be redone ({last_line(error)})") from error
    if not accepted:
        raise WorkloadError("TVM 0.27 refuses its schedule when it redoes the post-processing")


@dataclass(frozen=True)
class LoadedWorkload:
    """A readable workload."""

    row: dict[str, Any]
    """Its row in the workloads table, with an empty name."""
    tvm_version: str | None
    """The version of TVM that wrote it."""


@dataclass(frozen=True)
class ReplayedTraces:
    """The results for recorded traces of one workload and one target."""

    target: str
    """The target, as TVM 0.27 accepts it."""
    device_kind: str
    programs: tuple[ReplayedTrace | str, ...]
    """One per trace; a string says why it does not replay."""


def load_workload(line: bytes) -> LoadedWorkload | str:
    """Reads a line of the database's workloads; a string says why it cannot be read."""
    return result_or_reason(_load, line)


def replay_all(module_json: str, target: str, traces: Sequence[str]) -> ReplayedTraces | str:
    """Replays recorded traces of one workload and one target; a string says why none of them can be."""

    def replayed(trace: str) -> ReplayedTrace:
        return replay_recorded(module_json, trace, today)

    try:
        today, device_kind = translate_target(target)
    except Exception as error:
        return _reason(error)
    return ReplayedTraces(today, device_kind, tuple(result_or_reason(replayed, trace) for trace in traces))


def _load(line: bytes) -> LoadedWorkload | str:
    if not line:
        return ""
    mod, tvm_version = read_workload(line)
    return LoadedWorkload(workload_row(mod, name="", operator=classify(mod)), tvm_version)


def result_or_reason(work: Callable[[Any], _Result], given: Any) -> _Result | str:
    """The result of work on untrusted text, in a child process, or a string saying why there is none."""
    try:
        return work(given)
    except Exception as error:
        # TVM, and our own code on untrusted text, may raise anything; the child stays alive.
        return _reason(error)


def _reason(error: Exception) -> str:
    # It quotes names out of the file, which may be megabytes long, and one is kept for each of its lines.
    return clean(str(error) if isinstance(error, WorkloadError) else f"TVM fails on it ({last_line(error)})", 300)


class ImportPool:
    """Child processes, in which a crash or hang only costs the record that causes it.

    Args:
        workers: Children; one per core by default.
        load: Reads a workload, in a child.
        replay: Replays the programs stored in records, in a child.
    """

    def __init__(
        self,
        workers: int | None = None,
        *,
        load: Callable[[bytes], LoadedWorkload | str] = load_workload,
        replay: Callable[[str, str, Sequence[str]], ReplayedTraces | str] = replay_all,
    ) -> None:
        self._load, self._replay = load, replay
        self._pool = tvm_pool(workers)

    def __enter__(self) -> ImportPool:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()

    def call(self, function: Callable[..., _Result], *args: Any) -> _Result | str:
        """The result of one call in a child; a string says why there is none."""
        reply = self._pool.call(function, *args)
        return _reason_lost(reply) if isinstance(reply, LostCall) else reply

    def peak_bytes(self) -> int:
        """Peak memory so far of this process or of a running child; 0 if the system does not report it."""
        return max(_peak_bytes(pid) for pid in (os.getpid(), *self._pool.pids))

    def load(self, lines: Sequence[bytes]) -> Iterator[LoadedWorkload | str]:
        """Reads workloads, in order; a string says why one cannot be read."""
        for [reply] in self._pool.map(self._load, [(line,) for line in lines], pieces=lambda args: [(b"",), args]):
            yield _reason_lost(reply) if isinstance(reply, LostCall) else reply

    def replay(self, calls: Iterable[ReplayCall]) -> Iterator[ReplayedTraces | str]:
        """Replays traces, in order; a string says why none of a call's traces can be replayed."""
        for replies in self._pool.map(self._replay, calls, pieces=_single_traces):
            yield _joined_replies([_reason_lost(reply) if isinstance(reply, LostCall) else reply for reply in replies])


def _peak_bytes(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    return 0


def _single_traces(args: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    module_json, target, traces = args
    singles: list[tuple[Any, ...]] = [(trace,) for trace in traces] or [()]  # a target alone is lost as one piece, too
    return [(module_json, target, some) for some in ((), *singles)]


def _joined_replies(replies: Sequence[ReplayedTraces | str]) -> ReplayedTraces | str:
    replayed = [reply for reply in replies if isinstance(reply, ReplayedTraces)]
    if not replayed:
        return str(replies[0]) if replies else "TVM crashed on its workload or target"
    programs = [reply.programs if isinstance(reply, ReplayedTraces) else (reply,) for reply in replies]
    return replace(replayed[0], programs=tuple(program for part in programs for program in part))


def _reason_lost(lost: LostCall) -> str:
    if lost.why == STARVED:
        return BUSY
    return f"TVM {lost.why} on it" if lost.why == CRASHED else f"TVM {lost.why} over it"
