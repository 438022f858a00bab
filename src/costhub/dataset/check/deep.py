"""Provides the rules that need TVM: every module is loaded, a sample of the traces replayed, in a child."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from costhub.dataset.check.measurements import Ledger
from costhub.dataset.check.rule import Breach, Rule
from costhub.dataset.intrinsics import load_intrinsics, names_intrinsics
from costhub.dataset.trace import replay, trace_to_json
from costhub.dataset.workload import module_from_json, workload_row
from costhub.isolation.child import CallFailed, Child, ChildDied, ChildTimeout

_Result = TypeVar("_Result")

FASTEST_PROGRAMS, DRAWN_PROGRAMS = 4, 4
"""Programs replayed for every workload and device: the fastest, which matter most, and some chosen by hash."""

_LOAD_TIMEOUT_S = 60.0
_REPLAY_TIMEOUT_S = 20.0

MODULE_IDS = Rule(
    id="CH021",
    title="a workload_id is the hash of its module",
    severity="error",
    fix="Compute it with costhub.dataset.workload.workload_id, for the workload and its measurements.",
    is_deep=True,
)
MODULE_FIGURES = Rule(
    id="CH022",
    title="a workload's FLOP, bytes, shapes and dtypes are those of its module",
    severity="error",
    fix="Make the row with costhub.dataset.workload.workload_row and put it again.",
    is_deep=True,
)
REPLAYS = Rule(
    id="CH023",
    title="a trace replays to the same program",
    severity="error",
    fix="Write the trace that trace_to_json gives for the replayed schedule, and its program_id.",
    is_deep=True,
)
DEEP_RULES = (MODULE_IDS, MODULE_FIGURES, REPLAYS)


@dataclass(frozen=True)
class SampledProgram:
    """A program that is to be replayed."""

    where: str
    record_id: str
    trace: str
    target: str


def sample_programs(ledger: Ledger) -> list[int]:
    """Positions of the programs to replay: the fastest of every workload and device, and some drawn at random."""
    positions: set[int] = set()
    within = (ledger["workload"] >= 0) & (ledger["device"] >= 0)
    for rows in ledger.groups("workload", "device", within=within):
        latency_s = np.nan_to_num(ledger["latency_s"][rows], nan=math.inf)
        positions.update(rows[np.argsort(latency_s, kind="stable")[:FASTEST_PROGRAMS]].tolist())
        # Choosing the smallest hashes is a draw that every machine reproduces.
        positions.update(rows[np.argsort(ledger["program"][rows], kind="stable")[:DRAWN_PROGRAMS]].tolist())
    return sorted(positions)


def check_workload(
    child: Child, row: dict[str, Any], where: str, programs: Iterable[SampledProgram]
) -> Iterator[Breach]:
    """Yields what is wrong with a workload's row and with its sampled programs."""
    computed = _none_if_lost(child, module_row, row["module_json"], timeout_s=_LOAD_TIMEOUT_S)
    name = row["workload_id"]
    if computed is None:
        yield Breach(MODULE_IDS.id, where, "This TVM cannot read module_json as a module.", 1, [name])
        return
    if computed["workload_id"] != name:
        yield Breach(MODULE_IDS.id, where, "workload_id is not the hash of the module.", 1, [name])
    for column in ("shapes", "dtypes", "flop", "bytes"):
        if not _agree(computed[column], row[column]):
            yield Breach(MODULE_FIGURES.id, where, f"{column} is not what the module has.", 1, [name])
    for program in programs:
        args = row["module_json"], program.trace, program.target
        trace = _none_if_lost(child, canonical_trace, *args, timeout_s=_REPLAY_TIMEOUT_S)
        if trace is None:
            message = "trace does not replay on the workload."
        else:
            message = "trace replays to a program with another canonical trace."
        if trace != program.trace:
            yield Breach(REPLAYS.id, program.where, message, 1, [program.record_id])
        # Every untrusted trace may use up its whole time limit: one per workload is enough.
        if trace is None:
            return


def _none_if_lost(
    child: Child, function: Callable[..., _Result | None], *args: str, timeout_s: float
) -> _Result | None:
    """The result of a function in the child; also None if a module or a trace brings the child down, or TVM fails."""
    try:
        return child.call(function, *args, timeout_s=timeout_s)
    except (CallFailed, ChildDied, ChildTimeout):
        return None


def module_row(module_json: str) -> dict[str, Any] | None:
    """The row that `workload_row` makes of a module; None if TVM cannot read it. Call it in a child."""
    try:
        return workload_row(_cached_module(module_json), name="", operator="")
    except Exception:  # of any kind, from TVM
        return None


def canonical_trace(module_json: str, trace: str, target: str) -> str | None:
    """The canonical trace of the schedule that `trace` produces on a module; None if it does not replay."""
    try:
        if names_intrinsics(trace):
            load_intrinsics(str(json.loads(target)["kind"]))
        return trace_to_json(replay(_cached_module(module_json), trace).trace)
    except Exception:  # of any kind, from TVM, or a target without end
        return None


@functools.lru_cache(maxsize=1)
def _cached_module(module_json: str) -> Any:
    return module_from_json(module_json)


def _agree(computed: Any, stored: Any) -> bool:
    if isinstance(computed, float):
        return math.isclose(computed, stored, rel_tol=1e-6)
    if isinstance(computed, Sequence) and not isinstance(computed, str):
        return bool(list(computed) == stored)
    try:
        return bool(json.loads(computed) == json.loads(stored))
    except (ValueError, RecursionError):
        return False
