"""Provides check_folder: checks a data folder against every rule."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from costhub.dataset.check.child import (
    LIMITS,
    FileChunk,
    open_file,
    read_chunk,
    read_rows,
    seal_of,
    set_context,
    size_of,
)
from costhub.dataset.check.deep import SampledProgram, check_workload, sample_programs
from costhub.dataset.check.files import (
    DISTINCT,
    MOST_ROWS_IN_ALL,
    READABLE,
    REGULAR,
    SEALED,
    SIZE,
    UNCHANGED,
    FolderRule,
    Listing,
    TableFile,
    equal_but_for_case,
)
from costhub.dataset.check.identities import KEYS
from costhub.dataset.check.measurements import ENTRY, CheckContext, Ledger, LedgerRule
from costhub.dataset.check.rule import Breach, Finding, Report
from costhub.dataset.check.rules import RULES
from costhub.dataset.shards.shard import SealState
from costhub.errors import DataError
from costhub.isolation.child import Child, ChildDied, ChildTimeout
from costhub.isolation.tvm_children import tvm_child
from costhub.progress import bar

FILE_TIMEOUT_S = 10.0
MEGABYTE_TIMEOUT_S = 10.0
"""A megabyte holds some 5,000 rows, which take half a second on an idle core."""
Result = TypeVar("Result")
_SAMPLED = ("record_id", "workload_id", "trace", "target")


class Reader:
    """Reads files piece by piece; a file that kills or stalls the child is a breach, and affects no other file.

    Can be used for several checks in turn with the same child. Afterwards the child ends and is not reused: what it
    has read in one folder must not affect its results for another.
    """

    def __init__(self) -> None:
        self._child = Child(prepare=partial(set_context, CheckContext()), limits=LIMITS, is_shared=False)

    def know(self, context: CheckContext) -> None:
        """Sets the devices and workloads that the rules know."""
        self._child.prepare(partial(set_context, context))

    def read(
        self, source: TableFile, number: int, on_rows: Callable[[int], object], *, as_dicts: bool = False
    ) -> Iterator[FileChunk]:
        """Yields the results of reading a file, in pieces.

        Args:
            source: The file.
            number: Its number, for the ledger.
            on_rows: Called with the number of rows of every piece.
            as_dicts: Return the rows themselves, and apply no rule.

        Raises:
            MeasureError: The child process cannot be started.
        """
        left_s = time_limit_s(source)

        def timed(function: Callable[..., FileChunk], *args: Any) -> FileChunk:
            nonlocal left_s
            begun = time.monotonic()
            found = self._chunk(source, left_s, function, *args)
            left_s -= time.monotonic() - begun  # time spent on the rows between two pieces does not count
            return found

        chunk = timed(open_file, source, number, as_dicts)
        yield chunk
        while not chunk.is_last:
            chunk = timed(read_chunk)
            on_rows(chunk.rows)
            yield chunk

    def seal(self, source: TableFile) -> SealState | None:
        """The state of a shard's seal; None if it cannot be read, which `read` reports as well."""
        return self._call_or_none(seal_of, source)

    def size(self, source: TableFile) -> tuple[int, int]:
        """Rows of a shard and its decompressed bytes; zeros if it cannot be read."""
        return self._call_or_none(size_of, source) or (0, 0)

    def _call_or_none(self, function: Callable[[TableFile], Result], source: TableFile) -> Result | None:
        try:
            return self._child.call(function, source, timeout_s=time_limit_s(source))
        except (ChildDied, ChildTimeout):
            return None

    def fetch(self, source: TableFile, rows: tuple[int, ...], columns: tuple[str, ...]) -> list[dict[str, Any]]:
        """Some columns of some rows of a file, in order; empty if it cannot be read."""
        try:
            return self._child.call(read_rows, source, rows, columns, timeout_s=time_limit_s(source))
        except (ChildDied, ChildTimeout):
            return []

    def _chunk(self, source: TableFile, left_s: float, function: Callable[..., FileChunk], *args: Any) -> FileChunk:
        try:
            return self._child.call(function, *args, timeout_s=max(0.0, left_s))
        except ChildDied as error:
            message = f"The process that read it died: {error}"
        except ChildTimeout:
            message = f"Reading it took more than {time_limit_s(source):,.0f} s."
        return FileChunk(breaches=[Breach(READABLE.id, source.where, message)], is_last=True)

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.close()


def time_limit_s(source: TableFile) -> float:
    """Seconds that reading a file may take."""
    return FILE_TIMEOUT_S + MEGABYTE_TIMEOUT_S * source.path.stat().st_size / 1e6


def check_folder(
    path: str | Path, *, deep: bool = False, progress: bool = True, reader: Reader | None = None
) -> list[Finding]:
    """Checks a data folder against every rule, in one pass over its rows.

    Files are opened in a child process with limits on memory and time: one that brings it down is a finding.

    Args:
        path: The data folder.
        deep: Also apply the rules that load every module into TVM and replay a sample of the traces.
        progress: Show a progress bar if stderr is a terminal.
        reader: The reader that opens the files; by default a new one.

    Returns:
        The findings, by rule; empty if the folder is clean.

    Raises:
        DataError: `path` is not a data folder, or another program changed it during the check.
        MeasureError: A child process cannot be started.
    """
    if reader is None:
        with Reader() as own:
            return check_folder(path, deep=deep, progress=progress, reader=own)
    check = _Check(reader, Listing(path), progress=progress)
    try:
        check.apply_folder_rules()
        check.look_at_seals()
        check.read_tables()
        check.read_measurements()
        if deep:
            check.apply_deep_rules()
    except FileNotFoundError as error:
        raise DataError(
            f"{error.filename} disappeared during the check of {path}; check again when nothing writes there."
        ) from error
    return check.report.findings()


class _Check:
    """One check of one folder."""

    def __init__(self, reader: Reader, listing: Listing, *, progress: bool) -> None:
        self.reader, self.listing, self.progress = reader, listing, progress
        self.report = Report(RULES)
        self.context = CheckContext()
        self.sources: list[TableFile] = []
        self.unsealed: set[str] = set()
        self.room = dict(MOST_ROWS_IN_ALL)
        self.ledger = Ledger(np.zeros(0, ENTRY), ())

    def apply_folder_rules(self) -> None:
        """Looks at names, kinds and sizes; files that are too large are not opened later."""
        unopened = set()
        for rule in RULES.values():
            if isinstance(rule, FolderRule):
                for where, message in rule.find(self.listing):
                    self.report.add(Breach(rule.id, where, message))
                    if rule.id in (REGULAR.id, SIZE.id):
                        unopened.add(where)
        self.sources = [source for source in self.listing.sources() if source.where not in unopened]

    def look_at_seals(self) -> None:
        """Hashes every shard; shards with a broken seal are not parsed later."""
        broken = set()
        for source in self.sources:
            seal = "sealed" if source.is_journal else self.reader.seal(source)
            if seal == "broken":
                message = "It has changed since it was written: its hash differs from the one in its seal."
                self.report.add(Breach(UNCHANGED.id, source.where, message))
                broken.add(source.where)
            elif seal == "missing":
                self.unsealed.add(source.where)
        self.sources = [source for source in self.sources if source.where not in broken]

    def read_tables(self) -> None:
        """Reads devices and workloads into the context of the rules on measurements."""
        self.reader.know(self.context)
        keys: dict[str, Counter[str]] = {"devices": Counter(), "workloads": Counter()}
        for number, source in enumerate(self.sources):
            if source.table == "measurements":
                continue
            for piece in self._read(source, number, lambda _: None):
                rows: list[tuple[str, Any]] = [(row["device_id"], row) for row in piece.devices]
                rows += [(facts.workload_id, facts) for facts in piece.workloads]
                described: dict[str, Any] = getattr(self.context, source.table)
                for key, row in rows:
                    keys[source.table][key] += 1
                    described.setdefault(key, row)
        for table, counts in keys.items():
            doubled = [key for key, count in counts.items() if count > 1]
            if doubled:
                message = f"the key occurs more than once in the table {table}."
                self.report.add(Breach(KEYS.id, table, message, len(doubled), doubled[:3]))
            self._compare_names(table, counts)
        self._compare_names("workloads", [facts.name for facts in self.context.workloads.values()])
        self.reader.know(self.context)

    def _compare_names(self, table: str, names: Iterable[str]) -> None:
        alike = equal_but_for_case(names)
        if alike:
            message = f"names in the table {table} differ by case only."
            self.report.add(Breach(DISTINCT.id, table, message, len(alike), alike[:3]))

    def read_measurements(self) -> None:
        """Applies the rules on rows in the child, and rules across rows to the ledger that it returns."""
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

    def _read(self, source: TableFile, number: int, on_rows: Callable[[int], object]) -> Iterator[FileChunk]:
        if self.room[source.table] <= 0:
            most = MOST_ROWS_IN_ALL[source.table]
            message = f"The files before it hold {most:,} rows, the most that a check reads; it was not opened."
            self.report.add(Breach(SIZE.id, source.where, message))
            return
        readable = True
        for place, piece in enumerate(self.reader.read(source, number, on_rows)):
            self.room[source.table] -= piece.rows if place else 0  # the first one only announces their number
            readable &= not (piece.is_last and piece.breaches)
            self.report.extend(piece.breaches)
            yield piece
        # A file that cannot be read has no seal for the same reason: so one finding is enough.
        if readable and source.where in self.unsealed:
            message = "It has no seal, so nobody can tell whether it has changed since it was measured."
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
            tvm_child(is_shared=False) as child,
            bar(len(self.context.workloads), desc="replaying", unit="workload", enabled=self.progress) as shown,
        ):
            for source in tables:
                for row in self._rows_with_modules(source):
                    sampled = programs.pop(row["workload_id"], [])
                    self.report.extend(check_workload(child, row, source.where, sampled))
                    shown.update(1)

    def _sampled(self) -> dict[str, list[SampledProgram]]:
        """The programs to replay, by workload."""
        rows = np.array(sample_programs(self.ledger), np.int64)
        programs: dict[str, list[SampledProgram]] = defaultdict(list)
        starts = np.searchsorted(self.ledger["file"], np.arange(len(self.sources)))
        for file in np.unique(self.ledger["file"][rows]):
            here = rows[self.ledger["file"][rows] == file]
            numbers = tuple((here - starts[file]).tolist())
            fetched = self.reader.fetch(self.sources[file], numbers, _SAMPLED)
            for row in fetched:
                program = SampledProgram(self.sources[file].where, row["record_id"], row["trace"], row["target"])
                programs[row["workload_id"]].append(program)
        return programs

    def _rows_with_modules(self, source: TableFile) -> Iterator[dict[str, Any]]:
        for piece in self.reader.read(source, 0, lambda _: None, as_dicts=True):
            self.report.extend(piece.breaches)
            yield from piece.dicts
