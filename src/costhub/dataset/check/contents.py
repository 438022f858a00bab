"""Provides Contents: what can be read of a data folder, and what cannot, for the rules that check it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from costhub.dataset.folder import DataFolder
from costhub.dataset.journal import JOURNAL, read_journal
from costhub.dataset.schema import table_from_rows
from costhub.dataset.shard import check_shard, empty_table, read_shard
from costhub.dataset.shard_set import shard_paths
from costhub.errors import DataError


@dataclass(frozen=True)
class Source:
    """Measurements in one file."""

    where: str
    """Its path within the data folder."""
    device_id: str
    """The device of the folder it lies in."""
    path: Path
    is_journal: bool

    def read(self, *columns: str) -> pa.Table:
        """Reads some columns; nothing is kept in memory between the rules."""
        if not self.is_journal:
            return read_shard(self.path, columns)
        rows, _ = read_journal(self.path)
        return table_from_rows("measurements", rows).select(list(columns))


@dataclass
class Contents:
    """The readable parts of a data folder, with a sentence on every other part."""

    root: Path
    devices: pa.Table
    workloads: pa.Table
    sources: list[Source] = field(default_factory=list)
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    """(path, sentence) of every damaged file."""
    foreign: list[tuple[str, str]] = field(default_factory=list)
    """(path, sentence) of every sound Parquet file that is no shard of this table and schema."""

    @property
    def shards(self) -> list[Source]:
        """The sources that are shards."""
        return [source for source in self.sources if not source.is_journal]

    def table_folders(self) -> Iterator[Path]:
        """Yields every folder that holds shards."""
        yield self.root / "devices"
        yield self.root / "workloads"
        yield from (self.root / "measurements" / name for name in DataFolder(self.root).device_ids())


def read_contents(root: str | Path) -> Contents:
    """Reads a data folder as far as possible.

    Raises:
        DataError: It is not a data folder at all.
    """
    folder = DataFolder.open(root)
    contents = Contents(folder.path, empty_table("devices"), empty_table("workloads"))
    contents.devices = _read_small(contents, "devices")
    contents.workloads = _read_small(contents, "workloads")
    for device_id in folder.device_ids():
        place = folder.path / "measurements" / device_id
        for path in shard_paths(place):
            source = Source(_within(contents, path), device_id, path, is_journal=False)
            if _sound(contents, path, "measurements") is not None:
                contents.sources.append(source)
        _read_journal(contents, device_id, place / JOURNAL)
    return contents


def _read_small(contents: Contents, table: str) -> pa.Table:
    parts = [_sound(contents, path, table) for path in shard_paths(contents.root / table)]
    return pa.concat_tables([empty_table(table), *(part for part in parts if part is not None)])


def _read_journal(contents: Contents, device_id: str, path: Path) -> None:
    try:
        rows, _ = read_journal(path)
    except DataError as error:
        contents.unreadable.append((_within(contents, path), str(error)))
        return
    if rows:
        contents.sources.append(Source(_within(contents, path), device_id, path, is_journal=True))


def _sound(contents: Contents, path: Path, table: str) -> pa.Table | None:
    """Reads all of a shard, since a sound footer says nothing of the pages; notes what is wrong with it."""
    try:
        check_shard(path, table=table)
    except DataError as error:
        damaged = "not a complete Parquet file" in str(error)
        (contents.unreadable if damaged else contents.foreign).append((_within(contents, path), str(error)))
        return None
    try:
        return read_shard(path, table=table)
    except DataError as error:
        contents.unreadable.append((_within(contents, path), str(error)))
        return None


def _within(contents: Contents, path: Path) -> str:
    return path.relative_to(contents.root).as_posix()
