"""Provides write_clean_copy: writes the good records of databases for one target as a database that TVM loads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from costhub.dataset.doctor.examine import Examination, GoodRecord, line_digest
from costhub.dataset.metaschedule.export import new_database
from costhub.dataset.metaschedule.import_database import MOST_LINE_BYTES, database_files
from costhub.dataset.metaschedule.lines import RECORDS_FILE, read_lines
from costhub.dataset.metaschedule.origin import ORIGIN_FILE, origin_text
from costhub.errors import DataError
from costhub.files import write_replacing
from costhub.terminal_text import Printed, counted

_CHARACTERS = 200
"""Limit for a target in a message."""
_MOST_TARGETS = 8
"""Limit on the number listed in a message."""


@dataclass(repr=False)
class CopyReport(Printed):
    """Counts of what a clean copy contains and what it leaves out; `print` shows them as `costhub merge` does."""

    folder: Path
    workloads: int = 0
    translated: int = 0
    """Workloads written in the form of TVM 0.27; `ORIGIN_FILE` beside them says which TVM originally wrote them."""
    records: int = 0
    """Records written, including those of failed programs."""
    rewritten: int = 0
    """Records written in the form of TVM 0.27, which cannot read their original form."""
    duplicates: int = 0
    """Records left out because another folder holds them as well."""
    failures: int = 0
    """Records left out because their programs failed."""
    wrong: int = 0
    """Records left out because their programs compute something different from their workload."""
    bad: int = 0
    """Lines left out because they hold no good record."""

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def sentences(self) -> list[str]:
        """The report as readable sentences.

        Example:
            >>> CopyReport(Path("clean"), workloads=2, records=9, failures=1).sentences()
            ['Wrote 9 records of 2 workloads to clean.', 'Left out 1 that failed.']
        """
        reasons = {
            "that several folders hold": self.duplicates,
            "that failed": self.failures,
            "whose programs compute something else": self.wrong,
            "that `costhub doctor` finds bad": self.bad,
        }
        lines = [f"Wrote {counted(self.records, 'record')} of {counted(self.workloads, 'workload')} to {self.folder}."]
        if self.rewritten:
            lines.append(f"{counted(self.rewritten, 'record')} had to be rewritten in the form of TVM 0.27.")
        lines += [f"Left out {count:,} {why}." for why, count in reasons.items() if count]
        if self.translated:
            lines.append(
                f"{counted(self.translated, 'workload')} also had to be rewritten; {ORIGIN_FILE} beside them tells "
                "`costhub import` which TVM measured."
            )
        return lines


def check_one_target(examinations: Sequence[Examination]) -> None:
    """Rejects databases whose records are for more than one target.

    Raises:
        DataError: There are several targets; the message lists them and where they occur.
    """
    places: dict[str, list[str]] = {}
    for examination in examinations:
        for target, records in examination.targets.most_common():
            places.setdefault(target, []).append(f"{examination.folder} ({counted(records, 'record')})")
    if len(places) > 1:
        listed = [f"{target:.{_CHARACTERS}} in {', '.join(where)}" for target, where in places.items()]
        more = f"; and {len(listed) - _MOST_TARGETS:,} more" if len(listed) > _MOST_TARGETS else ""
        raise DataError(
            f"There are records for {len(listed):,} targets: {'; '.join(listed[:_MOST_TARGETS])}{more}. TVM's queries "
            "ignore the target, so a database of several would answer with programs of the wrong one; merge only "
            "folders of one target. `costhub doctor FOLDER --target TARGET --fix OUT` makes a copy of one."
        )


def write_clean_copy(examinations: Sequence[Examination], out: str | Path, *, failures: bool = True) -> CopyReport:
    """Writes every good record of examined databases as a database of TVM 0.27, with each workload and record once.

    A line that TVM 0.27 can read stays unchanged, except for its workload number. The folder gets its name once it
    is complete.

    Args:
        examinations: Examinations of the databases, with their schedules replayed.
        out: The folder to write; it must be new or empty.
        failures: Also write the records of failed programs, so that a search that continues knows them.

    Raises:
        DataError: `out` is not empty, no record is good, this machine was too busy to judge all of them, or a database
            has changed since it was examined.
    """
    out = Path(out)
    if not all(examination.is_replayed for examination in examinations):
        raise DataError("A clean copy needs replayed schedules; examine the folder with replay.")
    if unjudged := sum(examination.unjudged for examination in examinations):
        raise DataError(
            f"Nothing was written: this machine was too busy to judge {counted(unjudged, 'line')}, and the copy would "
            "lack them. Run the command again when less is running; what was judged is kept."
        )
    report = CopyReport(out)
    with new_database(out) as (workloads, records):
        places: dict[str, int] = {}
        for examination in examinations:
            for workload in examination.distinct:
                if workload.examined.structural_hash not in places:
                    places[workload.examined.structural_hash] = len(places)
                    workloads.write(f"{workload.examined.line}\n")
                    report.translated += not workload.examined.is_todays
        report.workloads = len(places)
        written: set[bytes] = set()
        for examination in examinations:
            _write_records(records, examination, places, written, report, failures=failures)
            report.bad += _bad_lines(examination)
        if not report.records:
            raise DataError(_nothing_to_write(report, " and ".join(str(each.folder) for each in examinations)))
        origins = _origins(examinations)
        if origins:
            write_replacing(Path(workloads.name).with_name(ORIGIN_FILE), origin_text(origins).encode())
    return report


def _bad_lines(examination: Examination) -> int:
    """How many lines hold neither a good record, nor one of an earlier line, nor one for a target that is left out."""
    others = examination.other_targets.total() + examination.log.counts["DB10"]
    return examination.lines - len(examination.records) - others


def _origins(examinations: Sequence[Examination]) -> dict[str, str | None]:
    """Workload id -> the TVM that wrote it, where its line in the copy does not say; None if folders differ."""
    versions: dict[str, set[str | None]] = {}
    rewritten = set()
    for examination in examinations:
        for workload in examination.distinct:
            versions.setdefault(workload.workload_id, set()).add(workload.examined.tvm_version)
            if not workload.examined.is_todays or workload.workload_id in examination.origins:
                rewritten.add(workload.workload_id)
    return {name: found.pop() if len(found) == 1 else None for name, found in versions.items() if name in rewritten}


def _nothing_to_write(report: CopyReport, folders: str) -> str:
    if report.failures and not report.wrong:
        return (
            f"The programs of all {report.failures:,} good records in {folders} failed, so nothing was written. "
            "Without --no-failures they are kept."
        )
    return f"No record in {folders} is good, so nothing was written."


def _write_records(
    file: IO[str],
    examination: Examination,
    places: dict[str, int],
    written: set[bytes],
    report: CopyReport,
    *,
    failures: bool,
) -> None:
    for record, rest in good_records(examination):
        if record.is_wrong:
            report.wrong += 1
        elif record.failed and not failures:
            report.failures += 1
        elif record.digest in written:
            report.duplicates += 1
        else:
            written.add(record.digest)
            place = places[examination.workloads[record.workload].examined.structural_hash]
            file.write(f"[{place},{rest}]\n")
            report.records += 1
            report.rewritten += record.text is not None


def good_records(examination: Examination) -> Iterator[tuple[GoodRecord, str]]:
    """Yields the good records in order, with the text after their workload's number, as TVM 0.27 reads it.

    Raises:
        DataError: The database has changed since it was examined.
    """
    left = iter(examination.records)
    record = next(left, None)
    with database_files(examination.folder) as files:
        for line in read_lines(files[RECORDS_FILE], most_bytes=MOST_LINE_BYTES):
            if record is None:
                return
            if line.number < record.line:
                continue
            if line_digest(line.text) != record.checksum:
                break
            # Of "[number,record]".
            rest = line.text.decode("utf-8").partition(",")[2].rstrip().removesuffix("]")
            yield record, rest if record.text is None else record.text
            record = next(left, None)
    if record is not None:
        raise DataError(
            f"{examination.folder} changed while it was read. Wait for the search to end, then run it again."
        )
