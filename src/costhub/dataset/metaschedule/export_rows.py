"""Provides ExportSelection: selects the measurements of one device for a database, streamed from their folder."""

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

from costhub.dataset.folder import DataFolder, among
from costhub.dataset.latency import median_latency_s
from costhub.dataset.load import Names, workload_ids
from costhub.dataset.metaschedule.lines import STORED_FAILURE_S

_BATCH_ROWS = 2048
# This many spare rows can replace programs that do not replay.
_SPARES = 8
_ONE_DEVICE = (
    ". TVM takes the fastest record of a database whatever device it was measured on, so it can hold one device only."
)


@dataclass(frozen=True)
class ExportRow:
    """A measurement, reduced to the columns stored in a database."""

    record_id: str
    workload_id: str
    target: str
    trace: str
    status: str
    run_s: tuple[float, ...]
    """Seconds of each repeat; empty if the program failed."""


@dataclass(frozen=True)
class ExportSelection:
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
    ) -> ExportSelection:
        """Chooses measurements by names and ids.

        Raises:
            DataError: The folder cannot be read or has no such device, or has several and none is given.
            UnknownNameError: No workload or operator has that name.
        """
        folder = DataFolder.open(path)
        table = folder.workloads(["workload_id", "name", "operator", "module_json"])
        modules = dict(zip(table["workload_id"].to_pylist(), table["module_json"].to_pylist(), strict=True))
        conditions = []
        for keys, names in ((("workload_id", "name"), workload), (("operator",), operator)):
            if names is not None:
                ids = workload_ids(table, keys, names, listing=f"costhub stats {folder.path}")
                modules = {key: modules[key] for key in ids if key in modules}
                conditions.append(among("workload_id", ids))
        if not failures:
            conditions.append(pc.field("status") == "ok")
        where = functools.reduce(operators.and_, conditions) if conditions else None
        return cls(folder, device or folder.only_device(_ONE_DEVICE), modules, where)

    def count(self) -> Counter[str]:
        """Number of measurements of each workload."""
        counts: Counter[str] = Counter()
        for batch in self._batches(["workload_id"], self.where):
            counts.update(batch["workload_id"].to_pylist())
        return counts

    def rows(self, record_ids: Sequence[str] | None = None) -> Iterator[ExportRow]:
        """Yields the measurements, or those of some ids, a few thousand in memory at a time."""
        where = self.where
        if record_ids is not None:
            where = pc.field("record_id").isin(pa.array(record_ids, pa.string()))
        for batch in self._batches(["record_id", "workload_id", "target", "trace", "status", "run_s"], where):
            for row in batch.to_pylist():
                yield ExportRow(**{**row, "run_s": tuple(row["run_s"]) if row["status"] == "ok" else ()})

    def best(self, groups: Mapping[str, int], count: int) -> dict[int, list[str]]:
        """The records with the lowest median latency in each group of workloads, best first, plus some spares.

        Args:
            groups: workload_id -> its group; workloads without one are left out.
            count: How many records per group.
        """
        best: dict[int, list[tuple[float, str]]] = {}
        for batch in self._batches(["record_id", "workload_id", "status", "run_s"], self.where):
            latency_s = median_latency_s(batch["run_s"])
            good = (latency_s > 0) & (latency_s < STORED_FAILURE_S)
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
