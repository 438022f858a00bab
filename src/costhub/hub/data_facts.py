"""Provides DataFacts: what a data folder holds, as those who send it and those who get it want to know it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from costhub.dataset.folder import DataFolder

_COLUMNS = ("device_id", "workload_id", "status", "licence", "contributor", "tvm_version")


@dataclass(frozen=True)
class DataFacts:
    """What is in a data folder."""

    rows: Mapping[str, int]
    """Device -> measurements, failures included."""
    ok: int
    """Measurements that have a latency."""
    workloads: int
    licences: tuple[str, ...]
    """SPDX names; "" where a row has none."""
    contributors: tuple[str, ...]
    tvm_versions: tuple[str, ...]

    @property
    def total(self) -> int:
        """Measurements of all devices."""
        return sum(self.rows.values())


def data_facts(folder: str | Path) -> DataFacts:
    """Counts the rows of a data folder; one batch is in memory at a time.

    Raises:
        DataError: There is none, or it cannot be read.

    Example:
        >>> from costhub.hub.shelf import dataset_folders
        >>> data_facts(dataset_folders()["costhub/nvidia-h200"]).rows
        {'nvidia-h200': 2520}
    """
    return count_facts(DataFolder.open(folder).iter_measurements(columns=_COLUMNS))


def count_facts(batches: Iterable[pa.RecordBatch]) -> DataFacts:
    """Counts measurements that are read already.

    Args:
        batches: With device_id, workload_id, status, licence, contributor and tvm_version, at least.
    """
    counts: dict[str, Counter[str]] = {name: Counter() for name in _COLUMNS}
    for batch in batches:
        for name, counted in counts.items():
            for entry in batch.column(name).value_counts().to_pylist():
                counted[entry["values"] or ""] += entry["counts"]

    def names(column: str) -> tuple[str, ...]:
        return tuple(sorted(counts[column]))

    versions = tuple(version for version in names("tvm_version") if version)
    contributors = tuple(name for name in names("contributor") if name)
    return DataFacts(
        rows={name: counts["device_id"][name] for name in names("device_id")},
        ok=counts["status"]["ok"],
        workloads=len(counts["workload_id"]),
        licences=names("licence"),
        contributors=contributors,
        tvm_versions=versions,
    )
