"""Provides the journal: rows as JSON lines, appended one by one before they are compacted into a shard."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from costhub.dataset.schema import TIMESTAMP, columns_of, table_from_rows
from costhub.errors import DataError
from costhub.files import read_regular

JOURNAL = "journal.jsonl"
MOST_JOURNAL_BYTES = 256 << 20
"""A writer makes a shard of 2,000 rows, about 10 MB in a journal."""
_TIMESTAMPS = tuple(c.name for c in columns_of("measurements") if c.type == TIMESTAMP)

JournalRow = dict[str, Any]


def encode_row(row: Mapping[str, Any]) -> bytes:
    """Encodes a measurement as one line, after checking that it fits the schema.

    Raises:
        DataError: The row does not fit.
    """
    # Arrow's round trip turns numpy scalars and the like into plain values, as a shard would.
    plain = table_from_rows("measurements", [row]).to_pylist()[0]
    for name in _TIMESTAMPS:
        if plain[name] is not None:
            plain[name] = plain[name].isoformat()
    return json.dumps(plain, separators=(",", ":")).encode() + b"\n"


def read_journal(path: Path, *, follow: bool = True) -> tuple[list[JournalRow], int]:
    """Reads the rows of a journal; leaves out a torn last line, whose row was in flight.

    Args:
        path: The journal; a missing one has no rows.
        follow: Whether it may be a link, like all files in the cache of huggingface_hub.

    Returns:
        The rows, and the number of bytes they take in the file.

    Raises:
        DataError: A line in the middle is not a row, or it is too large or not a regular file; it stays unchanged.
    """
    try:
        content = read_regular(path, limit=MOST_JOURNAL_BYTES, follow=follow, error=DataError)
    except DataError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return [], 0
        raise
    # A row is acknowledged once its newline is written: anything after the last newline is a torn row.
    size = content.rfind(b"\n") + 1
    lines = content[:size].split(b"\n")[:-1]
    rows = [_parse(path, number, line) for number, line in enumerate(lines, start=1)]
    _check(path, rows)
    return rows, size


def _parse(path: Path, number: int, line: bytes) -> JournalRow:
    try:
        row = json.loads(line)
        if not isinstance(row, dict):
            raise TypeError("it is not an object")
        for name in _TIMESTAMPS:
            if row.get(name) is not None:
                row[name] = datetime.fromisoformat(row[name])
    except (ValueError, TypeError, RecursionError) as error:
        raise _bad_line(path, number, error) from error
    return row


def _check(path: Path, rows: list[JournalRow]) -> None:
    """Checks all rows at once, which is fast, and one by one only to find the one that does not fit."""
    try:
        table_from_rows("measurements", rows)
    except DataError:
        for number, row in enumerate(rows, start=1):
            try:
                table_from_rows("measurements", [row])
            except DataError as error:
                raise _bad_line(path, number, error) from error


def _bad_line(path: Path, number: int, error: Exception) -> DataError:
    return DataError(
        f"Line {number} of {path} is not a measurement ({error}); nothing was changed. "
        f"Repair or remove that line, or update costhub if a newer one wrote it, then try again."
    )


class Journal:
    """A journal opened for appending rows; the caller must hold the folder's lock."""

    def __init__(self, path: Path) -> None:
        """Opens or creates the journal, and truncates a torn last line.

        Raises:
            DataError: A line in the middle is not a row.
        """
        # Never through a link: rows would be appended to whatever it points to.
        self.rows, size = read_journal(path, follow=False)
        self._path = path
        # As open() would: a group that may write the folder goes on with the collection of another member.
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o666)
        if os.fstat(self._descriptor).st_size > size:
            os.ftruncate(self._descriptor, size)

    def append(self, row: Mapping[str, Any]) -> None:
        """Appends a row; when this returns, killing the process no longer loses it.

        Raises:
            DataError: The row does not fit the schema, or the disk is full.
        """
        line = encode_row(row)
        size = os.fstat(self._descriptor).st_size
        # Before the write, so that ^C right after it cannot leave a row that is only in the file.
        self.rows.append(dict(row))
        try:
            written = os.write(self._descriptor, line)
            problem = "the disk is full" if written < len(line) else ""
        except OSError as error:
            problem = str(error)
        if problem:
            # Half a line in the middle would make the journal unreadable.
            os.ftruncate(self._descriptor, size)
            self.rows.pop()
            raise DataError(f"The row could not be written to {self._path}: {problem}. Free some space and resume.")

    def clear(self) -> None:
        """Empties the journal, once its rows are in a shard."""
        os.ftruncate(self._descriptor, 0)
        os.fsync(self._descriptor)
        self.rows = []

    def remove(self) -> None:
        """Removes the file once it is empty: other Parquet readers take every file in a folder for a shard."""
        if not self.rows:
            self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Closes the file."""
        os.close(self._descriptor)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
