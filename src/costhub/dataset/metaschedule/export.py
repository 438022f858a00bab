"""Provides export_database: exports measurements of one device as a database that stock TVM MetaSchedule reads."""

from __future__ import annotations

import itertools
import os
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from costhub.dataset.load import Names
from costhub.dataset.metaschedule.export_pool import ExportPool, usable
from costhub.dataset.metaschedule.export_rows import ExportRow, ExportSelection
from costhub.dataset.metaschedule.lines import RECORDS_FILE, WORKLOADS_FILE
from costhub.dataset.shards.shard import sync_folder
from costhub.errors import DataError
from costhub.isolation.scratch import ScratchFolder
from costhub.progress import bar
from costhub.terminal_text import Printed, counted

_CHUNK_ROWS = 64


@dataclass(repr=False)
class ExportReport(Printed):
    """Counts of what an export wrote and what it left out; `print` shows them as `costhub export` does."""

    folder: Path
    device_id: str
    workloads: int = 0
    """Workloads written; those that share a structural hash count once."""
    records: int = 0
    """Records written, failed ones included."""
    failures: int = 0
    """Records of programs that failed, written as 1e10 seconds."""
    unreplayable: int = 0
    """Measurements left out because TVM cannot replay them: it could not load a database containing one."""
    unusable: int = 0
    """Measurements left out because they ran and have no positive, finite latencies."""
    without_workload: int = 0
    """Measurements left out because the module of their workload is missing or cannot be read."""

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def sentences(self) -> list[str]:
        """The report as readable sentences.

        Example:
            >>> ExportReport(Path("db"), "cpu0", workloads=1, records=3, failures=1, unusable=2).sentences()
            ['Wrote 3 records of 1 workload on cpu0 to db; 1 of them failed.',
             'Left out 2 that have no usable latencies.']
        """
        lines = [
            f"Wrote {counted(self.records, 'record')} of {counted(self.workloads, 'workload')} on {self.device_id} to "
            f"{self.folder}; {self.failures:,} of them failed."
        ]
        reasons = {
            "that TVM cannot replay": self.unreplayable,
            "that have no usable latencies": self.unusable,
            "whose workload cannot be read": self.without_workload,
        }
        return lines + [f"Left out {count:,} {why}." for why, count in reasons.items() if count]


@dataclass(frozen=True)
class _DatabaseWorkload:
    """Position of a workload in the database."""

    number: int
    module_json: str
    """The module at that place; programs are replayed on it, since TVM will load them with this module."""


def export_database(
    path: str | Path,
    out: str | Path,
    *,
    device: str | None = None,
    workload: Names | None = None,
    operator: Names | None = None,
    best: int | None = None,
    failures: bool = True,
    workers: int | None = None,
    progress: bool = True,
) -> ExportReport:
    """Writes a database of TVM 0.27 (``ms.database.JSONDatabase(work_dir=out)``) from a data folder.

    Records have the form that MetaSchedule's AddToDatabase writes (TVM,
    src/s_tir/meta_schedule/measure_callback/add_to_database.cc), one per measurement: two measurements of
    one program stay two. TVM ranks records by the mean of their seconds; `best` goes by their median, as
    everything in costhub does.

    Args:
        path: A data folder.
        out: The folder to write; it gets its name once it is complete.
        device: The device; optional if the folder has only one. TVM's queries ignore the target, so
            a database of several devices would answer with programs of the wrong one.
        workload: Ids or names of the workloads to write; all by default.
        operator: Operator families to write; all by default.
        best: Write only this many records of each workload, those of lowest latency.
        failures: Write failed measurements too, as 1e10 seconds.
        workers: Child processes that replay the programs; one per core by default.
        progress: Show a progress bar on a terminal.

    Raises:
        DataError: `out` is not empty, the folder cannot be read, it has several devices and none is named, or
            no measurement fits.
        UnknownNameError: No workload or operator has that name.
        MeasureError: A child process does not start.
    """
    if best is not None and best < 1:
        raise DataError(f"best is {best}; it must be 1 or more.")
    selection = ExportSelection.of(
        path, device=device, workload=workload, operator=operator, failures=failures and best is None
    )
    report = ExportReport(Path(out), selection.device_id)
    with new_database(report.folder) as (workloads, records), ExportPool(workers=workers) as pool:
        counts = selection.count()
        places = _write_workloads(workloads, pool, selection, counts, report)
        if best is None:
            lines = _lines(pool, places, _usable_rows(selection.rows(), places, report))
        else:
            lines = _best_lines(pool, selection, places, best)
        with bar(None if best else counts.total(), desc="export", unit="record", enabled=progress) as shown:
            for row, line in lines:
                _write_record(records, row, line, report)
                shown.update(1)
        if not report.records:
            raise DataError(
                f"None of the {counts.total():,} selected measurements in {path} can be exported. Relax the "
                "selection, or check the folder with `costhub check`."
            )
    return report


@contextmanager
def new_database(out: Path) -> Iterator[tuple[IO[str], IO[str]]]:
    """The two files of a database, for workloads and for records, in a folder that takes its name when all is written.

    Raises:
        DataError: `out` is there and not empty.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DataError(f"{out} exists and is not empty; name a new folder.")
    place = Path(os.path.realpath(out))
    place.parent.mkdir(parents=True, exist_ok=True)
    with ScratchFolder(place.parent) as scratch:
        unfinished = scratch.path / place.name
        unfinished.mkdir()
        with ExitStack() as held:
            names = (WORKLOADS_FILE, RECORDS_FILE)
            files = [held.enter_context((unfinished / n).open("w", encoding="utf-8")) for n in names]
            yield files[0], files[1]
            for file in files:
                file.flush()
                os.fsync(file.fileno())
        os.replace(unfinished, place)
    sync_folder(place.parent)


def _write_workloads(
    file: IO[str], pool: ExportPool, selection: ExportSelection, counts: Mapping[str, int], report: ExportReport
) -> dict[str, _DatabaseWorkload]:
    """Writes the workloads that can be read, those of one structural hash once."""
    places: dict[str, _DatabaseWorkload] = {}
    by_hash: dict[str, _DatabaseWorkload] = {}
    for workload_id in sorted(counts):
        module_json = selection.modules.get(workload_id)
        line = pool.workload(module_json) if module_json else None
        if line is None or module_json is None:
            continue
        if line.structural_hash not in by_hash:
            # TVM numbers what it appends by distinct workloads: a second line of one would shift the rest.
            by_hash[line.structural_hash] = _DatabaseWorkload(len(by_hash), module_json)
            file.write(f"{line.text}\n")
        places[workload_id] = by_hash[line.structural_hash]
    report.workloads = len(by_hash)
    report.without_workload = sum(count for key, count in counts.items() if key not in places)
    return places


def _usable_rows(rows: Iterable[ExportRow], places: Container[str], report: ExportReport) -> Iterator[ExportRow]:
    """The rows that failed or have latencies, of workloads that could be written; the others count already."""
    for row in rows:
        if row.workload_id not in places:
            continue
        if row.status == "ok" and not usable(row.run_s):
            report.unusable += 1
        else:
            yield row


def _lines(
    pool: ExportPool, places: Mapping[str, _DatabaseWorkload], rows: Iterable[ExportRow]
) -> Iterator[tuple[ExportRow, str | None]]:
    """Yields each row, all of workloads in `places`, with its line, in order; None if TVM cannot replay it."""
    ahead, behind = itertools.tee(_chunks_of_rows(rows))
    calls = (
        (places[chunk[0].workload_id].module_json, chunk[0].target, tuple((r.trace, r.run_s) for r in chunk))
        for chunk in ahead
    )
    for records, chunk in zip(pool.records(calls), behind, strict=True):
        number = places[chunk[0].workload_id].number
        for row, record in zip(chunk, records, strict=True):
            yield row, None if record is None else f"[{number},{record}]\n"


def _chunks_of_rows(rows: Iterable[ExportRow]) -> Iterator[tuple[ExportRow, ...]]:
    """Groups consecutive rows of one workload and target; shards are sorted by workload, so the groups are large."""
    for _, group in itertools.groupby(rows, key=lambda row: (row.workload_id, row.target)):
        while chunk := tuple(itertools.islice(group, _CHUNK_ROWS)):
            yield chunk


def _best_lines(
    pool: ExportPool, selection: ExportSelection, places: Mapping[str, _DatabaseWorkload], best: int
) -> Iterator[tuple[ExportRow, str | None]]:
    """Yields the best rows of each workload that replay, best first, and those before them that do not."""
    ranking = selection.best({key: place.number for key, place in places.items()}, best)
    rows = selection.rows([record_id for ranked in ranking.values() for record_id in ranked])
    lines = {row.record_id: (row, line) for row, line in _lines(pool, places, rows)}
    for _, ranked in sorted(ranking.items()):
        good = 0
        for row, line in (lines[record_id] for record_id in ranked):
            if good < best:
                yield row, line
                good += line is not None


def _write_record(file: IO[str], row: ExportRow, line: str | None, report: ExportReport) -> None:
    if line is None:
        report.unreplayable += 1
        return
    file.write(line)
    report.records += 1
    report.failures += not row.run_s
