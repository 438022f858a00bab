"""Provides ProgramSource: the wanted measurements of one device, and where their features are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.features.cache import UNKNOWN, FeatureCache, Found
from costhub.dataset.features.combined import blank_rows, fill_part
from costhub.dataset.features.compute import compute_missing
from costhub.dataset.features.part import PartLost
from costhub.dataset.features.spec import FeatureSpec, find_spec
from costhub.dataset.folder import DataFolder
from costhub.dataset.latency import median_latency_s
from costhub.dataset.programs import FloatArray, IntArray, Programs
from costhub.errors import DataError

_ATTEMPTS = 5
_OR_SEVERAL = ", or several: programs are compared within each device."


@dataclass(frozen=True)
class Measured:
    """The measurements of a device that are wanted, sorted by workload."""

    record_ids: pa.Array
    workload: IntArray
    """(n,) index into `workload_ids`, ascending."""
    workload_ids: tuple[str, ...]
    latency_s: npt.NDArray[np.float64]
    """(n,) median latency; infinite for a program that failed."""

    def take(self, places: IntArray) -> Measured:
        """Those at `places`, which ascend."""
        return Measured(
            self.record_ids.take(pa.array(places, pa.int64())),
            self.workload[places],
            self.workload_ids,
            self.latency_s[places],
        )

    def cut(self, programs: int) -> Iterator[Measured]:
        """Pieces of whole workloads, which must stay together; each but the last has at least `programs`."""
        ends = np.flatnonzero(np.diff(self.workload, append=-1)) + 1
        start = 0
        for end in ends.tolist():
            if end - start >= programs or end == ends[-1]:
                yield self.take(np.arange(start, end))
                start = end


@dataclass(frozen=True)
class ProgramSource:
    """One device of a data folder, with the features of its programs."""

    folder: DataFolder
    device_id: str
    spec: FeatureSpec
    caches: tuple[FeatureCache, ...]
    """One for each part of the spec: what is kept on disk is simple."""
    measured: Measured

    def load(self, measured: Measured, *, progress: bool) -> Programs:
        """Reads some of `measured`, those that have features; what is missing is computed and kept.

        Raises:
            DataError: The files of the cache cannot be read, though they were made anew.
        """
        for _ in range(_ATTEMPTS):
            known, found = self.complete(measured, progress=progress)
            try:
                rows = self._rows(found)
            except PartLost:
                continue
            used, workload = np.unique(known.workload, return_inverse=True)
            return Programs(
                rows,
                np.sum([own.counts for own in found], axis=0, dtype=np.int64),
                workload,
                tuple(known.workload_ids[i] for i in used),
                known.latency_s,
                self.spec.name,
                device_ids=(self.device_id,),
            )
        folders = " or ".join(str(cache.folder) for cache in self.caches)
        raise DataError(
            f"The cached features in {folders} are damaged again and again; check the disk, or remove the "
            "folder."
        )

    def complete(self, measured: Measured, *, progress: bool) -> tuple[Measured, list[Found]]:
        """Computes what is not in the caches; returns the programs that have features, and where they are."""
        found = [self._found(cache, measured.record_ids, progress=progress) for cache in self.caches]
        good = np.flatnonzero(np.all([own.counts >= 0 for own in found], axis=0))
        return measured.take(good), [own.take(good) for own in found]

    def _found(self, cache: FeatureCache, record_ids: pa.Array, *, progress: bool) -> Found:
        found = cache.find(record_ids)
        missing = record_ids.filter(pa.array(found.counts == UNKNOWN))
        if len(missing):
            compute_missing(self.folder, cache, self.device_id, missing, progress=progress)
            found = cache.find(record_ids)
        return found

    def _rows(self, found: Sequence[Found]) -> FloatArray:
        if len(self.caches) == 1:
            return self.caches[0].read(found[0])
        # Part by part: beside the rows that are returned, those of one part are in memory.
        rows = blank_rows([own.counts for own in found], [part.width for part in self.spec.parts])
        for number, (cache, own) in enumerate(zip(self.caches, found, strict=True)):
            fill_part(rows, number, cache.read(own))
        return rows


def open_sources(
    path: str | Path,
    device: str | Sequence[str] | None,
    workloads: set[str] | None,
    spec: str,
    *,
    failures: bool,
) -> list[ProgramSource]:
    """Finds what `load_programs` reads: one source for each device.

    Raises:
        DataError: The folder cannot be read, has several devices and none is named, or no such device.
        UnknownNameError: There is no such feature spec.
    """
    layout = find_spec(spec)
    folder = DataFolder.open(path)
    named = device or folder.only_device(_OR_SEVERAL)
    sources = []
    for device_id in [named] if isinstance(named, str) else dict.fromkeys(named):
        caches = feature_caches(folder, device_id, layout)
        measured = _read(folder, device_id, workloads, failures=failures)
        sources.append(ProgramSource(folder, device_id, layout, caches, measured))
    return sources


def feature_caches(folder: DataFolder, device_id: str, layout: FeatureSpec) -> tuple[FeatureCache, ...]:
    """The caches of a device, one for each part of the feature spec."""
    return tuple(FeatureCache(folder.path, device_id, part) for part in layout.parts)


def _read(folder: DataFolder, device_id: str, workloads: set[str] | None, *, failures: bool) -> Measured:
    # Every status but ok is the program's own doing, so that each of them says something about it.
    where = pc.scalar(True) if failures else pc.field("status") == "ok"
    if workloads is not None:
        where &= pc.field("workload_id").isin(pa.array(sorted(workloads), pa.string()))
    table = folder.select_measurements([device_id], ["record_id", "workload_id", "status", "run_s"], where)
    latency_s = median_latency_s(table["run_s"])
    is_ok = pc.equal(table["status"], "ok").to_numpy()
    names, workload = coded(table["workload_id"])
    good = np.flatnonzero(~is_ok | (np.isfinite(latency_s) & (latency_s > 0)))
    order = good[np.argsort(workload[good], kind="stable")]
    record_ids = pa.concat_arrays([pa.array([], pa.string()), *table["record_id"].chunks])
    return Measured(record_ids, workload, names, np.where(is_ok, latency_s, np.inf)).take(order)


def coded(column: pa.ChunkedArray) -> tuple[tuple[str, ...], IntArray]:
    """The different texts of a column in order, and the place of each row's among them."""
    names = sorted(column.unique().to_pylist())
    return tuple(names), pc.index_in(column, value_set=pa.array(names, pa.string())).to_numpy().astype(
        np.int64
    )
