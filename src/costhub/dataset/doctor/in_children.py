"""Provides the work of an examination's child processes: TVM reads workloads and records as it would load them."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from costhub.dataset.intrinsics import load_intrinsics, names_intrinsics
from costhub.dataset.metaschedule.export_pool import record_texts, workload_line
from costhub.dataset.metaschedule.import_pool import (
    LoadedWorkload,
    ReplayedTrace,
    ReplayedTraces,
    check_kept,
    load_workload,
    replay_recorded,
    result_or_reason,
)
from costhub.dataset.metaschedule.lines import parse_record
from costhub.dataset.metaschedule.translate import is_todays, translate_target
from costhub.dataset.tile_intrinsics import register_tiles
from costhub.dataset.trace import check_decisions, plain, trace_parts
from costhub.dataset.workload import module_from_json
from costhub.errors import WorkloadError


@dataclass(frozen=True)
class ExaminedWorkload(LoadedWorkload):
    """A readable workload, and its form in TVM 0.27."""

    line: str
    """Its original line, or as TVM 0.27 writes it if TVM cannot use the original."""
    structural_hash: str
    """TVM's hash, which it uses to look workloads up."""
    is_todays: bool
    """Whether TVM 0.27 reads the original line."""
    has_own_hash: bool
    """Whether the line contains that hash."""


@dataclass(frozen=True)
class ExaminedTrace(ReplayedTrace):
    """A record that replays."""

    record: str | None
    """Text after the workload's number, as TVM 0.27 writes it; None if it can stay unchanged."""


def examine_workload(line: bytes) -> ExaminedWorkload | str:
    """Reads a line of the database's workloads; a string says why it cannot be read."""
    return result_or_reason(_examined_workload, line)


def _examined_workload(line: bytes) -> ExaminedWorkload | str:
    loaded = load_workload(line)
    if isinstance(loaded, str):
        return loaded
    written = workload_line(loaded.row["module_json"])
    if written is None:
        raise WorkloadError("TVM 0.27 cannot write it")
    is_readable = is_todays(line)
    has_own_hash = str(json.loads(line)[0]) == written.structural_hash
    text = line.decode() if is_readable and has_own_hash else written.text
    return ExaminedWorkload(loaded.row, loaded.tvm_version, text, written.structural_hash, is_readable, has_own_hash)


def examine_records(module_json: str, target: str, lines: Sequence[str]) -> ReplayedTraces | str:
    """Loads records of one workload and one target as TVM would, and repairs those that only costhub can read.

    Args:
        module_json: The workload, as JSON of TVM 0.27.
        target: The target, as written in the records.
        lines: The records, as lines of the database.

    Returns:
        The target as TVM 0.27 accepts it, and an `ExaminedTrace` for each line, or why it does not replay; a string
        if the target cannot be read.
    """

    def examined(line: str) -> ReplayedTrace:
        return _examined_record(module_json, today, line)

    answer = result_or_reason(translate_target, target)
    if isinstance(answer, str):
        return answer
    today, device_kind = answer
    return ReplayedTraces(today, device_kind, tuple(result_or_reason(examined, line) for line in lines))


def _examined_record(module_json: str, target: str, line: str) -> ExaminedTrace:
    _, record = json.loads(line)
    instructions, decisions = record[0]
    # TVM trusts decisions that can crash it.
    check_decisions(instructions, decisions)
    if names_intrinsics(line):
        load_intrinsics(json.loads(target)["kind"])
        register_tiles(line)
    loaded = _loaded_trace(module_json, record)
    if loaded is not None:
        check_kept(decisions, plain(trace_parts(loaded)[1]))
        return ExaminedTrace("", False, None)
    parsed = parse_record(line.encode())
    replayed = replay_recorded(module_json, parsed.trace, target)
    [text] = record_texts(module_json, target, [(replayed.trace, parsed.run_s)])
    if text is None:
        raise WorkloadError("TVM 0.27 cannot write its record")
    return ExaminedTrace("", replayed.redone, text)


def _loaded_trace(module_json: str, record: list[Any]) -> Any:
    """The trace that TVM's own reader makes of a record by replaying it; None if it rejects the record."""
    from tvm.s_tir.meta_schedule.database import TuningRecord

    try:
        return TuningRecord.from_json(record, _workload(module_json)).trace
    except Exception:
        return None  # TVM may raise anything; the translation finds the reason.


@functools.lru_cache(maxsize=4)
def _workload(module_json: str) -> Any:
    from tvm.s_tir.meta_schedule.database import Workload

    return Workload(module_from_json(module_json))
