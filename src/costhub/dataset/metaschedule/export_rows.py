"""Provides Selection: the measurements of one device that go into a database, streamed from their folder."""

from __future__ import annotations

import functools
import heapq
import operator as operators
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.folder import DataFolder
from costhub.dataset.latency import median_latency_s
from costhub.dataset.metaschedule.export_service import FAILED_S
from costhub.errors import DataError, UnknownNameError
from costhub.names import close_names

Names = str | Sequence[str]

_BATCH_ROWS = 2048
# So many more than asked for are ready to take the place of programs that do not replay.
_SPARES = 8


@dataclass(frozen=True)
class Row:
    """A measurement, as far as a database holds it."""

    record_id: str
    workload_id: str
    target: str
    trace: str
    status: str
    run_s: tuple[float, ...]
    """Seconds of every repeat; empty where the program failed."""


@dataclass(frozen=True)
class Selection:
    """Measurements of one device."""

    folder: DataFolder
    device_id: str
    modules: Mapping[str, str]
    """workload_id -> module as JSON, of the workloads chosen."""
    where: pc.Expression | None
    """The condition on the measurements."""

    @classmethod
    def of(
        cls,
        path: str | Path,
        *,
        device: str | None,
        workload: Names | None,
        operator: Names | None,
        failures: bool,
    ) -> Selection:
        """Chooses measurements by names and ids.

        Raises:
            DataError: The folder cannot be read or has no such device, or several and none is named.
            UnknownNameError: No workload or operator has that name.
        """
        folder = DataFolder.open(path)
        table = folder.workloads().select(["workload_id", "name", "operator", "module_json"])
        chosen = table
        if workload is not None:
            chosen = _named(chosen, table, "workload", workload, ["workload_id", "name"], folder)
        if operator is not None:
            chosen = _named(chosen, table, "operator", operator, ["operator"], folder)
        conditions = []
        if chosen is not table:
            conditions.append(pc.field("workload_id").isin(chosen["workload_id"].combine_chunks()))
        if not failures:
            conditions.append(pc.field("status") == "ok")
        modules = dict(zip(chosen["workload_id"].to_pylist(), chosen["module_json"].to_pylist(), strict=True))
        where = functools.reduce(operators.and_, conditions) if conditions else None
        return cls(folder, device or _only_device(folder), modules, where)

    def count(self) -> Counter[str]:
        """How many measurements there are of each workload."""
        counts: Counter[str] = Counter()
        for batch in self._batches(["workload_id"], self.where):
            counts.update(batch["workload_id"].to_pylist())
        return counts

    def rows(self, record_ids: Sequence[str] | None = None) -> Iterator[Row]:
        """Yields the measurements, or those of some ids, a few thousand in memory at a time."""
        where = self.where
        if record_ids is not None:
            where = pc.field("record_id").isin(pa.array(record_ids, pa.string()))
        for batch in self._batches(["record_id", "workload_id", "target", "trace", "status", "run_s"], where):
            for row in batch.to_pylist():
                yield Row(**{**row, "run_s": tuple(row["run_s"]) if row["status"] == "ok" else ()})

    def best(self, groups: Mapping[str, int], count: int) -> dict[int, list[str]]:
        """The records of lowest median latency in each group of workloads, best first, with some to spare.

        Args:
            groups: workload_id -> its group; workloads without one are left out.
            count: How many are wanted of each group.
        """
        best: dict[int, list[tuple[float, str]]] = {}
        for batch in self._batches(["record_id", "workload_id", "status", "run_s"], self.where):
            latency_s = median_latency_s(batch["run_s"])
            good = (latency_s > 0) & (latency_s < FAILED_S)
            for position in np.flatnonzero(good & np.array(pc.equal(batch["status"], "ok"))):
                number = groups.get(batch["workload_id"][position].as_py())
                if number is not None:
                    entry = (-float(latency_s[position]), batch["record_id"][position].as_py())
                    heap = best.setdefault(number, [])
                    heapq.heappush(heap, entry)
                    if len(heap) > count + _SPARES:
                        heapq.heappop(heap)
        return {number: [i for _, i in sorted(heap, reverse=True)] for number, heap in best.items()}

    def _batches(self, columns: Sequence[str], where: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        return self.folder.iter_measurements([self.device_id], columns, where, batch_rows=_BATCH_ROWS)


def _only_device(folder: DataFolder) -> str:
    known = folder.device_ids()
    if len(known) != 1:
        raise DataError(
            f"{folder.path} has measurements of {len(known)} devices ({', '.join(known)}); name one of them. "
            "TVM takes the fastest record of a database whatever it was measured on, so one cannot hold two."
        )
    return known[0]


def _named(
    chosen: pa.Table, every: pa.Table, kind: str, names: Names, columns: Sequence[str], folder: DataFolder
) -> pa.Table:
    """The rows of `chosen` that have one of `names` in one of the columns."""
    wanted = [names] if isinstance(names, str) else list(names)
    known = {value for column in columns for value in every[column].to_pylist()}
    for name in wanted:
        if name not in known:
            raise UnknownNameError(
                kind, name, close_names(name, sorted(known)), f"costhub stats {folder.path}"
            )
    masks = [pc.field(column).isin(pa.array(wanted, pa.string())) for column in columns]
    return chosen.filter(functools.reduce(operators.or_, masks))
