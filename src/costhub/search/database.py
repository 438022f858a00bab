"""Provides SearchFolder, SearchDatabase and measured_programs: a search's records, from which it can be continued."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from costhub.dataset.metaschedule.lines import RECORDS_FILE, STORED_FAILURE_S, WORKLOADS_FILE
from costhub.dataset.shards.lock import LOCK, FolderLock
from costhub.dataset.tile_intrinsics import register_tiles_of
from costhub.dataset.trace import brings_code, check_positions
from costhub.dataset.workload import why_refused
from costhub.errors import DataError, WorkloadError, last_line
from costhub.files import open_regular
from costhub.isolation.child import CallFailed, ChildDied, ChildTimeout
from costhub.isolation.limits import FOR_STRANGERS, MAPPED_BYTES_PER_CPU, Limits
from costhub.isolation.tvm_children import tvm_child
from costhub.search.strategies.search_space import DatabaseRecord, read_records

FILES = (WORKLOADS_FILE, RECORDS_FILE)
MOST_FILE_BYTES = 4 << 30
"""Of a file of a search's folder: far more than any search writes."""
MOST_LINE_BYTES = 8 << 20
_PIECE = 1 << 20
_WORKLOADS_S = 600.0
"""Time limit for reading the workloads of a folder, which takes milliseconds for each."""
_OPENING_S, _RECORD_S = 120.0, 0.1
"""Time limit for opening a database, and what each record adds to it, which takes milliseconds."""


def measured_programs(folder: Path) -> int:
    """How many programs the searches in a folder have measured, read without TVM; 0 if there was none.

    Args:
        folder: The folder of `FILES`.

    Raises:
        DataError: Their file cannot be read, is a link, or is larger than any search writes.
    """
    records, count = folder / FILES[1], 0
    if records.is_file():
        with open_regular(records, limit=MOST_FILE_BYTES, follow=False, error=DataError) as file:
            while piece := file.read(_PIECE):
                count += piece.count(b"\n")
    return count


class SearchFolder:
    """The folder of a search, which one process at a time may use.

    Two searches that write to one folder would measure the same programs, and the report of one would replace
    that of the other. The lock ends with `release` or when the process ends, in whatever way.

    Args:
        path: The folder, created if it is missing.

    Raises:
        DataError: Another search uses it; the message has its process id.

    Example:
        >>> import tempfile
        >>> with SearchFolder(Path(tempfile.mkdtemp())) as folder:
        ...     SearchFolder(folder.path)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        costhub.errors.DataError: ... is being written by another process (pid ...); wait for it to end, ...
    """

    def __init__(self, path: Path) -> None:
        self._is_new = not path.exists()
        path.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._lock = FolderLock(path)

    def release(self) -> None:
        """Lets others use the folder. If it was made for a search that wrote nothing, it is removed."""
        with contextlib.suppress(OSError):  # somebody else has put something there
            if self._is_new and os.listdir(self.path) == [LOCK]:
                (self.path / LOCK).unlink()
                self.path.rmdir()
        self._lock.release()

    def __enter__(self) -> SearchFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class SearchDatabase:
    """A ``ms.database.JSONDatabase`` in a folder, readable by stock TVM; created if it is missing.

    A line that an interrupted search left unfinished is dropped, since TVM cannot open such a file. The database is
    first opened in a child process: workloads and traces crash TVM if they are damaged in the right way.

    Args:
        folder: The folder of `FILES`.

    Raises:
        DataError: A workload or a record cannot be read.
        CosthubError: As for `open_database`.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            drop_unfinished_line(folder / name)
            _refuse_other_files(folder / name)
        _try_database(folder)
        self.database = _opened(folder)

    def records(self, mod: Any, target: Any) -> list[DatabaseRecord]:
        """The measured programs of a workload for a target, the fastest first, failures last."""
        workload = self.database.commit_workload(mod)
        return read_records(self.database, target, workload)

    def add(self, mod: Any, candidate: Any, run_s: Sequence[float] | None, target: Any) -> None:
        """Adds one measured candidate; `run_s` is None if it failed."""
        from tvm.s_tir import meta_schedule as ms

        record = ms.database.TuningRecord(
            candidate.sch.trace,
            self.database.commit_workload(mod),
            list(run_s or [STORED_FAILURE_S]),
            target,
            candidate.args_info,
        )
        self.database.commit_tuning_record(record)


def open_database(folder: Path) -> Any:
    """Opens a folder of `FILES` as a ``ms.database.JSONDatabase``, which replays every trace.

    The intrinsics for matrix units that the traces name are registered first (`register_tiles_of`).

    Raises:
        WorkloadError: A trace names tiles that cannot be.
        DataError: A file is not a regular one, TVM cannot open it, or a line is no record, would crash TVM or imports
            code.

    Example:
        >>> import tempfile
        >>> len(open_database(Path(tempfile.mkdtemp())))
        0
    """
    for name in FILES:
        _refuse_other_files(folder / name)
    _refuse_hostile_lines(folder / FILES[1])
    return _opened(folder)


def _opened(folder: Path) -> Any:
    """The database, whose lines have been looked at."""
    from tvm.s_tir import meta_schedule as ms

    register_tiles_of(folder)
    try:
        return ms.database.JSONDatabase(work_dir=os.fspath(folder))
    except Exception as error:
        raise DataError(f"TVM cannot open the database in {folder} ({last_line(error)}). {_DOCTOR}") from error


_DOCTOR = "`costhub doctor` examines the folder; `--fix` writes a copy without such lines."


def _refuse_other_files(path: Path) -> None:
    """Refuses a link, which would be written through, a pipe, which would never end, and a file of any size.

    Raises:
        DataError: The file is not a regular one.
    """
    if path.is_symlink() or path.exists():
        open_regular(path, limit=MOST_FILE_BYTES, follow=False, error=DataError).close()


def _try_database(folder: Path) -> None:
    """Opens a database in a child process, if it holds anything: a schedule may crash TVM, or never end.

    Raises:
        WorkloadError: A trace names tiles that cannot be.
        DataError: A line cannot be read, or TVM crashes on one.
    """
    workloads, records = (folder / name for name in FILES)
    _refuse_hostile_lines(records)
    if not _size(workloads) and not _size(records):
        return
    file, limit_s = workloads, _WORKLOADS_S
    try:
        with tvm_child(limits=_limits()) as child:
            if _size(workloads) and (why := child.call(unreadable_workload, os.fspath(file), timeout_s=limit_s)):
                raise DataError(f"{file} cannot be read ({why}). {_DOCTOR}")
            if _size(records):
                file, limit_s = records, _OPENING_S + measured_programs(folder) * _RECORD_S
                child.call(try_opening, os.fspath(folder), timeout_s=limit_s)
    except (CallFailed, ChildDied, ChildTimeout) as error:
        why = f"TVM takes more than {limit_s:,.0f} s" if isinstance(error, ChildTimeout) else "TVM crashes on one line"
        raise DataError(f"{file} cannot be read ({why}). {_DOCTOR}") from error


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _limits() -> Limits:
    """Those for strangers, and what TVM maps for its threads, one per core, and for records by the thousands."""
    import psutil

    threads = (psutil.cpu_count() or 1) * MAPPED_BYTES_PER_CPU
    return Limits(further_bytes=(FOR_STRANGERS.further_bytes or 0) + threads + psutil.virtual_memory().total // 2)


def try_opening(folder: str) -> None:
    """Opens a database as a search does; call it in a child process, since TVM may crash or never end.

    Raises:
        WorkloadError: A trace names tiles that cannot be.
        DataError: TVM cannot open it.
    """
    _opened(Path(folder))


def unreadable_workload(path: str) -> str:
    """Reads the workloads of a database as TVM does when it opens it; call it in a child process.

    Returns:
        The line of the first one that TVM cannot read, and why; empty if it reads all.
    """
    from tvm.s_tir.meta_schedule.database import Workload

    with open(path, "rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                Workload.from_json(json.loads(line))
            except Exception as error:  # of any kind, from TVM
                return f"line {number}: {last_line(error)}"
    return ""


def _refuse_hostile_lines(records: Path) -> None:
    """Refuses a database with a line that crashes TVM, or whose programs run more than what they compute.

    Raises:
        DataError: A line is blank, is not a record, or has a target with options of LLVM or a trace that brings code
            or that `check_positions` rejects.
    """
    if not records.exists():
        return
    with open_regular(records, limit=MOST_FILE_BYTES, follow=False, error=DataError) as lines:
        number = 0
        while line := lines.readline(MOST_LINE_BYTES + 1):
            number += 1
            if why := _why_hostile(line):
                raise DataError(f"Line {number} of {records} {why}. {_DOCTOR}")


def _why_hostile(line: bytes) -> str:
    """What is wrong with a record; empty for one that TVM may read."""
    if len(line) > MOST_LINE_BYTES:
        return f"is longer than {MOST_LINE_BYTES:,} bytes"
    try:
        record = json.loads(line)[1]
        (instructions, decisions), target = record[0], record[2]
    except (ValueError, LookupError, TypeError, RecursionError):
        return "is not JSON, or is no record"  # TVM reads some of what Python refuses, and crashes on some of it.
    if why := why_refused(target):
        return f"has a target with {why}"
    if brings_code(instructions):
        return "has a schedule that brings code of its own, which would run here"
    try:
        check_positions(instructions, decisions)
    except WorkloadError as error:
        return f"has a schedule that TVM must not read: {error}"
    return ""


def drop_unfinished_line(path: Path) -> None:
    r"""Truncates a file of lines after the last complete one; a missing file stays missing.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "lines")
        >>> _ = path.write_text("[1]\n[2")
        >>> drop_unfinished_line(path)
        >>> path.read_text()
        '[1]\n'
    """
    if not path.is_file() or path.is_symlink():
        return  # `open_database` says what else it is
    with path.open("r+b") as file:
        end = size = file.seek(0, os.SEEK_END)
        if size > MOST_FILE_BYTES:
            return
        while end:
            start = max(0, end - _PIECE)
            file.seek(start)
            whole = file.read(end - start).rfind(b"\n") + 1
            if whole:
                end = start + whole
                break
            end = start
        if end < size:
            file.truncate(end)
