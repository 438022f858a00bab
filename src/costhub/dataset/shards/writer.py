"""Provides MeasurementWriter: appends measurements so that a crash loses at most the row in flight."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from costhub.dataset.schema import check_table, table_from_rows
from costhub.dataset.shards.journal import JOURNAL, Journal
from costhub.dataset.shards.layout import record_key
from costhub.dataset.shards.lock import FolderLock
from costhub.dataset.shards.shard import sync_folder
from costhub.dataset.shards.shard_set import (
    add_shard,
    merge_small,
    remove_merged,
    remove_temporaries,
    repair_names,
    shard_paths,
)
from costhub.errors import DataError

COMPACT_ROWS = 2000
MERGE_SHARDS = 16
"""A writer that closes with this many shards joins the small ones, so that files do not accumulate."""


class MeasurementWriter:
    """The only writer of one device's measurements: rows go to a journal, and from there to shards.

    A crash between any two steps of a compaction neither loses nor duplicates a row: the shard appears whole,
    then the journal is emptied, and recovery drops journal rows that are already in a shard.
    """

    def __init__(self, folder: Path, device_id: str, *, compact_rows: int = COMPACT_ROWS) -> None:
        """Opens the folder of one device and recovers the rows of an interrupted writer.

        Args:
            folder: `DIR/measurements/<device_id>`; created if missing.
            device_id: The device whose rows are written.
            compact_rows: The journal becomes a shard at this many rows.

        Raises:
            DataError: Another writer is at work, or a shard or the journal cannot be read; nothing changes.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._device_id, self._compact_rows = folder, device_id, compact_rows
        self._interrupted = False
        with contextlib.ExitStack() as held:
            held.enter_context(FolderLock(folder))
            # Reads every shard first: nothing is written if one cannot be read.
            self._keys = remove_merged(folder)
            self._journal = held.enter_context(Journal(folder / JOURNAL))
            self._recover()
            self._held = held.pop_all()

    def _recover(self) -> None:
        remove_temporaries(self._folder)
        sync_folder(self._folder)
        repair_names(self._folder)
        left = len(self._journal.rows)
        self._drop_written(self._keys)
        self._keys.update(record_key(row["record_id"]) for row in self._journal.rows)
        if len(self._journal.rows) < left:
            self.compact()

    def _drop_written(self, shard_keys: set[str]) -> None:
        """Keeps the journal rows that are in no shard, each once."""
        rows = {record_key(row["record_id"]): row for row in self._journal.rows}
        self._journal.rows = [row for key, row in rows.items() if key not in shard_keys]

    def append(self, row: Mapping[str, Any]) -> None:
        """Adds one measurement; when this returns, killing the process no longer loses it.

        Raises:
            DataError: The row does not fit the schema, is from another device, or its record_id is taken.
        """
        if row.get("device_id") != self._device_id:
            raise DataError(f"The row is from device {row.get('device_id')!r}; this writer is for {self._device_id!r}.")
        key = record_key(str(row.get("record_id")))
        if key in self._keys:
            raise DataError(f"The record {row['record_id']!r} is already in {self._folder}; ids must be unique.")
        self._journal.append(row)
        self._keys.add(key)
        if len(self._journal.rows) >= self._compact_rows:
            self.compact()

    def extend(self, rows: pa.Table) -> None:
        """Adds many measurements at once as a new shard; when this returns, they survive a power cut.

        Args:
            rows: A table with the schema of measurements, such as `table_from_rows` builds.

        Raises:
            DataError: A row does not fit the schema, is from another device, or its record_id is taken;
                nothing is written.
        """
        check_table("measurements", rows)
        others = set(rows["device_id"].unique().to_pylist()) - {self._device_id}
        if others:
            raise DataError(f"A row is from device {min(others)!r}; this writer is for {self._device_id!r}.")
        self.compact()
        keys = set(map(record_key, rows["record_id"].to_pylist()))
        if len(keys) < rows.num_rows or not keys.isdisjoint(self._keys):
            raise DataError(f"A record is already in {self._folder}, or twice among the rows; ids must be unique.")
        self._keys |= keys
        if rows.num_rows:
            self._interrupted = True
            add_shard(self._folder, rows)
            self._interrupted = False

    def compact(self) -> None:
        """Moves the journal's rows into a new shard."""
        if self._interrupted:
            # ^C or a full disk stopped the last shard, perhaps after it appeared.
            written = remove_merged(self._folder)
            self._drop_written(written)
            self._keys = written | {record_key(row["record_id"]) for row in self._journal.rows}
        self._interrupted = True
        if self._journal.rows:
            add_shard(self._folder, table_from_rows("measurements", self._journal.rows))
        self._journal.clear()
        self._interrupted = False

    @property
    def record_keys(self) -> frozenset[str]:
        """Keys (`layout.record_key`) of all records of the device, written or pending."""
        return frozenset(self._keys)

    def close(self) -> None:
        """Compacts the journal, removes it and releases the lock."""
        with self._held:
            self.compact()
            self._journal.remove()
            if len(shard_paths(self._folder)) >= MERGE_SHARDS:
                merge_small(self._folder)

    def __enter__(self) -> MeasurementWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
