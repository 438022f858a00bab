"""Provides Ledger: the few numbers of every measurement that rules across rows and files need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from costhub.dataset.check.rows import Ints, Rows

ENTRY = np.dtype(
    [
        ("file", np.int32),
        ("name", "S16"),
        ("record", np.uint64),
        ("program", np.uint64),
        ("run", np.uint64),
        ("workload", np.int32),
        ("device", np.int32),
        ("session", np.uint64),
        ("time_us", np.int64),
        ("latency_s", np.float64),
        ("spread", np.float32),
        ("repeats", np.int32),
        ("reference_s", np.float64),
        ("drift", np.float32),
        ("clock_mhz", np.float32),
        ("temperature_c", np.float32),
    ]
)
"""100 bytes a row. `record`, `program`, `run` and `session` are hashes; `spread` is slowest / fastest."""

NO_TIME = np.iinfo(np.int64).min


class Ledger:
    """Entries of all measurements of a folder, in the order of the files and of their rows."""

    def __init__(self, entries: npt.NDArray[Any], journals: Sequence[bool]) -> None:
        """Wraps entries.

        Args:
            entries: (n,) array of ENTRY.
            journals: Whether a file, by its number, is a journal.
        """
        self.entries = entries
        self.n = len(entries)
        self.in_journal = np.array([*journals, False])[entries["file"]]

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """(n,) one field."""
        return self.entries[name]

    @cached_property
    def is_timed(self) -> npt.NDArray[np.bool_]:
        """(n,) where the latency is a number above 0."""
        found: npt.NDArray[np.bool_] = np.isfinite(self["latency_s"]) & (self["latency_s"] > 0)
        return found

    def groups(self, *names: str, within: npt.NDArray[np.bool_]) -> Iterator[Ints]:
        """Yields the positions of rows that agree in some fields, in their order, out of those `within`."""
        rows = np.flatnonzero(within)
        keys = [self[name][rows] for name in names]
        order = np.lexsort(keys[::-1])
        changes = np.zeros(len(rows), bool)
        for key in keys:
            changes[1:] |= key[order][1:] != key[order][:-1]
        yield from (rows[part] for part in np.split(order, np.flatnonzero(changes)) if len(part))

    def mask(self, parts: Sequence[Ints]) -> npt.NDArray[np.bool_]:
        """(n,) True at the positions in all `parts`."""
        found = np.zeros(self.n, bool)
        for rows in parts:
            found[rows] = True
        return found


def entries_of(rows: Rows, file: int) -> npt.NDArray[Any]:
    """The entries of a batch of file number `file`."""
    entries = np.zeros(rows.n, ENTRY)
    entries["file"] = file
    entries["name"] = [(name or "").encode("ascii", "replace")[:16] for name in rows.texts("record_id")]
    entries["record"] = rows.hashes("record_id")
    entries["program"] = rows.hashes("program_id")
    entries["run"] = rows.hashes("run_s")
    entries["session"] = rows.hashes("session")
    entries["workload"], entries["device"] = rows.workload, rows.device
    times = rows.column("timestamp").cast(pa.int64()).fill_null(NO_TIME)
    entries["time_us"] = times.to_numpy(zero_copy_only=False)
    entries["latency_s"] = np.where(rows.is_ok, rows.latency_s, np.nan)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        entries["spread"] = rows.slowest_s / rows.fastest_s
        entries["repeats"] = rows.repeats
        entries["reference_s"] = rows.floats("reference_s")
        entries["drift"] = rows.floats("reference_drift")
        entries["clock_mhz"] = rows.floats("clock_mhz")
        entries["temperature_c"] = rows.floats("temperature_c")
    return entries
