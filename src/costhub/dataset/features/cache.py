"""Provides FeatureCache: computed features on disk, by program and spec, which can be computed again at any time."""

from __future__ import annotations

import contextlib
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
from costhub.dataset.features.program_key import KEY_TYPE
from costhub.dataset.features.spec import FeatureSpec
from costhub.dataset.folder import first_of_each
from costhub.dataset.programs import FloatArray, IntArray
from costhub.dataset.shards.lock import FolderLock
from costhub.dataset.shards.shard_set import remove_temporaries
from costhub.errors import DataError, first_line
from costhub.files import CACHE_VARIABLE, cache_root, is_own

PART_BYTES = 64 << 20
"""Largest merged part, uncompressed: each reading thread holds two of them in memory."""

MOST_CACHE_BYTES = 32 << 30
"""Limit for all parts on disk; beyond it, the least recently read ones are removed."""

NOT_COMPUTED = -2
"""The count of a program whose features have not been computed."""

_THREADS = 4
"""May exceed the number of cores: a thread that waits for the disk needs none."""


@dataclass(frozen=True)
class CacheLookup:
    """Where the features of some programs are."""

    counts: IntArray
    """(n,) number of feature rows of each program; FAILED if it has none, NOT_COMPUTED if not yet computed."""
    places: IntArray
    """(n,) index of each among the programs of all parts, one after the other; -1 if not computed."""
    parts: tuple[CachePart, ...]

    def take(self, which: IntArray) -> CacheLookup:
        """Selects the programs at `which`."""
        return CacheLookup(self.counts[which], self.places[which], self.parts)


class FeatureCache:
    """The features of programs for one device in one layout, across all data folders.

    Programs are found by their `ProgramKeys`, a hash of their content, so one folder never sees what another one
    claims. Parts are stored under `features/<spec>/<device>` in the user's cache; if it is not writable or belongs to
    someone else, new ones go to a temporary folder that is removed with this object. Parts of other users are not
    read. A part that is damaged, or was computed with another version of TVM or of the spec, is removed, and its
    programs are computed again.
    """

    def __init__(self, device_id: str, spec: FeatureSpec) -> None:
        """Finds the cache without reading it."""
        self.spec = spec
        kept = features_root() / spec.name / device_id
        self.folder = kept
        """The folder for new parts."""
        if not _can_keep(kept):
            self.folder = Path(tempfile.mkdtemp(prefix="costhub-features-"))
            weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        self._folders = dict.fromkeys([self.folder, kept])
        self._parts: dict[Path, CachePart | None] = {}

    def find(self, keys: pa.Array) -> CacheLookup:
        """Looks up programs by their keys, an array of `KEY_TYPE`; one may occur more than once."""
        self._refresh()
        parts = tuple(part for part in self._parts.values() if part is not None)
        counts, places = np.full(len(keys), NOT_COMPUTED), np.full(len(keys), -1)
        if parts and len(keys):
            wanted = keys.dictionary_encode()
            held = pa.chunked_array([chunk for part in parts for chunk in part.keys.chunks], KEY_TYPE)
            positions = pc.fill_null(pc.index_in(held, value_set=wanted.dictionary), -1).to_numpy()
            # Backwards, so that the first part wins if two hold a program.
            in_cache = np.flatnonzero(positions >= 0)[::-1]
            place_of = np.full(len(wanted.dictionary), -1)
            place_of[positions[in_cache]] = in_cache
            places = place_of[wanted.indices.to_numpy()]
            is_found = places >= 0
            counts[is_found] = np.concatenate([part.counts for part in parts])[places[is_found]]
        return CacheLookup(counts, places, parts)

    def read(self, lookup: CacheLookup) -> FloatArray:
        """Reads feature rows.

        Args:
            lookup: The result of `find`.

        Returns:
            (r, width) rows of all programs that have any, in the order of the programs.

        Raises:
            PartLost: A part has been removed or damaged in the meantime; look the programs up again.
        """
        sizes = np.maximum(lookup.counts, 0)
        starts = np.cumsum(sizes) - sizes
        # Arrow's pool reuses memory touched by earlier reads; faulting in new pages takes as long as the copy.
        buffer = pa.allocate_buffer(int(sizes.sum()) * self.spec.width * 4)
        rows = np.frombuffer(buffer, np.float32).reshape(-1, self.spec.width)
        programs = np.flatnonzero(sizes)
        programs = programs[np.argsort(lookup.places[programs], kind="stable")]
        firsts = np.cumsum([0, *(len(part.counts) for part in lookup.parts)])
        bounds = np.searchsorted(lookup.places[programs], firsts)

        def fill(number: int) -> None:
            mine = programs[bounds[number] : bounds[number + 1]]
            if len(mine):
                self._fill(rows, starts[mine], lookup.parts[number], lookup.places[mine] - firsts[number])

        with ThreadPoolExecutor(_THREADS) as threads:
            list(threads.map(fill, range(len(lookup.parts))))
        return rows

    def append(self, keys: Sequence[bytes], features: Sequence[FloatArray | None]) -> None:
        """Adds a part with these programs.

        Args:
            keys: The key of each program.
            features: A (rows, width) array for each, or None for a program without features.

        Raises:
            DataError: The part cannot be written, as on a full disk.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with FolderLock(self.folder, wait=True):
                write_part(pack_features(self.spec, keys, features), new_part_path(self.folder))
        except OSError as error:
            raise DataError(
                f"Features cannot be kept in {self.folder} ({first_line(error)}). Free some space there, or set "
                f"{CACHE_VARIABLE} to another folder."
            ) from error

    def merge(self) -> None:
        """Merges small parts, and removes old ones if the cache has grown too large.

        An interruption may leave duplicate programs, but loses none.
        """
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
                write_part(first_of_each(table, "program"), new_part_path(self.folder))
                for part in group:
                    self._discard(part.path)
        remove_unused(features_root(), most_bytes=MOST_CACHE_BYTES, but=self.folder)

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
        paths = [path for folder in self._folders for path in sorted(folder.glob(PART_PATTERN)) if is_own(path)]
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
            with contextlib.suppress(OSError):
                os.utime(part.path)  # recently read parts stay longest
        except PartLost:
            self._discard(part.path)
            raise
        sizes = part.counts[places]
        ends = np.cumsum(np.maximum(part.counts, 0))[places]
        sources = ends - sizes
        # Programs that are consecutive in both places are copied together: usually the whole part.
        breaks = (sources[1:] != ends[:-1]) | (starts[1:] != (starts + sizes)[:-1])
        first = np.concatenate([[0], np.flatnonzero(breaks) + 1])
        last = np.append(first[1:], len(places)) - 1
        for source, end, start in zip(sources[first], ends[last], starts[first], strict=True):
            rows[start : start + end - source] = values[source:end]


def features_root() -> Path:
    """The folder of all cached features; it can be removed at any time."""
    return cache_root() / "features"


def remove_unused(root: Path, *, most_bytes: int, but: Path) -> None:
    """Removes the least recently read parts, until the rest has at most `most_bytes` bytes.

    Args:
        root: The folder below which parts are stored.
        most_bytes: How many bytes may stay.
        but: A folder whose parts stay in any case.
    """
    sizes: dict[Path, tuple[int, int]] = {}
    for path in root.rglob(PART_PATTERN):
        with contextlib.suppress(OSError):  # another process may remove it
            status = path.stat()
            sizes[path] = status.st_mtime_ns, status.st_size
    surplus = sum(size for _, size in sizes.values()) - most_bytes
    for path in sorted(sizes, key=sizes.__getitem__):
        if surplus <= 0:
            return
        if path.parent != but:
            with contextlib.suppress(OSError):
                path.unlink()
                surplus -= sizes[path][1]


def _can_keep(folder: Path) -> bool:
    """Whether this user may write to a folder below the cache, and nobody else owns it or what it lies in."""
    root = features_root()
    with contextlib.suppress(OSError):
        root.mkdir(parents=True, exist_ok=True)
        places = [place for place in (root, folder.parent, folder) if place.exists()]
        return all(os.access(place, os.W_OK | os.X_OK) and is_own(place) for place in places)
    return False
