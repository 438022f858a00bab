"""Provides check_folder: a data folder against every rule."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from costhub.dataset.check.context import Context
from costhub.dataset.check.deep import Sampled, check_workload, sample
from costhub.dataset.check.files import SEALED, SIZE, UNCHANGED, Listing, Source
from costhub.dataset.check.identities import KEYS
from costhub.dataset.check.ledger import ENTRY, Ledger
from costhub.dataset.check.reader import Reader
from costhub.dataset.check.registry import RULES
from costhub.dataset.check.report import Breach, Report
from costhub.dataset.check.rule import Finding, FolderRule, LedgerRule
from costhub.dataset.check.service import Piece
from costhub.dataset.workload_service import ModuleWorker
from costhub.errors import DataError
from costhub.progress import bar

_SAMPLED = ("record_id", "workload_id", "trace", "target")


def check_folder(path: str | Path, *, deep: bool = False, progress: bool = True) -> list[Finding]:
    """Checks a data folder against every rule, in one pass over its rows.

    Files are opened in a child process with limits on memory and time: one that brings it down is a finding.

    Args:
        path: The data folder.
        deep: Also apply the rules that load every module into TVM and replay a sample of the traces.
        progress: Show a progress bar, where stderr is a terminal.

    Returns:
        The findings, by rule; empty where all is well.

    Raises:
        DataError: There is no data folder at `path`, or another program changed it meanwhile.
        MeasureError: A child process does not start.
    """
    with Reader() as reader:
        return check_with(reader, path, deep=deep, progress=progress)


def check_with(
    reader: Reader, path: str | Path, *, deep: bool = False, progress: bool = False
) -> list[Finding]:
    """Does what `check_folder` does with a reader that is there already, as for many folders in turn."""
    check = _Check(reader, Listing(path), progress=progress)
    try:
        check.apply_folder_rules()
        check.read_tables()
        check.read_measurements()
        if deep:
            check.apply_deep_rules()
    except FileNotFoundError as error:
        raise DataError(
            f"{error.filename} disappeared while {path} was checked; check again when nothing writes there."
        ) from error
    return check.report.findings()


class _Check:
    """One check of one folder."""

    def __init__(self, reader: Reader, listing: Listing, *, progress: bool) -> None:
        self.reader, self.listing, self.progress = reader, listing, progress
        self.report = Report(RULES)
        self.context = Context()
        self.sources: list[Source] = []
        self.ledger = Ledger(np.zeros(0, ENTRY), ())

    def apply_folder_rules(self) -> None:
        """Looks at names and seals; a file with a broken seal is not opened afterwards."""
        unopened = set()
        for rule in RULES.values():
            if isinstance(rule, FolderRule):
                for where, message in rule.find(self.listing):
                    self.report.add(Breach(rule.id, where, message))
                    if rule.id in (UNCHANGED.id, SIZE.id):
                        unopened.add(where)
        self.sources = [source for source in self.listing.sources() if source.where not in unopened]

    def read_tables(self) -> None:
        """Reads devices and workloads into the context, which is what the rules on measurements know."""
        self.reader.know(self.context)
        keys: dict[str, Counter[str]] = {"devices": Counter(), "workloads": Counter()}
        for number, source in enumerate(self.sources):
            if source.table == "measurements":
                continue
            for piece in self._read(source, number, lambda _: None):
                rows: list[tuple[str, Any]] = [(row["device_id"], row) for row in piece.devices]
                rows += [(facts.workload_id, facts) for facts in piece.workloads]
                known: dict[str, Any] = getattr(self.context, source.table)
                for key, row in rows:
                    keys[source.table][key] += 1
                    known.setdefault(key, row)
        for table, counts in keys.items():
            doubled = [key for key, count in counts.items() if count > 1]
            if doubled:
                message = f"the key occurs more than once in the table {table}."
                self.report.add(Breach(KEYS.id, table, message, len(doubled), doubled[:3]))
        self.reader.know(self.context)

    def read_measurements(self) -> None:
        """Applies the rules on rows in the child, and those across rows to the ledger that comes back."""
        parts: list[npt.NDArray[Any]] = [np.zeros(0, ENTRY)]
        with bar(None, desc="checking", unit="row", enabled=self.progress) as shown:
            for number, source in enumerate(self.sources):
                if source.table != "measurements":
                    continue
                for piece in self._read(source, number, shown.update):
                    if piece.entries is not None:
                        parts.append(piece.entries)
                    elif not piece.is_last:  # the file was opened, and its footer says how many rows come
                        shown.total = (shown.total or 0) + piece.rows
        journals = [source.is_journal for source in self.sources]
        self.ledger = Ledger(np.concatenate(parts), journals)
        for rule in RULES.values():
            if isinstance(rule, LedgerRule):
                for message, mask in rule.find(self.ledger, self.context):
                    self._add(rule.id, message, np.flatnonzero(mask))

    def _read(self, source: Source, number: int, on_rows: Callable[[int], object]) -> Iterator[Piece]:
        readable = True
        for piece in self.reader.read(source, number, on_rows):
            readable &= not (piece.is_last and piece.breaches)
            self.report.extend(piece.breaches)
            yield piece
        # A file that cannot be read has no seal for the same reason: one finding is enough.
        if readable and not source.is_journal and self.listing.seal(source.path) == "missing":
            message = "It has no seal, so that nobody can tell whether it is as it was measured."
            self.report.add(Breach(SEALED.id, source.where, message))

    def _add(self, rule: str, message: str, rows: npt.NDArray[np.int64]) -> None:
        files = self.ledger["file"][rows]
        for file in np.unique(files):
            here = rows[files == file]
            names = [name.decode("ascii", "replace") for name in self.ledger["name"][here[:3]].tolist()]
            self.report.add(Breach(rule, self.sources[file].where, message, len(here), names))

    def apply_deep_rules(self) -> None:
        """Loads every module into TVM, and replays the sampled programs of each on it."""
        programs = self._sampled()
        tables = [source for source in self.sources if source.table == "workloads"]
        with (
            ModuleWorker() as worker,
            bar(
                len(self.context.workloads), desc="replaying", unit="workload", enabled=self.progress
            ) as shown,
        ):
            for source in tables:
                for row in self._rows_with_modules(source):
                    sampled = programs.pop(row["workload_id"], [])
                    self.report.extend(check_workload(worker, row, source.where, sampled))
                    shown.update(1)

    def _sampled(self) -> dict[str, list[Sampled]]:
        """The programs to replay, by workload."""
        rows = np.array(sample(self.ledger), np.int64)
        found: dict[str, list[Sampled]] = defaultdict(list)
        starts = np.searchsorted(self.ledger["file"], np.arange(len(self.sources)))
        for file in np.unique(self.ledger["file"][rows]):
            here = rows[self.ledger["file"][rows] == file]
            numbers = tuple((here - starts[file]).tolist())
            fetched = self.reader.fetch(self.sources[file], numbers, _SAMPLED)
            for row in fetched:
                program = Sampled(self.sources[file].where, row["record_id"], row["trace"], row["target"])
                found[row["workload_id"]].append(program)
        return found

    def _rows_with_modules(self, source: Source) -> Iterator[dict[str, Any]]:
        for piece in self.reader.read(source, 0, lambda _: None, as_dicts=True):
            yield from piece.dicts
