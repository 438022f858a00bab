"""Provides DataFolder: the devices, workloads and measurements in one folder."""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.readme import write_readme
from costhub.dataset.schema import table_from_rows
from costhub.dataset.shards.layout import RECORD_KEY, empty_table
from costhub.dataset.shards.lock import FolderLock
from costhub.dataset.shards.shard import ROW_GROUP_ROWS, write_shard
from costhub.dataset.shards.shard_set import (
    SHARD_PATTERN,
    read_measurements,
    read_shards,
    remove_temporaries,
    shard_name,
    shard_paths,
    stream_measurements,
)
from costhub.dataset.shards.writer import COMPACT_ROWS, MeasurementWriter
from costhub.errors import DataError
from costhub.names import refuse_device_name

_TABLES = ("measurements", "devices", "workloads")
"""The folders of a data folder; the first one marks it, even if creating the rest is interrupted."""

Result = TypeVar("Result")


class FolderTables(ABC):
    """The two small tables of a data folder, wherever it is; a writer that crashes may leave duplicate rows."""

    path: Path | str

    def devices(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Reads the devices table, or some of its columns.

        Raises:
            DataError: A shard cannot be read, or a column does not exist.
        """
        return self._small("devices", "device_id", columns)

    def workloads(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Reads the workloads table, or some of its columns.

        Raises:
            DataError: A shard cannot be read, or a column does not exist.
        """
        return self._small("workloads", "workload_id", columns)

    def _small(self, table: str, key: str, columns: Sequence[str] | None) -> pa.Table:
        needed = None if columns is None else list(dict.fromkeys([*columns, key]))
        rows = first_of_each(self._read_small(table, needed), key)
        return rows if columns is None else rows.select(list(columns))

    @abstractmethod
    def _read_small(self, table: str, columns: Sequence[str] | None) -> pa.Table:
        """Reads a small table from its shards."""


class DataFolder(FolderTables):
    """A data folder: `devices`, `workloads` and `measurements/<device_id>`, as Parquet.

    Example:
        >>> import tempfile
        >>> folder = DataFolder.create(tempfile.mkdtemp())
        >>> folder.put_device({"device_id": "amd-epyc", "kind": "cpu"})
        >>> folder.devices()["device_id"].to_pylist()
        ['amd-epyc']
    """

    def __init__(self, path: Path) -> None:
        """Wraps a path without looking at it; use `create` or `open`."""
        self.path: Path = path

    @classmethod
    def create(cls, path: str | Path) -> DataFolder:
        """Makes an empty data folder, or opens the one that is there.

        Raises:
            DataError: The path is a file, or a folder with other files in it.
        """
        cls.check_place(path)
        root = Path(path)
        for name in _TABLES:
            (root / name).mkdir(parents=True, exist_ok=True)
        write_readme(root)
        return cls(root)

    @staticmethod
    def check_place(path: str | Path) -> None:
        """Rejects a path where `create` cannot make a data folder; creates nothing.

        Raises:
            DataError: The path is a file, or a folder with other files in it.
        """
        root = Path(path)
        if root.is_file():
            raise DataError(f"{root} is a file; give the name of a folder.")
        if root.is_dir() and any(root.iterdir()) and not is_data_folder(root):
            raise DataError(f"{root} holds other files and is not a data folder; use another folder.")

    @classmethod
    def open(cls, path: str | Path) -> DataFolder:
        """Opens a data folder.

        Raises:
            DataError: `path` is not a data folder.
        """
        root = Path(path)
        if not is_data_folder(root):
            raise DataError(_what_it_is(root))
        return cls(root)

    def put_device(self, row: Mapping[str, Any]) -> None:
        """Adds a device, or replaces the one with the same id.

        Raises:
            DataError: The row does not fit the schema.
        """
        self._upsert("devices", "device_id", [row])

    def put_workloads(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Adds workloads, or replaces those with the same ids.

        Raises:
            DataError: A row does not fit the schema.
        """
        self._upsert("workloads", "workload_id", rows)

    def _upsert(self, table: str, key: str, rows: Sequence[Mapping[str, Any]]) -> None:
        new = table_from_rows(table, rows).to_pylist()
        folder = self.path / table
        folder.mkdir(exist_ok=True)
        with FolderLock(folder, wait=True):
            remove_temporaries(folder)
            old = {row[key]: row for row in self._small(table, key, None).to_pylist()}
            merged = old | {row[key]: row for row in new}
            target = folder / shard_name(0, 1)
            surplus = [path for path in shard_paths(folder) if path != target]
            if merged == old and not surplus:
                return
            write_shard(table_from_rows(table, list(merged.values())), target)
            # A crash before the next line leaves rows twice; readers keep the first, which is the new one.
            for path in surplus:
                path.unlink()

    def _read_small(self, table: str, columns: Sequence[str] | None) -> pa.Table:
        return read_shards(self.path / table, table, columns)

    def device_ids(self) -> list[str]:
        """Names of the devices that have a folder of measurements."""
        folders = (path for path in (self.path / "measurements").iterdir() if path.is_dir())
        return sorted(path.name for path in folders if not path.name.startswith("."))

    def only_device(self, advice: str) -> str:
        """The one device that has a folder of measurements.

        Args:
            advice: Completes the sentence "... name one of them" in the error.

        Raises:
            DataError: There are several, or none.
        """
        device_ids = self.device_ids()
        if not device_ids:
            raise DataError(f"{self.path} holds no measurements yet; `costhub collect --out {self.path}` adds some.")
        if len(device_ids) > 1:
            raise DataError(
                f"{self.path} has measurements of {len(device_ids)} devices ({', '.join(device_ids)}); "
                f"name one of them{advice}"
            )
        return device_ids[0]

    def writer(self, device_id: str, *, compact_rows: int = COMPACT_ROWS) -> MeasurementWriter:
        """Opens the measurements of one device for writing; use it in a `with` statement.

        Raises:
            DataError: Another writer is at work, or the files there cannot be read.
        """
        refuse_device_name(device_id)
        return MeasurementWriter(self._measurements(device_id), device_id, compact_rows=compact_rows)

    def measurements(
        self, device_id: str | None = None, columns: Sequence[str] | None = None, status: str | None = None
    ) -> pa.Table:
        """Reads measurements from shards and journals, every record once.

        Args:
            device_id: One device; all by default.
            columns: Columns to read; all by default.
            status: One status; all by default.

        Raises:
            DataError: A shard or journal cannot be read, or a device or column does not exist.
        """
        where = None if status is None else pc.field("status") == status
        return self.select_measurements(None if device_id is None else [device_id], columns, where)

    def select_measurements(
        self,
        device_ids: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
    ) -> pa.Table:
        """Reads the measurements of some devices that meet a condition, every record once.

        Raises:
            DataError: A shard or journal cannot be read, or a device or column does not exist.
        """
        chosen = chosen_devices(self, self.device_ids(), device_ids)
        # The key of records is always read: without it a record in two places would count twice.
        names = empty_table("measurements", columns).schema.names
        empty = empty_table("measurements", [*names, RECORD_KEY])
        parts = [read_measurements(self._measurements(device_id), empty.schema.names, where) for device_id in chosen]
        return first_of_each(pa.concat_tables([empty, *parts]), RECORD_KEY).select(names)

    def iter_measurements(
        self,
        device_ids: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
        *,
        batch_rows: int = ROW_GROUP_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """Reads the rows of `select_measurements` in batches, with memory use that does not grow with the folder.

        Yields:
            Batches of at most `batch_rows` rows, device by device, every record once.

        Raises:
            DataError: As for `select_measurements`, or a writer moves the shards in the meantime.
        """
        names = empty_table("measurements", columns).schema.names
        for device_id in chosen_devices(self, self.device_ids(), device_ids):
            for batch in stream_measurements(self._measurements(device_id), [*names, RECORD_KEY], where, batch_rows):
                yield batch.select(names)

    def read_batches(
        self,
        read: Callable[[Iterable[pa.RecordBatch]], Result],
        device_ids: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
    ) -> Result:
        """Applies `read` to the rows of `select_measurements` in batches, and returns its result.

        The batches are whole tables only while a writer moves the shards.

        Args:
            read: Called with an iterator of batches, and once more if that failed.
            device_ids: As for `select_measurements`, like the other arguments.
            columns: Columns to read.
            where: Condition on the rows.

        Raises:
            DataError: As for `select_measurements`.
        """
        before = self._shards()
        with contextlib.suppress(DataError):
            result = read(self.iter_measurements(device_ids, columns, where))
            if self._shards() == before:
                return result
        # Whole shards take several times the memory, but this call waits for the writer. It also reports damage again.
        return read(self.select_measurements(device_ids, columns, where).to_batches())

    def _shards(self) -> list[Path]:
        return sorted((self.path / "measurements").glob(f"*/{SHARD_PATTERN}"))

    def _measurements(self, device_id: str) -> Path:
        return self.path / "measurements" / device_id


def is_data_folder(path: str | Path) -> bool:
    """Whether `path` is a data folder: whether it has a folder `measurements`."""
    return (Path(path) / _TABLES[0]).is_dir()


def _what_it_is(path: Path) -> str:
    """Describes a path that is not a data folder, in a sentence."""
    if not path.exists():
        return f"The folder {path} does not exist; `costhub collect --out {path}` makes one."
    if not path.is_dir():
        return f"{path} is a file; expected a data folder, as `costhub collect` makes one."
    above = _folder_above(path.absolute())
    if above is not None:
        shown = above if path.is_absolute() else os.path.relpath(above)
        return f"{path} is a part of a data folder; name the whole one, {shown}."
    if (path / "config.json").is_file():
        return f"{path} is a model folder; expected a data folder, which has a folder `measurements` in it."
    return f"{path} is not a data folder: it has no folder `measurements` in it."


def _folder_above(path: Path) -> Path | None:
    """The data folder of which `path` is a table or device."""
    for part, above in ((path, path.parent), (path.parent, path.parent.parent)):
        # A working directory in which someone keeps a data folder called `measurements` is not one itself.
        if part.name in _TABLES and all((above / name).is_dir() for name in _TABLES):
            return above
    return None


def chosen_devices(folder: FolderTables, existing: Sequence[str], device_ids: Sequence[str] | None) -> list[str]:
    """Returns the devices to read, each once; all existing ones by default.

    Raises:
        DataError: A device has no measurements in the folder.
    """
    for device_id in device_ids or ():
        if device_id not in existing:
            raise DataError(
                f"{folder.path} has no measurements of {device_id!r}; "
                f"it has those of {', '.join(existing) or 'no device'}."
            )
    return list(existing if device_ids is None else dict.fromkeys(device_ids))


def first_of_each(table: pa.Table, key: str) -> pa.Table:
    """Keeps the first row of every value of `key`, in order.

    Example:
        >>> first_of_each(pa.table({"id": [1, 2, 1], "x": [5, 6, 7]}), "id").to_pydict()
        {'id': [1, 2], 'x': [5, 6]}
    """
    if pc.count_distinct(table[key]).as_py() == table.num_rows:
        return table
    numbered = pa.table({"key": table[key], "row": pa.array(range(table.num_rows), pa.int64())})
    first = numbered.group_by("key").aggregate([("row", "min")])["row_min"]
    return table.take(first.take(pc.sort_indices(first)))


def among(column: str, names: Sequence[str]) -> pc.Expression:
    """Returns the condition that a column of text holds one of the names."""
    # Typed: Arrow cannot infer the element type of an empty list.
    return pc.field(column).isin(pa.array(list(names), pa.string()))
