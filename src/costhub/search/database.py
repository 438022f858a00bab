"""Provides SearchFolder, SearchDatabase and measured_programs: a search's records, from which it can be continued."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from costhub.dataset.shards.lock import FolderLock
from costhub.dataset.tile_intrinsics import register_tiles_of
from costhub.dataset.trace import imports_code
from costhub.errors import DataError
from costhub.search.strategies.search_space import FAILED_S, DatabaseRecord, read_records

FILES = ("database_workload.json", "database_tuning_record.json")


def measured_programs(folder: Path) -> int:
    """How many programs the searches in a folder have measured, read without TVM; 0 if there was none.

    Args:
        folder: The folder of `FILES`.

    Raises:
        OSError: Their file cannot be read.
    """
    records = folder / FILES[1]
    return records.read_bytes().count(b"\n") if records.is_file() else 0


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
        path.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._lock = FolderLock(path)

    def release(self) -> None:
        """Lets others use the folder."""
        self._lock.release()

    def __enter__(self) -> SearchFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class SearchDatabase:
    """A ``ms.database.JSONDatabase`` in a folder, readable by stock TVM; created if it is missing.

    A line that an interrupted search left unfinished is dropped, since TVM cannot open such a file.

    Args:
        folder: The folder of `FILES`.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            drop_unfinished_line(folder / name)
        self.database = open_database(folder)

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
            list(run_s or [FAILED_S]),
            target,
            candidate.args_info,
        )
        self.database.commit_tuning_record(record)


def open_database(folder: Path) -> Any:
    """Opens a folder of `FILES` as a ``ms.database.JSONDatabase``, which replays every trace.

    The intrinsics for matrix units that the traces name are registered first (`register_tiles_of`).

    Raises:
        WorkloadError: A trace names tiles that cannot be.
        DataError: A trace imports code.

    Example:
        >>> import tempfile
        >>> len(open_database(Path(tempfile.mkdtemp())))
        0
    """
    from tvm.s_tir import meta_schedule as ms

    _refuse_code(folder / FILES[1])
    register_tiles_of(folder)
    return ms.database.JSONDatabase(work_dir=os.fspath(folder))


def _refuse_code(records: Path) -> None:
    """Refuses a database with a trace whose programs run more than what they compute (`imports_code`)."""
    if not records.exists():
        return
    with records.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            # Parsing takes longer than reading; a key may be written with escapes.
            if (b"pragma_" in line or b"\\u" in line) and _imports_code(line):
                raise DataError(
                    f"Line {number} of {records} is not JSON, or has a schedule that imports code, which would run "
                    "here. `costhub doctor` examines the folder; `--fix` writes a copy without such lines."
                )


def _imports_code(line: bytes) -> bool:
    try:
        return imports_code(json.loads(line)[1][0][0])
    except (ValueError, LookupError, TypeError, RecursionError):
        return True  # TVM reads some of what Python refuses.


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
    if not path.exists():
        return
    text = path.read_bytes()
    whole = text.rfind(b"\n") + 1
    if whole < len(text):
        with path.open("r+b") as file:
            file.truncate(whole)
