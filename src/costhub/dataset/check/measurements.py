"""Provides Rows and Ledger, the measurements as seen by the rules: a batch of rows, and a few numbers per row."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.check.rule import Rule
from costhub.dataset.latency import repeats_by_length

Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
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


@dataclass(frozen=True, kw_only=True)
class TableRule(Rule):
    """A rule on one row of `devices` or `workloads`: yields messages. It runs in a child process."""

    tables: tuple[str, ...]
    find: Callable[[dict[str, Any]], Iterator[str]]


@dataclass(frozen=True, kw_only=True)
class RowRule(Rule):
    """A rule on single measurements: yields (message, mask) for a batch of them, in a child process."""

    find: Callable[[Rows], Iterator[tuple[str, Mask]]]
    shown: str = "record_id"
    """The column that names the rows of a finding."""


@dataclass(frozen=True, kw_only=True)
class LedgerRule(Rule):
    """A rule across measurements: yields (message, mask) over the ledger of all of them."""

    find: Callable[[Ledger, CheckContext], Iterator[tuple[str, Mask]]]


@dataclass(frozen=True)
class WorkloadFacts:
    """The facts needed about a workload; its module stays in its file."""

    workload_id: str
    flop: float
    """Floating-point operations, without products with zeros that a schedule can skip."""
    bytes: float
    is_float32: bool
    """Whether it is bounded by the peak of a device, which is measured in float32."""
    name: str = ""
    is_bfloat16: bool = False
    """Whether it multiplies pairs of bfloat16, kept as float32, and is bounded by the device's peak in bfloat16."""


@dataclass
class CheckContext:
    """The devices and workloads of a folder, and the time of the check."""

    devices: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Rows of the devices table by id."""
    workloads: dict[str, WorkloadFacts] = field(default_factory=dict)
    now_us: int = field(default_factory=lambda: time.time_ns() // 1000)

    def device_column(self, name: str) -> Floats:
        """A numeric column of the devices, with NaN for null and a final NaN for an unknown device."""
        values = [row.get(name) for row in self.devices.values()]
        return np.array([np.nan if value is None else value for value in values] + [np.nan], np.float64)

    def workload_column(self, name: str) -> Floats:
        """A numeric column of the workloads, with a final NaN for an unknown workload."""
        return np.array([getattr(facts, name) for facts in self.workloads.values()] + [np.nan], np.float64)

    def device_ids(self) -> pa.Array:
        """Ids of the devices, in order."""
        return pa.array(self.devices, pa.string())

    def workload_ids(self) -> pa.Array:
        """Ids of the workloads, in order."""
        return pa.array(self.workloads, pa.string())


class Rows:
    """A batch of `n` measurements whose columns have the types of the schema."""

    def __init__(self, batch: pa.RecordBatch, context: CheckContext, device_id: str) -> None:
        """Wraps a batch.

        Args:
            batch: Measurements; no required column holds a null.
            context: The devices and workloads of the folder.
            device_id: The device of the file's folder.
        """
        self.batch, self.context, self.device_id = batch, context, device_id
        self.n: int = batch.num_rows

    def column(self, name: str) -> pa.Array:
        """A column, unchanged from the file."""
        return self.batch.column(name)

    def texts(self, name: str) -> list[str | None]:
        """A column of text as Python strings."""
        texts: list[str | None] = self.column(name).to_pylist()
        return texts

    def floats(self, name: str) -> Floats:
        """(n,) a numeric column; NaN for null."""
        values: Floats = self.column(name).cast(pa.float64()).to_numpy(zero_copy_only=False)
        return values

    def where(self, mask: pa.Array) -> Mask:
        """(n,) an Arrow mask, null counting as False."""
        values: Mask = mask.fill_null(False).to_numpy(zero_copy_only=False)
        return values

    def is_null(self, name: str) -> Mask:
        """(n,) where a column is null."""
        return self.where(pc.is_null(self.column(name)))

    def among(self, name: str, values: pa.Array) -> Mask:
        """(n,) where a column of text holds one of `values`."""
        return self.where(pc.is_in(self.column(name), value_set=values))

    @cached_property
    def is_ok(self) -> Mask:
        """(n,) where the program ran."""
        return self.where(pc.equal(self.column("status"), "ok"))

    @cached_property
    def repeats(self) -> Ints:
        """(n,) length of run_s."""
        lengths: Ints = pc.list_value_length(self.column("run_s")).to_numpy(zero_copy_only=False)
        return lengths.astype(np.int64)

    @cached_property
    def latency_s(self) -> Floats:
        """(n,) median of the repeats; NaN for none."""
        return self.reduce(np.median)

    @cached_property
    def fastest_s(self) -> Floats:
        """(n,) minimum of the repeats."""
        return self.reduce(np.min)

    @cached_property
    def slowest_s(self) -> Floats:
        """(n,) maximum of the repeats."""
        return self.reduce(np.max)

    def reduce(self, over: Callable[..., Any]) -> Floats:
        """(n,) a numpy reduction of every row's repeats; NaN for a row without any."""
        values_of_rows = np.full(self.n, np.nan)
        with np.errstate(invalid="ignore", over="ignore"):
            for rows, values in repeats_by_length(self.column("run_s")):
                values_of_rows[rows] = over(values, axis=1)
        return values_of_rows

    @cached_property
    def workload(self) -> Ints:
        """(n,) position among the workloads of the context; -1 if unknown."""
        return self._position("workload_id", self.context.workload_ids())

    @cached_property
    def device(self) -> Ints:
        """(n,) position among the devices of the context; -1 if unknown."""
        return self._position("device_id", self.context.device_ids())

    def _position(self, name: str, values: pa.Array) -> Ints:
        indices = pc.index_in(self.column(name), value_set=values).fill_null(-1)
        positions: Ints = indices.to_numpy(zero_copy_only=False).astype(np.int64)
        return positions

    def hashes(self, *names: str) -> npt.NDArray[np.uint64]:
        """(n,) 64 bits of each row's values in columns of text, identical in every process."""
        columns = [self.texts(name) for name in names]
        digests = (hashlib.blake2b(repr(row).encode(), digest_size=8).digest() for row in zip(*columns, strict=True))
        return np.frombuffer(b"".join(digests), np.uint64)


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
        is_timed: npt.NDArray[np.bool_] = np.isfinite(self["latency_s"]) & (self["latency_s"] > 0)
        return is_timed

    def groups(self, *names: str, within: npt.NDArray[np.bool_]) -> Iterator[Ints]:
        """Yields the positions of rows that agree in some fields, in their order, among the rows `within`."""
        rows = np.flatnonzero(within)
        keys = [self[name][rows] for name in names]
        order = np.lexsort(keys[::-1])
        changes = np.zeros(len(rows), bool)
        for key in keys:
            changes[1:] |= key[order][1:] != key[order][:-1]
        yield from (rows[part] for part in np.split(order, np.flatnonzero(changes)) if len(part))

    def mask(self, parts: Sequence[Ints]) -> npt.NDArray[np.bool_]:
        """(n,) True at the positions in all `parts`."""
        mask = np.zeros(self.n, bool)
        for rows in parts:
            mask[rows] = True
        return mask


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
