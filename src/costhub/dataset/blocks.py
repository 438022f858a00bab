"""Provides ProgramBlocks: the programs of a data folder in blocks, each read when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.features.cache import NOT_COMPUTED, CacheLookup, FeatureCache
from costhub.dataset.features.cache_part import PartLost
from costhub.dataset.features.combined import blank_rows, fill_part
from costhub.dataset.features.compute import compute_missing
from costhub.dataset.features.spec import FeatureSpec
from costhub.dataset.features.specs import find_spec
from costhub.dataset.folder import DataFolder
from costhub.dataset.latency import median_latency_s
from costhub.dataset.programs import FloatArray, IntArray, Programs
from costhub.errors import DataError

_READ_ATTEMPTS = 5
_OR_SEVERAL = ", or several: programs are compared within each device."


@dataclass(frozen=True)
class MeasuredPrograms:
    """The measurements of a device that are wanted, sorted by workload."""

    record_ids: pa.Array
    workload: IntArray
    """(n,) index into `workload_ids`, ascending."""
    workload_ids: tuple[str, ...]
    latency_s: npt.NDArray[np.float64]
    """(n,) median latency; infinite for a program that failed."""

    def take(self, places: IntArray) -> MeasuredPrograms:
        """Those at `places`, which ascend."""
        return MeasuredPrograms(
            self.record_ids.take(pa.array(places, pa.int64())),
            self.workload[places],
            self.workload_ids,
            self.latency_s[places],
        )

    def cut(self, programs: int) -> Iterator[MeasuredPrograms]:
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
    measured: MeasuredPrograms

    def load(self, measured: MeasuredPrograms, *, progress: bool) -> Programs:
        """Reads some of `measured`, those that have features; what is missing is computed and kept.

        Raises:
            DataError: The files of the cache cannot be read, though they were made anew.
        """
        for _ in range(_READ_ATTEMPTS):
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
            f"The cached features in {folders} are damaged again and again; check the disk, or remove the folder."
        )

    def complete(self, measured: MeasuredPrograms, *, progress: bool) -> tuple[MeasuredPrograms, list[CacheLookup]]:
        """Computes what is not in the caches; returns the programs that have features, and where they are."""
        found = [self._found(cache, measured.record_ids, progress=progress) for cache in self.caches]
        good = np.flatnonzero(np.all([own.counts >= 0 for own in found], axis=0))
        return measured.take(good), [own.take(good) for own in found]

    def _found(self, cache: FeatureCache, record_ids: pa.Array, *, progress: bool) -> CacheLookup:
        found = cache.find(record_ids)
        missing = record_ids.filter(pa.array(found.counts == NOT_COMPUTED))
        if len(missing):
            compute_missing(self.folder, cache, self.device_id, missing, progress=progress)
            found = cache.find(record_ids)
        return found

    def _rows(self, found: Sequence[CacheLookup]) -> FloatArray:
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
        measured = _read_measured(folder, device_id, workloads, failures=failures)
        sources.append(ProgramSource(folder, device_id, layout, caches, measured))
    return sources


def feature_caches(folder: DataFolder, device_id: str, layout: FeatureSpec) -> tuple[FeatureCache, ...]:
    """The caches of a device, one for each part of the feature spec."""
    return tuple(FeatureCache(folder.path, device_id, part) for part in layout.parts)


def _read_measured(
    folder: DataFolder, device_id: str, workloads: set[str] | None, *, failures: bool
) -> MeasuredPrograms:
    # Every status but ok is the program's own doing, so that each of them says something about it.
    where = pc.scalar(True) if failures else pc.field("status") == "ok"
    if workloads is not None:
        where &= pc.field("workload_id").isin(pa.array(sorted(workloads), pa.string()))
    table = folder.select_measurements([device_id], ["record_id", "workload_id", "status", "run_s"], where)
    latency_s = median_latency_s(table["run_s"])
    is_ok = pc.equal(table["status"], "ok").to_numpy()
    names, workload = name_codes(table["workload_id"])
    good = np.flatnonzero(~is_ok | (np.isfinite(latency_s) & (latency_s > 0)))
    order = good[np.argsort(workload[good], kind="stable")]
    record_ids = pa.concat_arrays([pa.array([], pa.string()), *table["record_id"].chunks])
    return MeasuredPrograms(record_ids, workload, names, np.where(is_ok, latency_s, np.inf)).take(order)


def name_codes(column: pa.ChunkedArray) -> tuple[tuple[str, ...], IntArray]:
    """The different texts of a column in order, and the place of each row's among them."""
    names = sorted(column.unique().to_pylist())
    return tuple(names), pc.index_in(column, value_set=pa.array(names, pa.string())).to_numpy().astype(np.int64)


BLOCK_PROGRAMS = 16_384
"""Some 90 MB of rows of `per_store@1`; a block has more where a single workload has."""


@dataclass(frozen=True)
class ProgramBlocks(Sequence[Programs]):
    """A sequence of `Programs` of which those in use are in memory, and no others.

    A block holds whole groups, all programs of a workload on a device: throughput is relative to the best of
    them. What is known of each program beforehand is its latency, some 60 bytes. A block is read anew each
    time it is asked for, so keep none.

    `ProgramBlocks.open` makes one.
    """

    blocks: tuple[ProgramSource, ...]

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        device: str | Sequence[str] | None = None,
        workloads: set[str] | None = None,
        spec: str = "per_store@1",
        failures: bool = False,
        block_programs: int = BLOCK_PROGRAMS,
        progress: bool = True,
    ) -> ProgramBlocks:
        """Finds the programs that `load_programs` would read; missing features are computed and kept.

        Args:
            path: As for `load_programs`, and so the other arguments.
            device: The device, or several.
            workloads: Ids of the workloads to keep.
            spec: Name of the feature spec.
            failures: Add the programs that failed.
            block_programs: A block ends with the workload that reaches this many.
            progress: Show a progress bar on a terminal while features are computed.

        Raises:
            DataError: As `load_programs`.
            UnknownNameError: As `load_programs`.
        """
        blocks: list[ProgramSource] = []
        for source in open_sources(path, device, workloads, spec, failures=failures):
            measured, _ = source.complete(source.measured, progress=progress)
            blocks += (replace(source, measured=part) for part in measured.cut(block_programs))
        return cls(tuple(blocks))

    def __len__(self) -> int:
        """Number of blocks."""
        return len(self.blocks)

    @overload
    def __getitem__(self, number: int) -> Programs: ...
    @overload
    def __getitem__(self, number: slice) -> ProgramBlocks: ...
    def __getitem__(self, number: int | slice) -> Programs | ProgramBlocks:
        """Reads a block, or gives some of them unread."""
        if isinstance(number, slice):
            return ProgramBlocks(self.blocks[number])
        source = self.blocks[number]
        return source.load(source.measured, progress=False)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Programs of each block."""
        return tuple(len(source.measured.latency_s) for source in self.blocks)

    @property
    def n(self) -> int:
        """Number of programs."""
        return sum(self.sizes)

    @property
    def workload_ids(self) -> tuple[str, ...]:
        """The workloads that have programs."""
        return tuple(self.counts())

    def counts(self) -> dict[str, int]:
        """Workload id -> its programs on all devices, in the order in which they are met."""
        found: dict[str, int] = {}
        for source in self.blocks:
            used, numbers = np.unique(source.measured.workload, return_counts=True)
            for code, number in zip(used.tolist(), numbers.tolist(), strict=True):
                name = source.measured.workload_ids[code]
                found[name] = found.get(name, 0) + number
        return found

    def of_workloads(self, ids: set[str]) -> ProgramBlocks:
        """The programs whose workload is in `ids`."""
        return ProgramBlocks(tuple(_of_workloads(self.blocks, ids.__contains__)))

    def of_devices(self, ids: set[str]) -> ProgramBlocks:
        """The programs that were measured on the devices in `ids`."""
        return ProgramBlocks(tuple(source for source in self.blocks if source.device_id in ids))

    def share(self, number: int, of: int) -> ProgramBlocks:
        """One of several shares of about equally many programs, for one of several processes.

        Example:
            >>> ProgramBlocks(()).share(0, 2).sizes
            ()
        """
        blocks = self.blocks
        if of > 1 and len(blocks) < 4 * of:
            # A few large blocks cannot be shared evenly; their workloads can.
            blocks = tuple(replace(s, measured=part) for s in blocks for part in s.measured.cut(1))
        sizes = ProgramBlocks(blocks).sizes
        programs, mine = [0] * of, []
        for place in sorted(range(len(blocks)), key=lambda place: (-sizes[place], place)):
            taker = programs.index(min(programs))
            programs[taker] += sizes[place]
            if taker == number:
                mine.append(place)
        return ProgramBlocks(tuple(blocks[place] for place in sorted(mine)))

    def split_off(
        self, share: float, *, seed: int, most_programs: int = 16_384
    ) -> tuple[ProgramBlocks, Programs | None]:
        """Holds out whole workloads, on all devices, to tell when training should stop.

        Args:
            share: Of the programs to hold out, in (0, 1).
            seed: Chooses the workloads.
            most_programs: No more workloads are chosen once they have this many programs.

        Returns:
            The blocks that stay, and the programs held out; None where there are fewer than four workloads.
        """
        counts = self.counts()
        names = sorted(counts)
        if len(names) < 4:
            return self, None
        wanted = min(share * sum(counts.values()), most_programs)
        chosen: set[str] = set()
        for place in np.random.default_rng(seed).permutation(len(names))[: len(names) - 2]:
            if len(chosen) >= 2 and sum(counts[name] for name in chosen) >= wanted:
                break
            chosen.add(names[place])
        rest = self.of_workloads(set(names) - chosen)
        return rest, Programs.join(list(self.of_workloads(chosen)))

    def __reduce__(self) -> tuple[Callable[..., ProgramBlocks], tuple[Any, ...]]:
        """Goes to another process without what is known of the features, which is found there again."""
        return _reopen, (
            [(str(source.folder.path), source.device_id, source.spec.name, source.measured) for source in self.blocks],
        )


def _of_workloads(blocks: Sequence[ProgramSource], wanted: Callable[[str], bool]) -> Iterator[ProgramSource]:
    for source in blocks:
        measured = source.measured
        is_wanted = np.array([wanted(name) for name in measured.workload_ids], dtype=bool)
        places = np.flatnonzero(is_wanted[measured.workload])
        if len(places):
            yield replace(source, measured=measured.take(places))


def _reopen(blocks: Sequence[tuple[str, str, str, MeasuredPrograms]]) -> ProgramBlocks:
    caches: dict[tuple[str, str, str], tuple[FeatureCache, ...]] = {}
    sources = []
    for path, device_id, spec, measured in blocks:
        folder, layout = DataFolder.open(path), find_spec(spec)
        if (path, device_id, spec) not in caches:
            caches[path, device_id, spec] = feature_caches(folder, device_id, layout)
        sources.append(ProgramSource(folder, device_id, layout, caches[path, device_id, spec], measured))
    return ProgramBlocks(tuple(sources))
