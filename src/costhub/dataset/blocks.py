"""Provides ProgramBlocks: the programs of a data folder in blocks, each read when accessed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.features.cache import NOT_COMPUTED, CacheLookup, FeatureCache
from costhub.dataset.features.cache_part import PartLost
from costhub.dataset.features.combined import blank_rows, fill_part
from costhub.dataset.features.compute import ProgramSource, compute_missing
from costhub.dataset.features.program_key import KEY_COLUMNS, KEY_TYPE, ProgramKeys, key_array, modules_of
from costhub.dataset.features.spec import FeatureSpec
from costhub.dataset.features.specs import DEFAULT_SPEC, find_spec
from costhub.dataset.folder import DataFolder, among
from costhub.dataset.latency import median_latency_s
from costhub.dataset.programs import FloatArray, IntArray, Programs, is_among
from costhub.errors import DataError

BLOCK_PROGRAMS = 16_384
"""Some 90 MB of rows of `per_store@1`; a block has more only if a single workload has."""

_READ_ATTEMPTS = 5
_OUTCOMES = pa.schema(
    [("key", KEY_TYPE), ("workload_id", pa.string()), ("status", pa.string()), ("run_s", pa.list_(pa.float64()))]
)
_OR_SEVERAL = ", or several: programs are compared within each device."


@dataclass(frozen=True)
class DeviceFeatures:
    """The features of one device in one layout: finds them in their caches, and computes missing ones."""

    source: DataFolder | ProgramSource
    """What holds the programs."""
    device_id: str
    spec: FeatureSpec
    caches: tuple[FeatureCache, ...]
    """One for each part of the spec: the cache stores only simple specs."""

    @classmethod
    def open(cls, path: Path, device_id: str, spec: str) -> DeviceFeatures:
        """Those of a data folder; finds the caches of a device without reading them."""
        return cls.of(DataFolder.open(path), device_id, spec)

    @classmethod
    def of(cls, source: DataFolder | ProgramSource, device_id: str, spec: str) -> DeviceFeatures:
        """Those of any source of programs; finds the caches of a device without reading them."""
        layout = find_spec(spec)
        return cls(source, device_id, layout, tuple(FeatureCache(device_id, part) for part in layout.parts))

    def find(self, keys: pa.Array, *, progress: bool) -> list[CacheLookup]:
        """Looks programs up in each cache by their keys; computes and caches missing features."""
        return [self._find(cache, keys, progress=progress) for cache in self.caches]

    def _find(self, cache: FeatureCache, keys: pa.Array, *, progress: bool) -> CacheLookup:
        lookup = cache.find(keys)
        missing = keys.filter(pa.array(lookup.counts == NOT_COMPUTED)).unique()
        if len(missing):
            compute_missing(self.source, cache, self.device_id, missing, progress=progress)
            lookup = cache.find(keys)
        return lookup

    def read(self, lookups: Sequence[CacheLookup]) -> FloatArray:
        """Reads the rows of the programs that were looked up; raises `PartLost` as `FeatureCache.read` does."""
        if len(self.caches) == 1:
            return self.caches[0].read(lookups[0])
        # One part at a time: besides the returned rows, only those of one part are in memory.
        rows = blank_rows([lookup.counts for lookup in lookups], [part.width for part in self.spec.parts])
        for number, (cache, lookup) in enumerate(zip(self.caches, lookups, strict=True)):
            fill_part(rows, number, cache.read(lookup))
        return rows

    def __reduce__(self) -> tuple[Callable[..., DeviceFeatures], tuple[Any, ...]]:
        """Pickles no state of the caches, which another process reopens, once for all blocks of a device."""
        if isinstance(self.source, DataFolder):
            return DeviceFeatures.open, (self.source.path, self.device_id, self.spec.name)
        return DeviceFeatures.of, (self.source, self.device_id, self.spec.name)


@dataclass(frozen=True)
class ProgramBlock:
    """Measured programs of one device, sorted by workload, whose features are read on request."""

    features: DeviceFeatures
    keys: pa.Array
    """(n,) of `KEY_TYPE`, from `ProgramKeys`."""
    workload: IntArray
    """(n,) index into `workload_ids`, ascending."""
    workload_ids: tuple[str, ...]
    latency_s: npt.NDArray[np.float64]
    """(n,) median latency; infinite for a program that failed."""

    def take(self, places: IntArray) -> ProgramBlock:
        """Returns the programs at `places`, which ascend."""
        return replace(
            self,
            keys=self.keys.take(pa.array(places, pa.int64())),
            workload=self.workload[places],
            latency_s=self.latency_s[places],
        )

    def cut(self, programs: int) -> Iterator[ProgramBlock]:
        """Yields pieces of whole workloads; each but the last has at least `programs`."""
        ends = np.flatnonzero(np.diff(self.workload, append=-1)) + 1
        start = 0
        for end in ends.tolist():
            if end - start >= programs or end == ends[-1]:
                yield self.take(np.arange(start, end))
                start = end

    def of_workloads(self, ids: Collection[str]) -> ProgramBlock:
        """Returns the programs whose workload is in `ids`, or is the single one named."""
        is_chosen = is_among(ids, self.workload_ids)
        return self.take(np.flatnonzero(is_chosen[self.workload]))

    def at_most(self, count: int, *, seed: int) -> ProgramBlock:
        """Draws at most `count` programs of each workload; which ones does not depend on the other workloads."""
        if not len(self.keys):
            return self
        # The keys are hashes of the programs, so any bits of them are random; the seed says which.
        start = np.random.default_rng(seed).integers(KEY_TYPE.byte_width - 8)
        raw = np.frombuffer(b"".join(self.keys.to_pylist()), np.uint8).reshape(-1, KEY_TYPE.byte_width)
        order = np.lexsort((raw[:, start : start + 8].copy().view(np.uint64)[:, 0], self.workload))
        _, starts, sizes = np.unique(self.workload[order], return_index=True, return_counts=True)
        place = np.arange(len(order)) - np.repeat(starts, sizes)
        return self.take(np.sort(order[place < count]))

    def with_features(self, *, progress: bool) -> tuple[ProgramBlock, list[CacheLookup]]:
        """Computes missing features; returns the programs that have features, and their locations."""
        good, lookups = self._found(progress=progress)
        return self.take(good), lookups

    def _found(self, *, progress: bool) -> tuple[IntArray, list[CacheLookup]]:
        lookups = self.features.find(self.keys, progress=progress)
        good = np.flatnonzero(np.all([lookup.counts >= 0 for lookup in lookups], axis=0))
        return good, [lookup.take(good) for lookup in lookups]

    def load(self, *, progress: bool) -> Programs:
        """Reads the programs that have features; computes and caches missing ones.

        Raises:
            DataError: The files of the cache cannot be read, even after they were rewritten.
        """
        return self.load_with_places(progress=progress)[0]

    def load_with_places(self, *, progress: bool) -> tuple[Programs, IntArray]:
        """Like `load`; also returns the place of each program in this block."""
        for _ in range(_READ_ATTEMPTS):
            good, lookups = self._found(progress=progress)
            block = self.take(good)
            try:
                rows = self.features.read(lookups)
            except PartLost:
                continue
            used, workload = np.unique(block.workload, return_inverse=True)
            programs = Programs(
                rows,
                np.sum([lookup.counts for lookup in lookups], axis=0, dtype=np.int64),
                workload,
                tuple(self.workload_ids[i] for i in used),
                block.latency_s,
                self.features.spec.name,
                device_ids=(self.features.device_id,),
            )
            return programs, good
        folders = " or ".join(str(cache.folder) for cache in self.features.caches)
        raise DataError(f"The cached features in {folders} keep getting damaged; check the disk, or remove the folder.")


def open_devices(
    path: str | Path,
    device: str | Sequence[str] | None,
    workloads: set[str] | None,
    spec: str,
    *,
    failures: bool,
) -> list[ProgramBlock]:
    """Finds the measurements that `load_programs` reads: one block for each device, features missing or not.

    Raises:
        DataError: The folder cannot be read, lacks the device, or has several and `device` is not given.
        UnknownNameError: The feature spec does not exist.
    """
    find_spec(spec)  # an unknown spec is rejected before any file is read
    folder = DataFolder.open(path)
    named = device or folder.only_device(_OR_SEVERAL)
    device_ids = [named] if isinstance(named, str) else dict.fromkeys(named)
    keys = ProgramKeys(modules_of(folder))
    return [_read_block(folder, device_id, spec, keys, workloads, failures=failures) for device_id in device_ids]


def _read_block(
    folder: DataFolder, device_id: str, spec: str, keys: ProgramKeys, workloads: set[str] | None, *, failures: bool
) -> ProgramBlock:
    # Every status but ok is caused by the program itself, so each is information about it.
    where = pc.scalar(True) if failures else pc.field("status") == "ok"
    if workloads is not None:
        where &= among("workload_id", sorted(workloads))

    def kept(batches: Iterable[pa.RecordBatch]) -> pa.Table:
        # A trace takes kilobytes, so only its key stays in memory.
        return pa.Table.from_batches([_outcomes(batch, keys) for batch in batches], _OUTCOMES)

    table = folder.read_batches(kept, [device_id], [*_OUTCOMES.names[1:], *KEY_COLUMNS[1:]], where)
    latency_s = median_latency_s(table["run_s"])
    is_ok = pc.equal(table["status"], "ok").to_numpy()
    names, workload = name_codes(table["workload_id"])
    good = np.flatnonzero(~is_ok | (np.isfinite(latency_s) & (latency_s > 0)))
    order = good[np.argsort(workload[good], kind="stable")]
    own = pa.concat_arrays([key_array([]), *table["key"].chunks])
    features = DeviceFeatures.open(folder.path, device_id, spec)
    return ProgramBlock(features, own, workload, names, np.where(is_ok, latency_s, np.inf)).take(order)


def _outcomes(batch: pa.RecordBatch, keys: ProgramKeys) -> pa.RecordBatch:
    columns = [keys.of(batch), *(batch[name] for name in _OUTCOMES.names[1:])]
    return pa.RecordBatch.from_arrays(columns, schema=_OUTCOMES)


def name_codes(column: pa.ChunkedArray) -> tuple[tuple[str, ...], IntArray]:
    """Returns the distinct texts of a column in order, and the index of each row's text among them."""
    names = sorted(column.unique().to_pylist())
    return tuple(names), pc.index_in(column, value_set=pa.array(names, pa.string())).to_numpy().astype(np.int64)


@dataclass(frozen=True)
class ProgramBlocks(Sequence[Programs]):
    """A sequence of `Programs` that keeps in memory only those in use.

    A block holds whole groups, i.e. all programs of a workload on a device, as throughput is relative to the best of
    them. For all other programs only the latency is in memory, some 50 bytes. Each access reads a block again:
    do not keep blocks.

    Make one with `ProgramBlocks.open`.
    """

    blocks: tuple[ProgramBlock, ...]

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        device: str | Sequence[str] | None = None,
        workloads: set[str] | None = None,
        spec: str = DEFAULT_SPEC,
        failures: bool = False,
        block_programs: int = BLOCK_PROGRAMS,
        progress: bool = True,
    ) -> ProgramBlocks:
        """Finds the programs that `load_programs` would read; computes and caches missing features.

        Args:
            path: As for `load_programs`, like the other arguments.
            device: The device, or several.
            workloads: Ids of the workloads to keep.
            spec: Name of the feature spec.
            failures: Include programs that failed.
            block_programs: A block ends with the workload that reaches this many.
            progress: Show a progress bar on a terminal while features are computed.

        Raises:
            DataError: As for `load_programs`.
            UnknownNameError: As for `load_programs`.
        """
        devices = open_devices(path, device, workloads, spec, failures=failures)
        complete = [block.with_features(progress=progress)[0] for block in devices]
        return cls(tuple(part for block in complete for part in block.cut(block_programs)))

    def __len__(self) -> int:
        """Number of blocks."""
        return len(self.blocks)

    @overload
    def __getitem__(self, number: int) -> Programs: ...
    @overload
    def __getitem__(self, number: slice) -> ProgramBlocks: ...
    def __getitem__(self, number: int | slice) -> Programs | ProgramBlocks:
        """Reads one block, or returns several of them unread."""
        if isinstance(number, slice):
            return ProgramBlocks(self.blocks[number])
        return self.blocks[number].load(progress=False)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Programs of each block."""
        return tuple(len(block.latency_s) for block in self.blocks)

    @property
    def n(self) -> int:
        """Number of programs."""
        return sum(self.sizes)

    @property
    def workload_ids(self) -> tuple[str, ...]:
        """The workloads that have programs."""
        return tuple(self.counts())

    def counts(self) -> dict[str, int]:
        """Workload id -> number of its programs on all devices, in order of first appearance."""
        counts: dict[str, int] = {}
        for block in self.blocks:
            used, numbers = np.unique(block.workload, return_counts=True)
            for code, number in zip(used.tolist(), numbers.tolist(), strict=True):
                name = block.workload_ids[code]
                counts[name] = counts.get(name, 0) + number
        return counts

    def of_workloads(self, ids: Collection[str]) -> ProgramBlocks:
        """Selects the programs whose workload is in `ids`, or is the single one named."""
        chosen = (block.of_workloads(ids) for block in self.blocks)
        return ProgramBlocks(tuple(block for block in chosen if len(block.keys)))

    def of_devices(self, ids: Collection[str]) -> ProgramBlocks:
        """Selects the programs that were measured on the devices in `ids`, or on the single one named."""
        chosen = is_among(ids, [block.features.device_id for block in self.blocks])
        return ProgramBlocks(tuple(compress(self.blocks, chosen)))

    def share(self, number: int, of: int) -> ProgramBlocks:
        """Returns one of several shares with about equally many programs, for one of several processes.

        Example:
            >>> ProgramBlocks(()).share(0, 2).sizes
            ()
        """
        blocks = self.blocks
        if of > 1 and len(blocks) < 4 * of:
            # A few large blocks cannot be split evenly; their workloads can.
            blocks = tuple(part for block in blocks for part in block.cut(1))
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
        """Holds out whole workloads, on all devices, to decide when training should stop.

        Args:
            share: Share of the programs to hold out, in (0, 1).
            seed: Chooses the workloads.
            most_programs: Choosing ends once the workloads held out have this many programs.

        Returns:
            The remaining blocks, and the programs held out; None instead of these with fewer than four workloads.
        """
        counts = self.counts()
        names = sorted(counts)
        if len(names) < 4:
            return self, None
        enough = min(share * sum(counts.values()), most_programs)
        chosen: set[str] = set()
        for place in np.random.default_rng(seed).permutation(len(names))[: len(names) - 2]:
            if len(chosen) >= 2 and sum(counts[name] for name in chosen) >= enough:
                break
            chosen.add(names[place])
        rest = self.of_workloads(set(names) - chosen)
        return rest, Programs.join(list(self.of_workloads(chosen)))
