"""Provides examine_database: examines every line of a MetaSchedule database for problems."""

from __future__ import annotations

import hashlib
import json
import logging
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from costhub.dataset.doctor.database_rules import FindingLog
from costhub.dataset.doctor.in_children import ExaminedTrace, ExaminedWorkload, examine_records, examine_workload
from costhub.dataset.doctor.verdicts import Verdict, Verdicts
from costhub.dataset.metaschedule.import_database import MOST_LINE_BYTES, database_files
from costhub.dataset.metaschedule.import_pool import BUSY, ImportPool, ReplayedTraces
from costhub.dataset.metaschedule.import_records import find_workload
from costhub.dataset.metaschedule.import_workloads import MOST_LINE_BYTES as MOST_WORKLOAD_BYTES
from costhub.dataset.metaschedule.import_workloads import (
    ImportedWorkload,
    ImportedWorkloads,
    UniqueNames,
    default_name,
    loaded_workloads,
)
from costhub.dataset.metaschedule.lines import (
    BLANK,
    RECORDS_FILE,
    UNMEASURED,
    WORKLOADS_FILE,
    Line,
    Record,
    batches,
    parse_record,
    read_lines,
)
from costhub.dataset.metaschedule.origin import read_origin
from costhub.errors import DataError
from costhub.progress import bar
from costhub.terminal_text import counted

_BATCH = 2000
_CHUNK = 64
_MOST_TARGETS = 1000
"""Of a database: each is kept in memory, and no search has more than one."""


@dataclass(slots=True)
class GoodRecord:
    """A record that TVM 0.27 can use."""

    line: int
    """Line number, 1 for the first."""
    checksum: bytes
    """Checksum of the line, which is read again when a copy is written."""
    workload: int
    """The number of its workload in the database."""
    target: str
    """The target as TVM 0.27 accepts it."""
    digest: bytes
    latency_s: float | None
    """Median of its repeats; None if the program failed or was never measured."""
    text: str | None
    """Text after the workload's number, as TVM 0.27 writes it; None if the line can stay unchanged."""
    failed: bool
    """Whether the program failed."""
    mean_s: float | None = None
    """Mean of its repeats, by which TVM ranks programs; None as for `latency_s`."""
    is_wrong: bool = False
    """Whether its program computes something different from its workload, if that was checked."""


@dataclass
class DatabaseWorkload:
    """A workload of a database, with a summary of its records."""

    number: int
    """Its number in the database, from 0."""
    name: str
    """A name made from operator and shapes."""
    examined: ExaminedWorkload
    first: int
    """The number of the first line with the same workload, which holds the counts; usually its own."""
    records: int = 0
    """Usable records, including those of failed programs."""
    failed: int = 0
    """Usable records of failed programs."""
    best_s: float | None = None
    """The lowest median latency."""
    kernel: str | None = None
    """Its name in the network that the database was compared with."""

    @property
    def shown_name(self) -> str:
        """The displayed name: the kernel's name in the network, if a network was given and has it."""
        return self.kernel or self.name

    @property
    def workload_id(self) -> str:
        """The id that costhub gives it, regardless of the TVM that wrote it."""
        return str(self.examined.row["workload_id"])


@dataclass
class Examination:
    """The contents of a database and its problems."""

    folder: Path
    log: FindingLog = field(default_factory=FindingLog)
    workloads: dict[int, DatabaseWorkload] = field(default_factory=dict)
    """Readable workloads, by number."""
    records: list[GoodRecord] = field(default_factory=list)
    """Usable records, in order."""
    lines: int = 0
    """Number of lines in the records file, whatever they contain."""
    targets: Counter[str] = field(default_factory=Counter)
    """Target, as TVM 0.27 accepts it -> number of records."""
    other_targets: Counter[str] = field(default_factory=Counter)
    """Target -> number of records skipped, if only those of one target were requested."""
    is_replayed: bool = True
    """Whether the schedules were replayed."""
    contents: set[bytes] = field(default_factory=set)
    """Digests of all readable workloads and records, including schedules that do not replay."""
    unjudged: int = 0
    """Workloads and records about which a busy machine said nothing."""
    origins: dict[str, str | None] = field(default_factory=dict)
    """Workload id -> the TVM that wrote it before it was rewritten for a clean copy; `read_origin`."""

    @property
    def distinct(self) -> list[DatabaseWorkload]:
        """Every workload once, in the order of the database."""
        return [each for each in self.workloads.values() if each.first == each.number]

    @property
    def identity(self) -> str:
        """64 hex digits: the same for the same workloads and records, regardless of order, form and numbering."""
        digest = hashlib.sha256()
        for each in sorted(self.contents):
            digest.update(each)
        return digest.hexdigest()


def examine_database(
    path: str | Path,
    *,
    target: Mapping[str, Any] | None = None,
    replay: bool = True,
    workers: int | None = None,
    progress: bool = True,
) -> Examination:
    """Examines a MetaSchedule database; nothing is written beside it.

    TVM reads workloads and replays schedules in child processes with limits. The results of an interrupted run
    about schedules are reused by the next one.

    Args:
        path: A folder with ``database_workload.json`` and ``database_tuning_record.json``, each perhaps gzipped, or
            with the same tables as ``.sqlite``, of TVM 0.10 to 0.27.
        target: Attributes of the target whose records to take, such as `kind`, `mcpu` and `num-cores`; those of
            other targets, and workloads that only occur in those, are left out. None for all.
        replay: Whether to replay every schedule; without it, an examination takes seconds.
        workers: Child processes; one per core by default.
        progress: Show a bar on a terminal.

    Raises:
        DataError: `path` has no database, or has no record for the target.
        MeasureError: No child process can be started.
    """
    found = Examination(Path(path), is_replayed=replay, origins=_origins(Path(path)))
    with (
        database_files(found.folder) as files,
        ImportPool(workers, load=examine_workload, replay=examine_records) as pool,
    ):
        examiner = _Examiner(found, pool, target or {})
        examiner.read_workloads(files[WORKLOADS_FILE])
        examiner.read_records(files[RECORDS_FILE], progress=progress)
        examiner.forget_others()
        for file in files.values():
            _look_at_end(file, found.log)
    _look_at_whole(found)
    return found


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A readable record whose workload exists."""

    line: Line
    text: str
    record: Record
    workload: DatabaseWorkload


class _Examiner:
    """Reads the two files of a database, a batch at a time."""

    def __init__(self, found: Examination, pool: ImportPool, wanted: Mapping[str, Any]) -> None:
        self._found, self._pool, self._wanted = found, pool, wanted
        self._known = ImportedWorkloads()
        self._targets: dict[str, ReplayedTraces | str] = {}
        self._elsewhere: set[int] = set()

    def read_workloads(self, path: Path) -> None:
        """Reads every workload; unreadable lines count, blank ones do not."""
        log, names, digest = self._found.log, UniqueNames(), hashlib.sha256()
        firsts: dict[str, tuple[int, int]] = {}
        texts: dict[str, ExaminedWorkload] = {}
        lines = (line for line in read_lines(path, most_bytes=MOST_WORKLOAD_BYTES) if _is_filled(line, path, log))
        for number, (line, reply) in enumerate(loaded_workloads(lines, self._pool)):
            digest.update(line.text + b"\n")
            where = f"{path.name} line {line.number}"
            if not isinstance(reply, ExaminedWorkload):
                why = line.why or str(reply)
                log.add("DB03", where, why)
                self._found.unjudged += why == BUSY
                self._known.lost[number] = f"its workload (line {line.number}) cannot be read: {why}"
                continue
            workload_id = str(reply.row["workload_id"])
            tvm_version = self._found.origins.get(workload_id, reply.tvm_version)
            name = names.take(default_name(reply.row))
            # Copies share the texts of the first one, which may have megabytes.
            known = texts.setdefault(workload_id, reply)
            text = known.line if known.line == reply.line else reply.line
            first, first_line = firsts.setdefault(reply.structural_hash, (number, line.number))
            self._found.workloads[number] = DatabaseWorkload(
                number, name, replace(reply, row=known.row, line=text, tvm_version=tvm_version), first
            )
            self._known.found[number] = ImportedWorkload(known.row, reply.tvm_version)
            self._found.contents.add(_workload_digest(workload_id))
            if not reply.is_todays:
                log.add("DB12", where, f"an older TVM wrote it{f' ({reply.tvm_version})' if reply.tvm_version else ''}")
            elif not reply.has_own_hash:
                log.add("DB08", where, f"its hash is {reply.structural_hash} and the line says another one")
            if first != number:
                log.add("DB09", where, f"it is the workload of line {first_line}")
        self._known.digest = digest.hexdigest()

    def read_records(self, path: Path, *, progress: bool) -> None:
        """Reads every record, and replays the readable ones."""
        lines = read_lines(path, most_bytes=MOST_LINE_BYTES)
        with (
            Verdicts(self._known.digest) as verdicts,
            bar(path.stat().st_size, desc="examining", unit="B", enabled=progress) as shown,
        ):
            for batch in batches(lines, _BATCH):
                self._found.lines += len(batch)
                candidates = [each for line in batch if (each := self._candidate(path, line)) is not None]
                judged = (
                    self._judged(candidates, verdicts) if self._found.is_replayed else [Verdict()] * len(candidates)
                )
                for candidate, verdict in zip(candidates, judged, strict=True):
                    self._take(path, candidate, verdict)
                shown.update(batch[-1].position - shown.n)

    def forget_others(self) -> None:
        """Drops the workloads that only have programs for other targets.

        Raises:
            DataError: All records are for other targets.
        """
        found = self._found
        if found.other_targets and not found.targets:
            held = "; ".join(f"{target:.200} ({count:,})" for target, count in found.other_targets.most_common(8))
            wanted = json.dumps(self._wanted)
            raise DataError(f"{found.folder} has no good record for the target {wanted:.200}, only for {held}.")
        unused = {number for number in self._elsewhere if not found.workloads[number].records}
        for workload in [each for each in found.workloads.values() if each.first in unused]:
            del found.workloads[workload.number]
            found.contents.discard(_workload_digest(workload.workload_id))

    def _candidate(self, path: Path, line: Line) -> _Candidate | None:
        """The record of a line, unless seen before; None, with a finding, if it cannot be used."""
        log, where = self._found.log, f"{path.name} line {line.number}"
        if not _is_filled(line, path, log):
            return None
        rule_id = "DB01"
        try:
            if line.why:
                raise DataError(line.why)
            if b"\0" in line.text:
                raise DataError("it has zero bytes, as another encoding or a damaged disk leaves them")
            text, record = line.text.decode("utf-8"), parse_record(line.text, unmeasured=True)
            known = record.workload in self._known.found
            rule_id = "DB05" if known else "DB03" if record.workload in self._known.lost else "DB04"
            find_workload(record, self._known)
        except UnicodeDecodeError:
            log.add("DB01", where, "it is not UTF-8")
            return None
        except DataError as error:
            log.add(rule_id, where, str(error))
            return None
        workload = self._found.workloads[record.workload]
        target = self._target(record.target)
        if not isinstance(target, str) and not is_of_target(target.target, self._wanted):
            self._found.other_targets[target.target] += 1
            self._elsewhere.add(workload.first)
            return None
        digest = self._digest(record, workload)
        if digest in self._found.contents:
            log.add("DB10", where, "an earlier line holds the same record")
            return None
        self._found.contents.add(digest)
        return _Candidate(line, text, record, workload)

    def _digest(self, record: Record, workload: DatabaseWorkload) -> bytes:
        target = self._target(record.target)
        accepted = record.target if isinstance(target, str) else target.target
        identity = ["record", workload.workload_id, accepted, record.trace, record.run_s]
        identity += [] if record.run_s or record.was_measured else ["unmeasured"]  # not the same as a failure
        return hashlib.sha256(json.dumps(identity).encode()).digest()

    def _target(self, target: str) -> ReplayedTraces | str:
        """The target as TVM 0.27 accepts it; a string says why it does not accept it."""
        if target not in self._targets:
            if len(self._targets) >= _MOST_TARGETS:
                return f"the database has more than {_MOST_TARGETS:,} targets"
            self._targets[target] = next(self._pool.replay([("", target, ())]))
        return self._targets[target]

    def _judged(self, candidates: Sequence[_Candidate], verdicts: Verdicts) -> list[Verdict]:
        """TVM's verdict on each record, replayed unless an earlier run did so."""
        keys = [verdicts.key(each.workload.examined.row["module_json"], each.text) for each in candidates]
        new = [(key, each) for key, each in zip(keys, candidates, strict=True) if verdicts.get(key) is None]
        groups: dict[tuple[int, str], list[tuple[str, _Candidate]]] = {}
        for key, each in new:
            groups.setdefault((each.record.workload, each.record.target), []).append((key, each))
        chunks = [group[i : i + _CHUNK] for group in groups.values() for i in range(0, len(group), _CHUNK)]
        calls = (
            (
                chunk[0][1].workload.examined.row["module_json"],
                chunk[0][1].record.target,
                tuple(e.text for _, e in chunk),
            )
            for chunk in chunks
        )
        for chunk, reply in zip(chunks, self._pool.replay(calls), strict=True):
            verdicts.put(zip((key for key, _ in chunk), _verdicts(reply, len(chunk)), strict=True))
        return [verdicts.get(key) or Verdict() for key in keys]

    def _take(self, path: Path, candidate: _Candidate, verdict: Verdict) -> None:
        """Adds a record that TVM can use, or says why it cannot."""
        found, record, workload = self._found, candidate.record, candidate.workload
        where = f"{path.name} line {candidate.line.number}"
        target = self._target(record.target)
        if isinstance(target, str):
            found.unjudged += target == BUSY
            return found.log.add("DB06", where, target)
        if verdict.why is not None:
            found.unjudged += not verdict.is_final
            return found.log.add("DB06", where, verdict.why)
        if verdict.record is not None:
            how = "TVM 0.27 redid its post-processing" if verdict.redone else "an older TVM wrote it"
            found.log.add("DB12", where, how)
        latency_s = statistics.median(record.run_s) if record.run_s else None
        found.targets[target.target] += 1
        first = found.workloads[workload.first]
        first.records += 1
        failed = latency_s is None and record.was_measured
        if failed:
            first.failed += 1
            found.log.add("DB17", where, record.error or "")
        elif latency_s is None:
            found.log.add("DB21", where, UNMEASURED)
        else:
            first.best_s = min(latency_s, first.best_s or latency_s)
        checksum, digest = line_digest(candidate.line.text), self._digest(record, workload)
        number = candidate.line.number
        found.records.append(
            GoodRecord(
                number,
                checksum,
                record.workload,
                target.target,
                digest,
                latency_s,
                verdict.record,
                failed,
                mean_s=statistics.fmean(record.run_s) if record.run_s else None,
            )
        )


def line_digest(text: bytes) -> bytes:
    """A digest of a line: the copy must hold what was examined, whatever is written to the folder meanwhile."""
    return hashlib.blake2b(text, digest_size=16).digest()


def is_of_target(target: str, wanted: Mapping[str, Any]) -> bool:
    """Whether a target has all the given attributes, which may leave others open.

    Args:
        target: As JSON.
        wanted: Attributes, such as `kind`, `mcpu` and `num-cores`.

    Example:
        >>> is_of_target('{"kind": "llvm", "mcpu": "znver4", "num-cores": 2}', {"kind": "llvm", "mcpu": "znver4"})
        True
    """
    attributes = json.loads(target)
    return all(attributes.get(name) == value for name, value in wanted.items())


def _workload_digest(workload_id: str) -> bytes:
    return hashlib.sha256(f"workload {workload_id}".encode()).digest()


def _origins(folder: Path) -> dict[str, str | None]:
    """Like `read_origin`; an unusable file does not stop the rest of the examination."""
    try:
        return read_origin(folder)
    except DataError as error:
        logging.getLogger("costhub").warning("%s", error)
        return {}


def _is_filled(line: Line, path: Path, log: FindingLog) -> bool:
    if line.has_mark:
        log.add("DB20", path.name, "a byte order mark is before its first line")
    if line.why != BLANK:
        return True
    log.add("DB02", f"{path.name} line {line.number}", BLANK)
    return False


def _verdicts(reply: ReplayedTraces | str, count: int) -> Iterator[Verdict]:
    programs = (reply,) * count if isinstance(reply, str) else reply.programs
    for program in programs:
        if isinstance(program, ExaminedTrace):
            yield Verdict(None, program.redone, program.record)
        else:
            yield Verdict(str(program), is_final=program != BUSY)


def _look_at_end(path: Path, log: FindingLog) -> None:
    if path.suffix in (".gz", ".xz") or not path.stat().st_size:
        return
    with path.open("rb") as file:
        file.seek(-1, 2)
        if file.read(1) != b"\n":
            log.add("DB13", path.name, "its last line has no end")


def _look_at_whole(found: Examination) -> None:
    """Adds findings that no single line shows."""
    if len(found.targets) > 1:
        for target, count in found.targets.most_common():
            found.log.add("DB11", str(found.folder), f"{counted(count, 'record')} for {target}")
    for workload in found.distinct:
        if not workload.records:
            found.log.add("DB18", workload.name, "no record of it can be used")
        elif workload.failed == workload.records:
            found.log.add("DB14", workload.name, f"none of its programs ran ({counted(workload.records, 'record')})")
