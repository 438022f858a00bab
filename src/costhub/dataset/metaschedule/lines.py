"""Provides read_lines: the lines of a plain or gzipped file, one at a time, whatever is wrong with some."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from costhub.errors import DataError

WORKLOADS_FILE = "database_workload.json"
RECORDS_FILE = "database_tuning_record.json"
BLANK = "the line is blank"

_SKIP_BYTES = 1 << 20


@dataclass(frozen=True)
class Line:
    """One line of a file, or what is wrong with it."""

    number: int
    """1 for the first."""
    text: bytes
    why: str = ""
    """Why it cannot be used; empty for a line that can."""
    position: int = 0
    """Bytes of the file, as it lies on the disk, that were read so far."""


def database_file(folder: Path, name: str) -> Path | None:
    """The path of `name` in `folder`, or of its gzipped form; None where neither is there."""
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def read_lines(path: Path, *, most_bytes: int) -> Iterator[Line]:
    """Yields the lines that hold anything; one that is too long is named and skipped, not read.

    Args:
        path: A text file, gzipped where its name ends in ``.gz``.
        most_bytes: The longest line to take.

    Raises:
        DataError: The file cannot be opened.
    """
    with ExitStack() as held:
        try:
            raw: IO[bytes] = held.enter_context(path.open("rb"))
        except OSError as error:
            raise DataError(f"{path} cannot be read ({error.strerror}); check its permissions.") from error
        # gzip is given the open file so that progress can be told from the bytes on the disk.
        file = held.enter_context(gzip.open(raw)) if path.suffix == ".gz" else raw
        number = 0
        while True:
            number += 1
            try:
                text, too_long = _next_line(file, most_bytes)
            except (EOFError, OSError, zlib.error) as error:
                yield Line(number, b"", f"the file is damaged from here on ({error})", raw.tell())
                return
            if not text:
                return
            if too_long:
                yield Line(number, b"", f"the line is longer than {most_bytes:,} bytes", raw.tell())
            else:
                yield Line(number, text.strip(), "" if text.strip() else BLANK, raw.tell())


def _next_line(file: IO[bytes] | gzip.GzipFile, most_bytes: int) -> tuple[bytes, bool]:
    """The next line, empty at the end of the file, and whether it is cut because it is too long."""
    text = file.readline(most_bytes + 1)
    too_long = len(text.rstrip(b"\r\n")) > most_bytes
    rest = text
    while too_long and rest and not rest.endswith(b"\n"):
        rest = file.readline(_SKIP_BYTES)
    return text, too_long
