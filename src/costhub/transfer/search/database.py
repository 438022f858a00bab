"""Provides Records: the MetaSchedule database of a search, which a stopped search goes on from."""

from __future__ import annotations

import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FAILED_S = 1e10
"""The seconds that TVM notes for a program that failed (src/s_tir/meta_schedule/measure_callback)."""
FILES = ("database_workload.json", "database_tuning_record.json")


@dataclass(frozen=True)
class Known:
    """A program that an earlier search has measured."""

    record: Any
    """Its ``ms.database.TuningRecord``."""
    run_s: tuple[float, ...] | None
    """Seconds of each repeat; None where it failed."""

    @property
    def latency_s(self) -> float | None:
        """Their median."""
        return statistics.median(self.run_s) if self.run_s else None


def all_known(database: Any, target: Any, workload: Any = None) -> list[Known]:
    """The records of a ``ms.database.Database`` for one target; TVM's own queries take those of any.

    Args:
        database: The database.
        target: The target.
        workload: A ``ms.database.Workload`` of it; None for all of them.
    """
    found = []
    for record in database.get_all_tuning_records():
        of_it = workload is None or record.workload.same_as(workload)
        if of_it and str(record.target) == str(target):
            seconds = tuple(float(s) for s in record.run_secs or ())
            found.append(Known(record, seconds if seconds and max(seconds) < FAILED_S else None))
    return found


class Records:
    """A ``ms.database.JSONDatabase`` in a folder, which stock TVM reads; made where there is none.

    A line that an interrupted search has not finished is dropped, since TVM cannot open such a file.

    Args:
        folder: Where `FILES` lie.
    """

    def __init__(self, folder: Path) -> None:
        from tvm.s_tir import meta_schedule as ms

        folder.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            drop_unfinished(folder / name)
        self.database = ms.database.JSONDatabase(work_dir=os.fspath(folder))

    def known(self, mod: Any, target: Any) -> list[Known]:
        """What has been measured of a workload for a target, the fastest program first, failures last."""
        workload = self.database.commit_workload(mod)
        return all_known(self.database, target, workload)

    def add(self, mod: Any, candidate: Any, run_s: Sequence[float] | None, target: Any) -> None:
        """Keeps one measured candidate; no seconds where it failed."""
        from tvm.s_tir import meta_schedule as ms

        record = ms.database.TuningRecord(
            candidate.sch.trace, self.database.commit_workload(mod), list(run_s or [FAILED_S]), target,
            candidate.args_info,
        )  # fmt: skip
        self.database.commit_tuning_record(record)


def drop_unfinished(path: Path) -> None:
    r"""Cuts a file of lines after the last one that ends; a missing file stays missing.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "lines")
        >>> _ = path.write_text("[1]\n[2")
        >>> drop_unfinished(path)
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
