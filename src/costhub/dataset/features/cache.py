"""Provides FeatureCache: computed features on disk, by record id and spec, which can be computed again at any time."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.features.cache_part import (
    PART_PATTERN,
    CachePart,
    PartLost,
    new_part_path,
    pack_features,
    read_part,
    read_rows,
    read_table,
    write_part,
)
from costhub.dataset.features.spec import FeatureSpec
from costhub.dataset.folder import first_of_each
from costhub.dataset.programs import FloatArray, IntArray
from costhub.dataset.shards.lock import FolderLock
from costhub.dataset.shards.shard_set import remove_temporaries
from costhub.files import cache_root

PART_BYTES = 64 << 20
"""Largest merged part, uncompressed: each reading thread has two of them in memory."""

NOT_COMPUTED = -2
"""The count of a program whose features have not been computed."""

_THREADS = 4
"""May exceed the number of cores: a thread that waits for the disk needs none."""

_PACKAGE = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class CacheLookup:
    """Where the features of some records are."""

    counts: IntArray
    """(n,) number of feature rows of each record; FAILED where it has none, else NOT_COMPUTED."""
    places: IntArray
    """(n,) index of each among the programs of all parts, one after the other; -1 if not computed."""
    parts: tuple[CachePart, ...]

    def take(self, which: IntArray) -> CacheLookup:
        """Selects the records at `which`."""
        return CacheLookup(self.counts[which], self.places[which], self.parts)


class FeatureCache:
    """The features of one device's programs in one layout.

    Parts lie under `features/<spec>/<device>` in the data folder; if it is not writable, in the user's cache;
    failing that, in a temporary folder that goes with this object. A part that is damaged, or was computed
    with another version of TVM or of the spec, is removed, and its programs are computed again.
    """

    def __init__(self, root: Path, device_id: str, spec: FeatureSpec) -> None:
        """Finds the cache of a device in the data folder `root` without reading it."""
        self.spec = spec
        chosen, places = feature_folders(root)
        if chosen is None:
            chosen = Path(tempfile.mkdtemp(prefix="costhub-features-"))
            weakref.finalize(self, shutil.rmtree, chosen, ignore_errors=True)
        self.folder = chosen / spec.name / device_id
        """The folder for new parts."""
        self._folders = dict.fromkeys([self.folder, *(place / spec.name / device_id for place in places)])
        self._parts: dict[Path, CachePart | None] = {}

    def find(self, record_ids: pa.Array) -> CacheLookup:
        """Looks up distinct records, as Arrow strings."""
        self._refresh()
        parts = tuple(part for part in self._parts.values() if part is not None)
        counts, places = np.full(len(record_ids), NOT_COMPUTED), np.full(len(record_ids), -1)
        if parts and len(record_ids):
            ids = pa.chunked_array([chunk for part in parts for chunk in part.record_ids.chunks], pa.string())
            positions = pc.fill_null(pc.index_in(ids, value_set=record_ids), -1).to_numpy()
            # Backwards, so that the first part counts where two hold a program.
            in_cache = np.flatnonzero(positions >= 0)[::-1]
            places[positions[in_cache]] = in_cache
            is_found = places >= 0
            counts[is_found] = np.concatenate([part.counts for part in parts])[places[is_found]]
        return CacheLookup(counts, places, parts)

    def read(self, lookup: CacheLookup) -> FloatArray:
        """Reads feature rows.

        Args:
            lookup: The result of `find`.

        Returns:
            (r, width) rows of all records that have any, in the order of the records.

        Raises:
            PartLost: A part has gone or broken in the meantime; look the records up again.
        """
        sizes = np.maximum(lookup.counts, 0)
        starts = np.cumsum(sizes) - sizes
        # Arrow's pool hands out memory that earlier reads have touched; new pages take as long as the copy.
        buffer = pa.allocate_buffer(int(sizes.sum()) * self.spec.width * 4)
        rows = np.frombuffer(buffer, np.float32).reshape(-1, self.spec.width)
        records = np.flatnonzero(sizes)
        records = records[np.argsort(lookup.places[records], kind="stable")]
        firsts = np.cumsum([0, *(len(part.counts) for part in lookup.parts)])
        bounds = np.searchsorted(lookup.places[records], firsts)

        def fill(number: int) -> None:
            mine = records[bounds[number] : bounds[number + 1]]
            if len(mine):
                self._fill(rows, starts[mine], lookup.parts[number], lookup.places[mine] - firsts[number])

        with ThreadPoolExecutor(_THREADS) as threads:
            list(threads.map(fill, range(len(lookup.parts))))
        return rows

    def append(self, record_ids: Sequence[str], features: Sequence[FloatArray | None]) -> None:
        """Adds a part with these programs.

        Args:
            record_ids: The records.
            features: A (rows, width) array for each, or None for a program without features.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with FolderLock(self.folder, wait=True):
            write_part(pack_features(self.spec, record_ids, features), new_part_path(self.folder))

    def merge(self) -> None:
        """Merges small parts; an interruption may leave programs twice, but loses none."""
        if not self.folder.is_dir():
            return
        with FolderLock(self.folder, wait=True):
            remove_temporaries(self.folder)
            self._refresh()
            for group in self._small_groups():
                try:
                    table = pa.concat_tables([read_table(part) for part in group])
                except PartLost:
                    continue  # reading it handles this
                write_part(first_of_each(table, "record_id"), new_part_path(self.folder))
                for part in group:
                    self._discard(part.path)

    def _small_groups(self) -> list[list[CachePart]]:
        groups: list[list[CachePart]] = [[]]
        size_bytes = 0
        for part in self._parts.values():
            if part is None or part.path.parent != self.folder:
                continue
            part_bytes = part.rows * self.spec.width * 4
            if part_bytes > PART_BYTES // 2:
                continue
            if size_bytes + part_bytes > PART_BYTES:
                groups.append([])
                size_bytes = 0
            groups[-1].append(part)
            size_bytes += part_bytes
        return [group for group in groups if len(group) > 1]

    def _refresh(self) -> None:
        """Lists the folders again: opens new parts and forgets removed ones."""
        paths = [path for folder in self._folders for path in sorted(folder.glob(PART_PATTERN))]
        new = [path for path in paths if path not in self._parts]
        with ThreadPoolExecutor(_THREADS) as threads:
            opened = dict(zip(new, threads.map(self._open, new), strict=True))
        self._parts = {path: (self._parts | opened)[path] for path in paths}

    def _open(self, path: Path) -> CachePart | None:
        try:
            part = read_part(path, self.spec)
        except FileNotFoundError:
            return None
        if part is None:
            self._discard(path)
        return part

    def _discard(self, path: Path) -> None:
        """Removes a part; ignores it from now on if the disk is read-only."""
        self._parts[path] = None
        with contextlib.suppress(OSError):
            path.unlink()

    def _fill(self, rows: FloatArray, starts: IntArray, part: CachePart, places: IntArray) -> None:
        """Copies the programs at ascending `places` of a part to the rows from `starts` on."""
        try:
            values = read_rows(part, self.spec.width)
        except PartLost:
            self._discard(part.path)
            raise
        sizes = part.counts[places]
        ends = np.cumsum(np.maximum(part.counts, 0))[places]
        sources = ends - sizes
        # Programs that follow one another in both places are copied at once: usually the whole part.
        breaks = (sources[1:] != ends[:-1]) | (starts[1:] != (starts + sizes)[:-1])
        first = np.concatenate([[0], np.flatnonzero(breaks) + 1])
        last = np.append(first[1:], len(places)) - 1
        for source, end, start in zip(sources[first], ends[last], starts[first], strict=True):
            rows[start : start + end - source] = values[source:end]


def feature_folders(root: Path) -> tuple[Path | None, tuple[Path, ...]]:
    """Chooses the folders for the features of the data folder `root`.

    Features go to `root/features`. If that is not writable, or the data are part of the installed package,
    they go to a folder in the user's cache named after the path of the data; features in `root/features` are
    read in any case.

    Returns:
        The folder to write to, which is created, or None if none is writable; and the folders to read from.
    """
    beside, in_cache = root / "features", _in_user_cache(root)
    is_installed = _PACKAGE in root.resolve().parents
    places = [in_cache] if is_installed else [beside, in_cache]
    chosen = next((place for place in places if _can_write(place)), None)
    return chosen, tuple(dict.fromkeys([*([chosen] if chosen else []), beside]))


def _in_user_cache(root: Path) -> Path:
    return cache_root() / "features" / hashlib.sha256(str(root.resolve()).encode()).hexdigest()[:16]


def _can_write(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        return os.access(folder, os.W_OK | os.X_OK)
    return False
