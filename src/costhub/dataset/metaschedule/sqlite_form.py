"""Provides sqlite_as_json: converts a MetaSchedule database in two SQLite files to the JSON files that TVM writes."""

from __future__ import annotations

import contextlib
import json
import shlex
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from costhub.dataset.metaschedule.lines import MOST_FILE_BYTES, RECORDS_FILE, TEXT_ANYWAY, WORKLOADS_FILE
from costhub.errors import DataError, first_line
from costhub.files import open_regular
from costhub.isolation.child import CallFailed, Child, ChildDied, ChildTimeout
from costhub.isolation.limits import Limits
from costhub.isolation.scratch import ScratchFolder

SQLITE_FILES = {WORKLOADS_FILE: "database_workload.sqlite", RECORDS_FILE: "database_tuning_record.sqlite"}
"""JSON file -> the SQLite file that replaces it, as mshr-h/metaschedule_sqlitedatabase names them."""

_TABLES = {WORKLOADS_FILE: "workload", RECORDS_FILE: "tuning_record"}
_SELECTS = {
    WORKLOADS_FILE: "SELECT shash, mod FROM workload ORDER BY rowid",
    RECORDS_FILE: "SELECT workload_index, trace, run_secs, target, args_info FROM tuning_record ORDER BY rowid",
}
_MOST_VALUE_BYTES = 64 << 20
_EXPANSION = 8
"""Bytes of text that a byte of the file may stand for: six for a letter that JSON escapes, and quotation marks."""
_LIMITS = Limits(further_bytes=2 << 30, cpu_s=1800, file_bytes=64 << 30)
_TIMEOUT_S = 1800.0
# Features that a table of plain values never needs, but that an untrusted file may use.
_SAFETY = ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON", "mmap_size = 0")


def sqlite_files(folder: Path) -> dict[str, Path] | None:
    """The two SQLite files of a database, by the names of the JSON files that they replace; None if one is missing."""
    files = {name: folder / file for name, file in SQLITE_FILES.items()}
    return files if all(file.is_file() for file in files.values()) else None


@contextlib.contextmanager
def sqlite_as_json(files: dict[str, Path]) -> Iterator[dict[str, Path]]:
    """Writes both tables as JSON, in a temporary folder; SQLite reads them in a child process.

    Args:
        files: The result of `sqlite_files`.

    Yields:
        The JSON files, by name.

    Raises:
        DataError: A file is not such a table.
    """
    with (
        ScratchFolder() as scratch,  # which a killed process does not leave behind for ever
        Child(limits=_LIMITS, is_shared=False) as child,
    ):
        for name, file in files.items():
            open_regular(file, limit=MOST_FILE_BYTES, error=DataError).close()
            _refuse_unfinished(Path(file).resolve())
            try:
                child.call(write_json_lines, name, str(file), f"{scratch.path}/{name}", timeout_s=_TIMEOUT_S)
            except (CallFailed, ChildDied, ChildTimeout) as error:
                raise DataError(f"{file} cannot be read as a SQLite database ({first_line(error)}).") from error
        yield {name: scratch.path / name for name in files}


def _refuse_unfinished(file: Path) -> None:
    """Refuses a database that was not closed: a file beside it has some of its rows, or half of a change is in it."""
    for beside in (file.with_name(f"{file.name}-wal"), file.with_name(f"{file.name}-journal")):
        if beside.is_file():
            with beside.open("rb") as opened:
                is_used = any(opened.read(8))  # a journal that is kept after its change begins with zeros
            if is_used:
                raise DataError(
                    f"{file} was not closed: {beside.name} is still beside it. End the search that writes it, open it "
                    f"once with `sqlite3 {shlex.quote(str(file))} 'PRAGMA wal_checkpoint(TRUNCATE)'`, then try again."
                )


def write_json_lines(name: str, source: str, target: str) -> None:
    """Writes a table of a SQLite file as lines of JSON, in the order of its rows; call it in a child process.

    A value that TVM would not write becomes a line that the importer rejects, so that line numbers are kept.

    Args:
        name: The JSON file that `source` replaces.
        source: The SQLite file.
        target: The file to write.

    Raises:
        DataError: `source` is not a SQLite file, lacks the table, or holds far more text than its size allows.
    """
    table = _TABLES[name]
    # Immutable: locks and journals beside it are ignored, and nothing is written.
    address = f"{Path(source).resolve().as_uri()}?mode=ro&immutable=1"
    try:
        with contextlib.closing(sqlite3.connect(address, uri=True)) as database:
            if sys.version_info >= (3, 11):
                database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_VALUE_BYTES)
            for setting in _SAFETY:
                database.execute(f"PRAGMA {setting}")
            kinds = database.execute("SELECT type, sql FROM sqlite_master WHERE name = ?", (table,)).fetchall()
            # A view or virtual table is code by whoever wrote the file.
            if len(kinds) != 1 or kinds[0][0] != "table" or "virtual" in str(kinds[0][1]).lower():
                raise DataError(f"{source} has no table {table!r}, which a MetaSchedule database in SQLite has.")
            # Columns 2 and 3 of these kinds are computed as they are read, by an expression of whoever wrote the file.
            columns = database.execute(f"PRAGMA table_xinfo({table})").fetchall()
            if any(hidden in (2, 3) for *_, hidden in columns):
                raise DataError(f"The table {table!r} of {source} has computed columns, which no such database has.")
            rows = database.execute(_SELECTS[name])
            left = TEXT_ANYWAY + _EXPANSION * _stored_bytes(Path(source))
            with open(target, "x", encoding="utf-8") as file:
                for row in rows:
                    left -= _write_line(file, row)
                    if left < 0:  # SQLite holds a value of zeros in a few bytes, and joins pages in circles
                        raise DataError(f"{source} holds far more than a database of its size.")
    except (sqlite3.Error, UnicodeDecodeError, MemoryError) as error:  # Python cannot decode every message of SQLite
        raise DataError(f"{source} cannot be read as a SQLite database ({first_line(error)}).") from error


def _stored_bytes(source: Path) -> int:
    """The size of a file without its holes; a file system that compresses may store eight bytes in one."""
    found = source.stat()
    return min(found.st_size, 8 * 512 * found.st_blocks)


def _write_line(file: IO[str], row: tuple[Any, ...]) -> int:
    """Writes a row, and returns its length."""
    try:
        number, *texts = row
        if len(texts) == 1:
            line = json.dumps([str(number), str(texts[0])])
        else:
            line = json.dumps([number, [json.loads(text) for text in texts]])
    except (TypeError, ValueError, RecursionError):
        line = "null"
    return file.write(f"{line}\n")
