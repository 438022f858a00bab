"""Provides FeatureCache: computed features on disk, by record id and spec, to be computed again at will."""

from __future__ import annotations

import contextlib
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

from costhub.dataset.features.part import (
    PATTERN,
    Part,
    PartLost,
    new_path,
    pack,
    read_part,
    read_rows,
    read_table,
    write_part,
)
from costhub.dataset.features.place import feature_folders
from costhub.dataset.features.spec import FeatureSpec
from costhub.dataset.folder import first_of_each
from costhub.dataset.programs import FloatArray, IntArray
from costhub.dataset.shards.lock import FolderLock
from costhub.dataset.shards.shard_set import remove_temporaries

PART_BYTES = 64 << 20
"""What a merged part holds at most, uncompressed: two of them are in memory per reading thread."""

UNKNOWN = -2
"""The count of a program whose features have not been computed."""

_THREADS = 4
"""More than there are cores may do: a thread that waits for the disk needs none."""


@dataclass(frozen=True)
class Found:
    """What the cache knows of some records."""

    counts: IntArray
    """(n,) number of feature rows of each record; FAILED where it has none, UNKNOWN where it is not known."""
    places: IntArray
    """(n,) where each is among the programs of all parts, one after the other; -1 where it is unknown."""
    parts: tuple[Part, ...]

    def take(self, which: IntArray) -> Found:
        """What is known of the records at `which`."""
        return Found(self.counts[which], self.places[which], self.parts)


class FeatureCache:
    """The features of one device's programs in one layout.

    Parts lie under `features/<spec>/<device>` in the data folder, or in the user's cache where nothing can be
    written there, or in a temporary folder that goes with this object where there is neither. A part that is
    damaged, or was made with another version of TVM or of the spec, is removed: its programs are unknown and
    computed again.
    """

    def __init__(self, root: Path, device_id: str, spec: FeatureSpec) -> None:
        """Finds the cache of a device in the data folder `root`; nothing is read yet."""
        self.spec = spec
        chosen, places = feature_folders(root)
        if chosen is None:
            chosen = Path(tempfile.mkdtemp(prefix="costhub-features-"))
            weakref.finalize(self, shutil.rmtree, chosen, ignore_errors=True)
        self.folder = chosen / spec.name / device_id
        """Where parts are written."""
        self._folders = dict.fromkeys([self.folder, *(place / spec.name / device_id for place in places)])
        self._parts: dict[Path, Part | None] = {}

    def find(self, record_ids: pa.Array) -> Found:
        """Looks up different records, as Arrow strings."""
        self._refresh()
        parts = tuple(part for part in self._parts.values() if part is not None)
        counts, places = np.full(len(record_ids), UNKNOWN), np.full(len(record_ids), -1)
        if parts and len(record_ids):
            ids = pa.chunked_array([chunk for part in parts for chunk in part.record_ids.chunks], pa.string())
            wanted = pc.fill_null(pc.index_in(ids, value_set=record_ids), -1).to_numpy()
            # Backwards, so that of a program in two parts the first one counts.
            known = np.flatnonzero(wanted >= 0)[::-1]
            places[wanted[known]] = known
            found = places >= 0
            counts[found] = np.concatenate([part.counts for part in parts])[places[found]]
        return Found(counts, places, parts)

    def read(self, found: Found) -> FloatArray:
        """Reads feature rows.

        Args:
            found: What `find` returned.

        Returns:
            (r, width) rows of all records that have any, in the order of the records.

        Raises:
            PartLost: A part has gone or broken meanwhile; look the records up again.
        """
        sizes = np.maximum(found.counts, 0)
        starts = np.cumsum(sizes) - sizes
        # Arrow's pool gives out memory that earlier reads have touched; new pages take as long as the copy.
        buffer = pa.allocate_buffer(int(sizes.sum()) * self.spec.width * 4)
        rows = np.frombuffer(buffer, np.float32).reshape(-1, self.spec.width)
        records = np.flatnonzero(sizes)
        records = records[np.argsort(found.places[records], kind="stable")]
        firsts = np.cumsum([0, *(len(part.counts) for part in found.parts)])
        bounds = np.searchsorted(found.places[records], firsts)

        def fill(number: int) -> None:
            mine = records[bounds[number] : bounds[number + 1]]
            if len(mine):
                self._fill(rows, starts[mine], found.parts[number], found.places[mine] - firsts[number])

        with ThreadPoolExecutor(_THREADS) as threads:
            list(threads.map(fill, range(len(found.parts))))
        return rows

    def append(self, record_ids: Sequence[str], features: Sequence[FloatArray | None]) -> None:
        """Adds a part with these programs.

        Args:
            record_ids: The records.
            features: For each a (rows, width) array, or None for a program that has no features.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with FolderLock(self.folder, wait=True):
            write_part(pack(self.spec, record_ids, features), new_path(self.folder))

    def merge(self) -> None:
        """Puts small parts together; an interruption leaves programs twice at worst, and loses none."""
        if not self.folder.is_dir():
            return
        with FolderLock(self.folder, wait=True):
            remove_temporaries(self.folder)
            self._refresh()
            for group in self._small_groups():
                try:
                    table = pa.concat_tables([read_table(part) for part in group])
                except PartLost:
                    continue  # it is dealt with when it is read
                write_part(first_of_each(table, "record_id"), new_path(self.folder))
                for part in group:
                    self._discard(part.path)

    def _small_groups(self) -> list[list[Part]]:
        groups: list[list[Part]] = [[]]
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
        """Lists the folders again: what is new is opened, what is gone is forgotten."""
        paths = [path for folder in self._folders for path in sorted(folder.glob(PATTERN))]
        new = [path for path in paths if path not in self._parts]
        with ThreadPoolExecutor(_THREADS) as threads:
            opened = dict(zip(new, threads.map(self._open, new), strict=True))
        self._parts = {path: (self._parts | opened)[path] for path in paths}

    def _open(self, path: Path) -> Part | None:
        try:
            part = read_part(path, self.spec)
        except FileNotFoundError:
            return None
        if part is None:
            self._discard(path)
        return part

    def _discard(self, path: Path) -> None:
        """Removes a part; one on a disk that is read-only is not looked at again."""
        self._parts[path] = None
        with contextlib.suppress(OSError):
            path.unlink()

    def _fill(self, rows: FloatArray, starts: IntArray, part: Part, places: IntArray) -> None:
        """Copies the programs at ascending `places` of a part to the rows from `starts` on."""
        try:
            values = read_rows(part, self.spec.width)
        except PartLost:
            self._discard(part.path)
            raise
        sizes = part.counts[places]
        ends = np.cumsum(np.maximum(part.counts, 0))[places]
        sources = ends - sizes
        # Programs that follow one another here and there are copied at once; mostly it is the whole part.
        breaks = (sources[1:] != ends[:-1]) | (starts[1:] != (starts + sizes)[:-1])
        first = np.concatenate([[0], np.flatnonzero(breaks) + 1])
        last = np.append(first[1:], len(places)) - 1
        for source, end, start in zip(sources[first], ends[last], starts[first], strict=True):
            rows[start : start + end - source] = values[source:end]
