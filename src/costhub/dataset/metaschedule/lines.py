"""Provides the lines of a database: read one at a time, parsed as records, and tallied in an ImportReport."""

from __future__ import annotations

import codecs
import gzip
import hashlib
import io
import json
import lzma
import math
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from costhub.dataset.schema import MOST_TARGET_BYTES
from costhub.errors import DataError
from costhub.files import open_regular
from costhub.terminal_text import Printed, clean, counted

WORKLOADS_FILE = "database_workload.json"
RECORDS_FILE = "database_tuning_record.json"
BLANK = "the line is blank"
MOST_FILE_BYTES = 64 << 30
"""All of TenSet's records take less; an untrusted sparse file may claim any size."""
_SKIP_BYTES = 1 << 20
MOST_BATCH_BYTES = 64 << 20
MOST_SKIPPED_BYTES = 1 << 30
"""Of a line that is too long; behind one that goes on, nothing is read. A file of holes is one such line."""
EXPANSION = 200
"""Bytes that a byte of an archive may stand for, beside `TEXT_ANYWAY`."""
LEAST_LINE_BYTES = 8
"""Of an archive for each of its lines, beside `_LINES_ANYWAY`: a record alone takes more."""
TEXT_ANYWAY, _LINES_ANYWAY = 1 << 30, 1_000_000
"""What even a small archive may stand for."""
MOST_EMPTY_STREAMS = 1000
"""Streams in a row that hold no text: each takes 32 bytes of a file, and longer to read than as much text."""
MOST_XZ_MEMORY = 256 << 20
"""`xz -9` needs 65 MiB to decompress."""
STORED_FAILURE_S = 1e10
"""The seconds that MetaSchedule's AddToDatabase stores for a program that did not build or run."""
FAILED_FROM_S = 1e9
"""A program that is read from a database with as many seconds, or more, counts as failed."""
UNMEASURED_S = 2e9
"""Seconds that `costhub compile` stores for an unmeasured program. TVM uses such a record if a workload has
no other, and prefers any measured one; costhub does not count it as a measurement."""
UNMEASURED = "its program was never measured: `costhub compile` chose it"
NO_REASON = "The program failed to build or to run; MetaSchedule does not record the reason."
Arguments = tuple[tuple[str, tuple[int, ...]], ...]
MOST_REFUSALS = 1000
_MOST_EXTENT = 1 << 40
_MOST_DTYPE = 40
_MOST_AXES = 64


@dataclass(frozen=True)
class Line:
    """One line of a file, or the reason it cannot be used."""

    number: int
    """Line number, 1 for the first."""
    text: bytes
    why: str = ""
    """Why it cannot be used; empty for a good line."""
    position: int = 0
    """Bytes of the file on disk that were read so far."""
    has_mark: bool = False
    """Whether a byte order mark stood before it, as some editors write one at the start of a file."""


def batches(lines: Iterable[Line], count: int, *, most_bytes: int = MOST_BATCH_BYTES) -> Iterator[list[Line]]:
    """Lines in batches of `count`, or of fewer whose texts take more than `most_bytes`.

    Args:
        lines: The lines.
        count: Lines in a batch.
        most_bytes: Bytes after which a batch ends; each line may have megabytes.

    Example:
        >>> [len(batch) for batch in batches([Line(i, b"12345") for i in range(5)], 4, most_bytes=12)]
        [3, 2]
    """
    batch: list[Line] = []
    held = 0
    for line in lines:
        batch.append(line)
        held += len(line.text)
        if len(batch) == count or held > most_bytes:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


def database_file(folder: Path, name: str) -> Path | None:
    """The path of `name` in `folder`, or its gzipped form; None if neither exists."""
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def read_lines(path: Path, *, most_bytes: int) -> Iterator[Line]:
    """Yields the lines; one that is too long is reported and skipped, not read.

    Args:
        path: A text file, compressed if its name ends in ``.gz`` or ``.xz``.
        most_bytes: Maximum length of a line.

    Raises:
        DataError: The file cannot be opened, or is larger than any database.
    """
    with ExitStack() as held:
        raw: IO[bytes] = held.enter_context(open_regular(path, limit=MOST_FILE_BYTES, error=DataError))
        # The decompressor gets the open file, so that progress can be computed from the bytes on disk.
        opened = _DECOMPRESSORS.get(path.suffix)
        file = held.enter_context(opened(raw)) if opened else raw
        size, number, read = os.fstat(raw.fileno()).st_size, 0, 0
        while True:
            number += 1
            try:
                text, skipped = _next_line(file, most_bytes)
            except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
                yield Line(number, b"", f"the file is damaged from here on ({error})", raw.tell())
                return
            if not text:
                return
            read += len(text) + skipped
            if skipped > MOST_SKIPPED_BYTES or (opened and _is_bomb(size, read, number)):
                yield Line(number, b"", "from here on, the file holds far more than a database of its size", raw.tell())
                return
            has_mark = number == 1 and text.startswith(codecs.BOM_UTF8)
            if len(text.rstrip(b"\r\n")) > most_bytes:
                yield Line(number, b"", f"the line is longer than {most_bytes:,} bytes", raw.tell(), has_mark)
            else:
                text = text.removeprefix(codecs.BOM_UTF8 if has_mark else b"").strip()
                yield Line(number, text, "" if text else BLANK, raw.tell(), has_mark)


class _XzReader(io.RawIOBase):
    """Decompresses xz with bounded memory: `lzma.open` grants a file any window it asks for, up to 4 GiB."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw, self._left, self._decoder = raw, b"", _xz_decoder()
        self._empty = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        while True:
            if self._decoder.eof:
                # Streams may follow one another, with zeros between them.
                self._left = self._decoder.unused_data.lstrip(b"\0") or self._raw.read(_SKIP_BYTES).lstrip(b"\0")
                if not self._left:
                    return 0
                self._empty += 1
                if self._empty > MOST_EMPTY_STREAMS:
                    raise EOFError(f"more than {MOST_EMPTY_STREAMS:,} compressed streams hold nothing")
                self._decoder = _xz_decoder()
            elif self._decoder.needs_input and not self._left:
                self._left = self._raw.read(_SKIP_BYTES)
                if not self._left:
                    raise EOFError("the compressed data end before their end mark")
            text = self._decoder.decompress(self._left, max_length=len(view))
            self._left = b""
            if text:
                self._empty = 0
                view[: len(text)] = text
                return len(text)


def _xz_decoder() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MOST_XZ_MEMORY)


_DECOMPRESSORS: dict[str, Callable[[IO[bytes]], Any]] = {
    ".gz": gzip.open,
    ".xz": lambda raw: io.BufferedReader(_XzReader(raw), _SKIP_BYTES),
}


def _is_bomb(size: int, read: int, lines: int) -> bool:
    """Whether an archive of some bytes stands for more text, or more lines, than any database of that size."""
    return read > TEXT_ANYWAY + EXPANSION * size or lines > _LINES_ANYWAY + size // LEAST_LINE_BYTES


def _next_line(file: IO[bytes], most_bytes: int) -> tuple[bytes, int]:
    """The next line, empty at the end of the file and cut if it is too long, and how many bytes of it were skipped."""
    text = file.readline(most_bytes + 1)
    rest, skipped = text, 0
    if len(text.rstrip(b"\r\n")) > most_bytes:
        while rest and not rest.endswith(b"\n") and skipped <= MOST_SKIPPED_BYTES:
            rest = file.readline(_SKIP_BYTES)
            skipped += len(rest)
    return text, skipped


@dataclass(frozen=True)
class Record:
    """A measured program of a database."""

    workload: int
    """The number of its workload in the database, from 0."""
    trace: str
    """Instructions and decisions as JSON, in the form of the TVM that wrote them."""
    run_s: tuple[float, ...]
    """Seconds of every repeat; empty if the program failed."""
    target: str
    """The target as JSON, in the form of the TVM that wrote it."""
    arguments: Arguments | None
    """(dtype, shape) of each argument; None if the record lacks them."""
    status: str = "ok"
    """Outcome of the program."""
    error: str | None = None
    """Why it failed."""
    measured_at: datetime | None = None
    """Time of measurement, if the record gives it."""
    was_measured: bool = True
    """Whether anybody measured the program; if not, it has no times and did not fail either."""

    def record_id(self, device_id: str, workload_id: str) -> str:
        """64 hex digits: the same record of the same device always gets the same id.

        Example:
            >>> Record(0, "[[],[]]", (1e-3,), "{}", None).record_id("cpu0", "w0")[:8]
            'b086c89a'
        """
        identity = [device_id, workload_id, self.target, self.trace, self.run_s]
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()


def parse_record(line: bytes, *, unmeasured: bool = False) -> Record:
    """Reads a line ``[workload, [[instructions, decisions], run_secs, target, arguments]]``.

    Args:
        line: The line.
        unmeasured: Whether to read records of programs that were never measured (`UNMEASURED_S`), too.

    Raises:
        DataError: The line is not such a record, or its times are not positive numbers.
    """
    try:
        workload, ((instructions, decisions), run_secs, target, arguments) = _parse_json(line)
    except (ValueError, TypeError) as error:
        raise DataError("it is not [workload, [trace, run_secs, target, arguments]]") from error
    if isinstance(workload, bool) or not isinstance(workload, int) or workload < 0:
        raise DataError(f"its workload {workload!r:.40} is not a whole number, 0 or more")
    if not (isinstance(instructions, list) and isinstance(decisions, list)):
        raise DataError("its trace is not a pair of instructions and decisions")
    target_text = _dump_json(target)
    if len(target_text) > MOST_TARGET_BYTES:
        raise DataError(f"its target has more than {MOST_TARGET_BYTES:,} bytes")
    was_measured = run_secs != [UNMEASURED_S]
    if not was_measured and not unmeasured:
        raise DataError(UNMEASURED)
    run_s = _run_s(run_secs)
    return Record(
        workload,
        _dump_json([instructions, decisions]),
        run_s,
        target_text,
        _arguments(arguments),
        status="ok" if run_s else "unknown_error",
        error=None if run_s else NO_REASON,
        was_measured=was_measured,
    )


def _parse_json(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DataError("it is not JSON; perhaps it was cut off") from error


def _dump_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _run_s(run_secs: Any) -> tuple[float, ...]:
    """The times; empty for a failed program."""
    if run_secs is None:
        return ()
    if not isinstance(run_secs, list) or not all(type(s) in (int, float) for s in run_secs):
        raise DataError(f"its run_secs {run_secs!r:.60} are not a list of numbers")
    if not run_secs or not all(0 < s < math.inf for s in run_secs):
        raise DataError(f"its run_secs {run_secs!r:.60} are not all positive and finite")
    return () if max(run_secs) >= FAILED_FROM_S else tuple(map(float, run_secs))


def _arguments(value: Any) -> Arguments | None:
    if value is None:
        return None
    try:
        found = tuple((str(dtype)[:_MOST_DTYPE], _shape(sizes)) for _, dtype, sizes in value)
    except (ValueError, TypeError, OverflowError, LookupError) as error:
        raise DataError('its arguments are not like ["TENSOR", "float32", [64, 64]]') from error
    return found


def _shape(sizes: Any) -> tuple[int, ...]:
    if not isinstance(sizes, list) or len(sizes) > _MOST_AXES:
        raise ValueError(sizes)
    return tuple(map(_extent, sizes))


def _extent(value: Any) -> int:
    """A size of an argument; the product of a million huge ones would take days."""
    if not 0 <= int(value) < _MOST_EXTENT:
        raise ValueError(f"{value!r:.60} is not the size of an array")
    return int(value)


@dataclass(frozen=True)
class RefusedLine:
    """A line that was not imported."""

    file: str
    line: int
    """Line number, 1 for the first."""
    why: str


@dataclass(repr=False)
class ImportReport(Printed):
    """Counts of an import, and the lines that it rejected; `print` shows them as `costhub import` does."""

    workloads: int = 0
    """Workloads that could be read, each distinct one once."""
    ok: int = 0
    """Added measurements that ran."""
    failed: int = 0
    """Added measurements of programs that failed on the device."""
    known: int = 0
    """Records already in the folder from an earlier or interrupted import."""
    unchanged: dict[str, list[str | None]] = field(default_factory=dict)
    """`licence` or `contributor`, where one was given but known records have another -> their values."""
    device_keeps: list[str] = field(default_factory=list)
    """Columns in which the folder describes the device otherwise than the import, and stays as it is."""
    duplicates: int = 0
    """Duplicate records in the database."""
    refused: int = 0
    """Lines that could not be imported."""
    redone: int = 0
    """Added measurements whose post-processing was redone, because the recorded one did not replay."""
    contradictions: int = 0
    """Records whose time differs by more than twofold from an earlier one of the same program."""
    seconds: float = field(default=0.0, compare=False)
    """How long the import took."""
    peak_bytes: int = field(default=0, compare=False)
    """Peak memory of a single process, this one or a child; 0 if the system does not report it."""
    reasons: dict[str, int] = field(default_factory=dict)
    """Number of rejected lines for each reason."""
    refusals: list[RefusedLine] = field(default_factory=list)
    """The first 1,000 rejected lines."""

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    @property
    def kept(self) -> int:
        """Records that the folder now holds."""
        return self.ok + self.failed + self.known

    @property
    def lines(self) -> int:
        """Lines that were read, records and others."""
        return self.kept + self.duplicates + self.refused

    def refuse(self, file: str, line: int, why: str) -> None:
        """Counts a line that is not imported, and records its number and the reason."""
        self.refused += 1
        why = clean(why, 300)  # it may quote the line
        reason = why if why in self.reasons or len(self.reasons) < MOST_REFUSALS else "other reasons"
        self.reasons[reason] = self.reasons.get(reason, 0) + 1
        if len(self.refusals) < MOST_REFUSALS:
            self.refusals.append(RefusedLine(file, line, why))

    def sentences(self) -> list[str]:
        """The report as readable sentences.

        Example:
            >>> ImportReport(workloads=2, ok=9, failed=1).sentences()
            ['10 measurements of 2 workloads were added: 9 ran, 1 failed on the device.']
        """
        count = self.ok + self.failed
        added = f"{'was' if count == 1 else 'were'} added"
        lines = [
            f"{counted(count, 'measurement')} of {counted(self.workloads, 'workload')} {added}: "
            f"{self.ok:,} ran, {self.failed:,} failed on the device."
        ]
        if self.redone:
            lines.append(f"TVM 0.27 redid the post-processing of {self.redone:,}.")
        if self.known:
            lines.append(f"{self.known:,} records were in the folder already{self._unchanged()}.")
        if self.device_keeps:
            lines.append(
                f"The folder keeps what it says of the device in {self._kept_columns()}, which differs from what was "
                "given; `DataFolder.put_device` replaces the row."
            )
        if self.duplicates:
            lines.append(f"{self.duplicates:,} lines are copies of earlier ones and were left out.")
        if self.contradictions:
            lines.append(
                f"{self.contradictions:,} records took more than twice or less than half the time of an earlier record "
                "of the same program; perhaps two logs use one key for different computations."
            )
        if self.refused:
            lines.append(f"{self.refused:,} lines were refused:")
            lines += [self._example(why, count) for why, count in Counter(self.reasons).most_common(10)]
        if self.seconds:
            memory = f", with at most {self.peak_bytes / 2**20:,.0f} MiB in one process" if self.peak_bytes else ""
            lines.append(f"It took {self.seconds:,.0f} s, {self.lines / self.seconds:,.0f} lines a second{memory}.")
        return lines

    def _unchanged(self) -> str:
        stays = [
            f"their {name} stays {' or '.join(repr(clean(value, 60)) if value else 'empty' for value in values)}"
            for name, values in self.unchanged.items()
        ]
        return f"; {' and '.join(stays)}. Import into a new folder to set it" if stays else ""

    def _kept_columns(self) -> str:
        shown, more = self.device_keeps[:5], len(self.device_keeps) - 5
        return ", ".join(shown) + (f" and {counted(more, 'other column')}" if more > 0 else "")

    def _example(self, why: str, count: int) -> str:
        first = next((r for r in self.refusals if r.why == why), None)
        where = f", first {first.file} line {first.line}" if first else ""
        return f"  {count:,} because {why}{where}."
