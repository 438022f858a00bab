"""Provides RecordImporter: turns lines of a database's tuning records into rows of the measurements table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from costhub.dataset.metaschedule.import_pool import ReplayCall, ReplayedTraces
from costhub.dataset.metaschedule.import_workloads import ImportedWorkload, ImportedWorkloads
from costhub.dataset.metaschedule.lines import Arguments, ImportReport, Line, Record, parse_record
from costhub.dataset.schema import IMPORTED
from costhub.dataset.shards.layout import record_key
from costhub.dataset.trace import program_id, record_id
from costhub.errors import DataError
from costhub.versions import costhub_version

OutcomeKey = int
_CHUNK_RECORDS = 64
_SAME_SECOND = "its program was measured before in the same second, and one id stands for both"


@dataclass(frozen=True)
class ImportSource:
    """Values that all rows of one import share."""

    device: Mapping[str, Any]
    workloads: ImportedWorkloads
    contributor: str | None
    licence: str | None
    session: str
    """Names the database or log in every row."""
    proposed_by: str = IMPORTED
    transplanted_from: str | None = None
    """The compiler whose code was measured, if TVM only replays its schedule."""


class TracePool(Protocol):
    """Child processes that turn the programs stored in records into traces of TVM 0.27."""

    def replay(self, calls: Iterable[ReplayCall]) -> Iterator[ReplayedTraces | str]:
        """One answer per call, in order."""
        ...


@dataclass(frozen=True)
class _PendingRecord:
    """A record to be replayed."""

    line: int
    record_id: str
    record: Record
    workload: ImportedWorkload


class RecordImporter:
    """Turns lines into rows, every record once.

    Args:
        source: Values that the rows share.
        pool: The pool that replays traces.
        report: Counts lines that give no row.
        known: Keys (`record_key`) of records that need no row.
        held: How often each outcome (`outcome_key`) is in the folder. Records that say when they were measured get the
            id of their program, which is known only after replaying; the outcome identifies a record before that.
        parse: Reads a line.
    """

    def __init__(
        self,
        source: ImportSource,
        pool: TracePool,
        report: ImportReport,
        *,
        known: frozenset[str] = frozenset(),
        held: Mapping[OutcomeKey, int] | None = None,
        parse: Callable[[bytes], Record] = parse_record,
    ) -> None:
        self._source, self._pool, self._report, self._known = source, pool, report, known
        self._held, self._parse = Counter(held or {}), parse
        self._seen: set[tuple[Any, ...]] = set()
        self._made: set[str] = set()
        self.known_workloads: set[str] = set()
        """Ids of the workloads of which records were in the folder already."""

    def rows(self, file: str, lines: Iterable[Line]) -> list[dict[str, Any]]:
        """Rows of the measurements table for the usable lines, counted and in order."""
        chunks = _chunks(list(self._pending(file, lines)))
        rows: dict[int, dict[str, Any]] = {}
        for chunk, reply in zip(chunks, self._pool.replay([_request(c) for c in chunks]), strict=True):
            for number, pending in enumerate(chunk):
                row = reply if isinstance(reply, str) else self._row(pending, reply, number)
                if isinstance(row, str):
                    self._report.refuse(file, pending.line, row)
                elif record_key(row["record_id"]) in self._known:
                    self._count_known(pending.workload)
                elif row["record_id"] in self._made:
                    self._report.refuse(file, pending.line, _SAME_SECOND)
                else:
                    self._made.add(row["record_id"])
                    rows[pending.line] = row
        failed = sum(not row["run_s"] for row in rows.values())
        self._report.failed += failed
        self._report.ok += len(rows) - failed
        return [rows[line] for line in sorted(rows)]

    def _pending(self, file: str, lines: Iterable[Line]) -> Iterator[_PendingRecord]:
        for line in lines:
            try:
                if line.why:
                    raise DataError(line.why)
                record = self._parse(line.text)
                workload = find_workload(record, self._source.workloads)
            except DataError as error:
                self._report.refuse(file, line.number, str(error))
                continue
            key = record.record_id(self._source.device["device_id"], workload.workload_id)
            # Status and date tell failures of one program apart; runs with exactly the same times are copies.
            seen = key, *(() if record.run_s else (record.status, record.measured_at))
            if seen in self._seen:
                self._report.duplicates += 1
            elif record_key(key) in self._known or self._is_held(record, workload):
                self._count_known(workload)
            else:
                yield _PendingRecord(line.number, key, record, workload)
            self._seen.add(seen)

    def _count_known(self, workload: ImportedWorkload) -> None:
        self._report.known += 1
        self.known_workloads.add(workload.workload_id)

    def _is_held(self, record: Record, workload: ImportedWorkload) -> bool:
        """Whether the folder has this outcome; each row of it stands for one record."""
        if record.measured_at is None:
            return False
        key = outcome_key(workload.workload_id, record.status, record.run_s, record.measured_at)
        self._held[key] -= 1
        return self._held[key] >= 0

    def _row(self, pending: _PendingRecord, reply: ReplayedTraces, number: int) -> dict[str, Any] | str:
        """A row, with null for columns that MetaSchedule does not record; or the reason why there is none."""
        source, replayed, workload_id = self._source, reply.programs[number], pending.workload.workload_id
        if reply.device_kind != source.device["kind"]:
            return f"its target is for the device kind {reply.device_kind}, not {source.device['kind']}"
        if isinstance(replayed, str):
            return replayed
        self._report.redone += replayed.redone
        record, device_id = pending.record, source.device["device_id"]
        program = program_id(workload_id, replayed.trace)
        when = record.measured_at
        return {
            "record_id": record_id(program, device_id, source.session, when) if when else pending.record_id,
            "program_id": program,
            "workload_id": workload_id,
            "device_id": device_id,
            "target": reply.target,
            "trace": replayed.trace,
            "status": record.status,
            "error": record.error,
            "run_s": list(record.run_s),
            "proposed_by": source.proposed_by,
            "timestamp": when,
            "session": source.session,
            "contributor": source.contributor,
            "licence": source.licence,
            "tvm_version": pending.workload.tvm_version,
            "costhub_version": costhub_version(),
            "transplanted_from": source.transplanted_from,
        }


def find_workload(record: Record, workloads: ImportedWorkloads) -> ImportedWorkload:
    """Finds the workload of a record.

    Raises:
        DataError: It is missing, or has other arguments than the record.
    """
    if record.workload in workloads.lost:
        raise DataError(workloads.lost[record.workload])
    workload = workloads.found.get(record.workload)
    if workload is None:
        raise DataError(f"the database has no workload {record.workload}")
    if record.arguments is not None and _argument_sizes(record.arguments) != _argument_sizes(workload.arguments):
        raise DataError("its arguments differ from those of its workload")
    return workload


def outcome_key(workload_id: str, status: str, run_s: Sequence[float], measured_at: datetime) -> OutcomeKey:
    """The key that a measurement and its record share, whatever the program."""
    return hash((workload_id, status, *run_s, measured_at))


def _chunks(pending: Sequence[_PendingRecord]) -> list[list[_PendingRecord]]:
    """Records of one workload and one target, a child's request at a time."""
    groups: dict[tuple[int, str], list[_PendingRecord]] = {}
    for each in pending:
        groups.setdefault((each.record.workload, each.record.target), []).append(each)
    return [group[i : i + _CHUNK_RECORDS] for group in groups.values() for i in range(0, len(group), _CHUNK_RECORDS)]


def _request(chunk: Sequence[_PendingRecord]) -> ReplayCall:
    traces = tuple(pending.record.trace for pending in chunk)
    return (chunk[0].workload.row["module_json"], chunk[0].record.target, traces)


def _argument_sizes(arguments: Arguments) -> list[tuple[str, int]]:
    # A schedule may change the layout, and so the shape, of an argument, but not the number of its elements.
    return [(dtype, math.prod(shape)) for dtype, shape in arguments]
