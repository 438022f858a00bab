"""Provides load_programs: the programs of one device with their features, as arrays to learn from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.features.cache import UNKNOWN, FeatureCache, Found
from costhub.dataset.features.compute import compute_missing
from costhub.dataset.features.part import PartLost
from costhub.dataset.features.spec import find_spec
from costhub.dataset.folder import DataFolder
from costhub.dataset.latency import median_latency_s
from costhub.dataset.programs import IntArray, Programs
from costhub.errors import DataError

_ATTEMPTS = 5
_NOT_MIXED = ", since latencies of different devices cannot be mixed."


def load_programs(
    path: str | Path,
    *,
    device: str | None = None,
    workloads: set[str] | None = None,
    spec: str = "per_store@1",
    progress: bool = True,
) -> Programs:
    """Reads the programs that ran on one device, with their features; missing features are computed and kept.

    Args:
        path: A data folder.
        device: The device; may be left out where the folder has only one.
        workloads: Ids of the workloads to keep; all by default.
        spec: Name of the feature spec.
        progress: Show a progress bar on a terminal while features are computed.

    Returns:
        The programs whose status is `ok` and that have features, by workload, and within each in the order
        of the measurements.

    Raises:
        DataError: The folder cannot be read, has several devices, or no such device.
        UnknownNameError: There is no such feature spec.
    """
    folder, cache, measured = _open(path, device, workloads, spec)
    return _loaded(folder, cache, measured, progress=progress)


def iter_programs(
    path: str | Path,
    *,
    device: str | None = None,
    workloads: set[str] | None = None,
    spec: str = "per_store@1",
    batch_programs: int = 65_536,
    progress: bool = True,
) -> Iterator[Programs]:
    """Reads what `load_programs` does, some workloads at a time, in memory for one batch.

    Args:
        path: As for `load_programs`, and so the other arguments.
        device: The device.
        workloads: Ids of the workloads to keep.
        spec: Name of the feature spec.
        batch_programs: A batch ends with the workload that reaches this many; a single workload is never cut,
            since its programs are compared with one another.
        progress: Show a progress bar on a terminal while features are computed.

    Yields:
        The programs of one or more workloads; put together they are those of `load_programs`.

    Raises:
        DataError: As `load_programs`.
        UnknownNameError: As `load_programs`.
    """
    folder, cache, measured = _open(path, device, workloads, spec)
    measured, _ = _complete(folder, cache, measured, progress=progress)
    ends = np.flatnonzero(np.diff(measured.workload, append=-1)) + 1
    start = 0
    for end in ends.tolist():
        if end - start >= batch_programs or end == ends[-1]:
            yield _loaded(folder, cache, measured.take(np.arange(start, end)), progress=progress)
            start = end


@dataclass(frozen=True)
class _Measured:
    """The good measurements of a device, sorted by workload."""

    device_id: str
    record_ids: pa.Array
    workload: IntArray
    """(n,) index into `workload_ids`, ascending."""
    workload_ids: tuple[str, ...]
    latency_s: npt.NDArray[np.float64]

    def take(self, places: IntArray) -> _Measured:
        """Those at `places`, which ascend."""
        return _Measured(
            self.device_id,
            self.record_ids.take(pa.array(places, pa.int64())),
            self.workload[places],
            self.workload_ids,
            self.latency_s[places],
        )


def _open(
    path: str | Path, device: str | None, workloads: set[str] | None, spec: str
) -> tuple[DataFolder, FeatureCache, _Measured]:
    layout = find_spec(spec)
    folder = DataFolder.open(path)
    device_id = device or folder.only_device(_NOT_MIXED)
    measured = _measured(folder, device_id, workloads)
    return folder, FeatureCache(folder.path, device_id, layout), measured


def _measured(folder: DataFolder, device_id: str, workloads: set[str] | None) -> _Measured:
    where = pc.field("status") == "ok"
    if workloads is not None:
        where &= pc.field("workload_id").isin(pa.array(sorted(workloads), pa.string()))
    table = folder.select_measurements([device_id], ["record_id", "workload_id", "run_s"], where)
    latency_s = median_latency_s(table["run_s"])
    names, workload = _codes(table["workload_id"])
    good = np.flatnonzero(np.isfinite(latency_s) & (latency_s > 0))
    order = good[np.argsort(workload[good], kind="stable")]
    record_ids = pa.concat_arrays([pa.array([], pa.string()), *table["record_id"].chunks])
    return _Measured(device_id, record_ids, workload, names, latency_s).take(order)


def _codes(column: pa.ChunkedArray) -> tuple[tuple[str, ...], IntArray]:
    """The different values in order, and the place of each row's among them."""
    names = sorted(column.unique().to_pylist())
    return tuple(names), pc.index_in(column, value_set=pa.array(names, pa.string())).to_numpy().astype(
        np.int64
    )


def _loaded(folder: DataFolder, cache: FeatureCache, measured: _Measured, *, progress: bool) -> Programs:
    for _ in range(_ATTEMPTS):
        known, found = _complete(folder, cache, measured, progress=progress)
        try:
            rows = cache.read(found)
        except PartLost:
            continue
        used, workload = np.unique(known.workload, return_inverse=True)
        names = tuple(known.workload_ids[i] for i in used)
        return Programs(rows, found.counts, workload, names, known.latency_s, cache.spec.name)
    raise DataError(f"The parts in {cache.folder} keep breaking; check the disk, or remove the folder.")


def _complete(
    folder: DataFolder, cache: FeatureCache, measured: _Measured, *, progress: bool
) -> tuple[_Measured, Found]:
    """Computes what is not in the cache; returns the programs that have features, and where these are."""
    found = cache.find(measured.record_ids)
    missing = measured.record_ids.filter(pa.array(found.counts == UNKNOWN))
    if len(missing):
        compute_missing(folder, cache, measured.device_id, missing, progress=progress)
        found = cache.find(measured.record_ids)
    good = np.flatnonzero(found.counts >= 0)
    return measured.take(good), found.take(good)
