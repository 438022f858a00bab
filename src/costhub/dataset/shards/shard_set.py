"""Provides the shards of one folder as a set: numbered, extended, and read as one table or in batches."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.schema import table_from_rows
from costhub.dataset.shards.journal import JOURNAL, JournalRow, read_journal
from costhub.dataset.shards.layout import PROGRAM_KEY, RECORD_KEY, empty_table, program_key, record_key
from costhub.dataset.shards.shard import (
    TEMP_PREFIX,
    iter_shard,
    read_shard,
    shard_rows,
    sync_folder,
    write_shard,
)
from costhub.errors import DataError

SHARD_PATTERN = "train-*.parquet"
_NAME = re.compile(r"train-(\d{5,})-of-(\d{5,})\.parquet")
MERGE_ROWS = 200_000
"""Most rows of a shard joined from small ones: about 600 MB of traces in memory, 30 MB in the file."""

_LIST_ATTEMPTS = 20


def shard_paths(folder: Path) -> list[Path]:
    """Lists the shards of `folder` in order of their number."""
    return sorted(folder.glob(SHARD_PATTERN), key=_order)


def _order(path: Path) -> tuple[float, float, str]:
    match = _NAME.fullmatch(path.name)
    # Shards with other names come last; none is left out.
    return (int(match[1]), int(match[2]), path.name) if match else (float("inf"), 0.0, path.name)


def read_shards(
    folder: Path, table: str, columns: Sequence[str] | None = None, *, where: pc.Expression | None = None
) -> pa.Table:
    """Reads all shards of `folder` as one table, while a writer may be adding to it.

    Raises:
        DataError: One of them cannot be read.
    """
    for attempt in range(_LIST_ATTEMPTS):
        time.sleep(0.01 * attempt)
        paths = shard_paths(folder)
        try:
            parts = [read_shard(path, columns, where=where, table=table) for path in paths]
        except FileNotFoundError:
            continue
        # A writer that renames shards at this moment may have hidden one from the listing: list them again.
        if shard_paths(folder) == paths:
            return pa.concat_tables([empty_table(table, columns), *parts])
    raise DataError(f"The shards of {folder} keep changing their names; stop the programs that write there.")


def read_measurements(folder: Path, columns: Sequence[str] | None, where: pc.Expression | None) -> pa.Table:
    """Reads the shards and the journal of one device; a record may be in both.

    Args:
        folder: `DIR/measurements/<device_id>`.
        columns: Columns to read; all by default.
        where: Condition on the rows, pushed down to row groups.

    Raises:
        DataError: A shard or the journal cannot be read.
    """
    # The journal is read first: rows that move to a shard in the meantime are then seen twice, not never.
    rows, _ = read_journal(folder / JOURNAL)
    shards = read_shards(folder, "measurements", columns, where=where)
    return pa.concat_tables([shards, _selected(rows, columns, where)])


def stream_measurements(
    folder: Path, columns: Sequence[str], where: pc.Expression | None, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Reads the rows of `read_measurements` in batches, every record once.

    Args:
        folder: `DIR/measurements/<device_id>`.
        columns: Columns to read, with `layout.RECORD_KEY` among them.
        where: Condition on the rows, pushed down to row groups.
        batch_rows: Maximum number of rows in a batch.

    Raises:
        DataError: A shard or the journal cannot be read, or a writer moves the shards in the meantime.
    """
    rows, _ = read_journal(folder / JOURNAL)  # first, as above
    paths = shard_paths(folder)
    seen: set[str] = set()
    try:
        pending = [record_key(row["record_id"]) for row in rows]
        # Rows of the journal may move to a shard meanwhile, which may get an old name back.
        doubled = pa.array(_records_twice(paths, pending) | set(pending), pa.string())
        for path in paths:
            for batch in iter_shard(path, columns, where=where, batch_rows=batch_rows):
                yield from _without_repeats(batch, doubled, seen)
    except FileNotFoundError as error:
        raise DataError(f"The shards of {folder} changed while they were read; read them again.") from error
    for batch in _selected(rows, columns, where).to_batches(batch_rows):
        yield from _without_repeats(batch, doubled, seen)


def _selected(rows: Sequence[JournalRow], columns: Sequence[str] | None, where: pc.Expression | None) -> pa.Table:
    table = table_from_rows("measurements", rows)
    keys = {
        RECORD_KEY: [record_key(row["record_id"]) for row in rows],
        PROGRAM_KEY: [program_key(row["program_id"]) for row in rows],
    }
    for field in empty_table("measurements", list(keys)).schema:
        table = table.append_column(field, pa.array(keys[field.name], field.type))
    if where is not None:
        table = table.filter(where)
    return table.select(empty_table("measurements", columns).schema.names)


def _records_twice(paths: Sequence[Path], pending: Sequence[str]) -> set[str]:
    """Finds records in two places, left by a crash between two steps of a writer; usually none."""
    parts = [read_shard(path, [RECORD_KEY], table="measurements")[RECORD_KEY] for path in paths]
    ids = pa.chunked_array([chunk for part in parts for chunk in part.chunks] + [pa.array(pending, pa.string())])
    if pc.count_distinct(ids).as_py() == len(ids):
        return set()
    counts = ids.value_counts()
    return set(counts.filter(pc.greater(counts.field("counts"), 1)).field("values").to_pylist())


def _without_repeats(batch: pa.RecordBatch, doubled: pa.Array, seen: set[str]) -> Iterator[pa.RecordBatch]:
    places = pc.indices_nonzero(pc.is_in(batch[RECORD_KEY], value_set=doubled)).to_pylist() if len(doubled) else ()
    if places:
        keep = np.ones(batch.num_rows, dtype=bool)
        for place in places:
            record = batch[RECORD_KEY][place].as_py()
            keep[place] = record not in seen
            seen.add(record)
        batch = batch.filter(pa.array(keep))
    if batch.num_rows:
        yield batch


def add_shard(folder: Path, table: pa.Table) -> Path:
    """Adds `table` as the last shard of `folder` and renames the others to the new count.

    A crash between two renames leaves every shard readable, and the next call repairs the names.
    The caller must hold the folder's lock.

    Returns:
        The path of the new shard.
    """
    # After the repair no shard is called "of N + 1", so the new one replaces nothing.
    count = len(repair_names(folder))
    write_shard(table, folder / shard_name(count, count + 1))
    return repair_names(folder)[-1]


def merge_small(folder: Path, *, rows: int = MERGE_ROWS) -> None:
    """Joins runs of neighbouring shards of measurements up to `rows` rows each, keeping their order.

    The joined shard atomically replaces the first of its run, then the others are removed. A crash in between
    leaves records in two places, which readers see once and `remove_merged` cleans up. The caller must hold
    the folder's lock.
    """
    run: list[Path] = []
    total = 0
    for path in shard_paths(folder):
        count = shard_rows(path)
        if total + count > rows:
            _join(run)
            run, total = [], 0
        run.append(path)
        total += count
    _join(run)
    repair_names(folder)


def _join(run: Sequence[Path]) -> None:
    if len(run) > 1:
        write_shard(pa.concat_tables([read_shard(path) for path in run]), run[0])
        for path in run[1:]:
            path.unlink()


def remove_merged(folder: Path) -> set[str]:
    """Removes shards whose records are all in an earlier one, and returns the keys (`record_key`) of all records.

    The caller must hold the folder's lock.

    Raises:
        DataError: A shard cannot be read; nothing is removed.
    """
    paths = shard_paths(folder)
    # Reads all shards before it removes any.
    ids_of = [read_shard(path, [RECORD_KEY], table="measurements")[RECORD_KEY].to_pylist() for path in paths]
    seen: set[str] = set()
    for path, ids in zip(paths, ids_of, strict=True):
        if ids and seen.issuperset(ids):
            path.unlink()
        seen.update(ids)
    return seen


def shard_name(number: int, count: int) -> str:
    """Returns the name of shard `number` of `count`, in the form that the Hugging Face hub expects.

    Example:
        >>> shard_name(0, 2)
        'train-00000-of-00002.parquet'
    """
    return f"train-{number:05d}-of-{count:05d}.parquet"


def repair_names(folder: Path) -> list[Path]:
    """Renames the shards of `folder` to 0..N-1 of N, in order, and returns their paths."""
    paths = shard_paths(folder)
    targets = [folder / shard_name(number, len(paths)) for number in range(len(paths))]
    moves = {path: target for path, target in zip(paths, targets, strict=True) if path != target}
    while moves:
        # Renaming keeps the order, so moves cannot block one another in a cycle: one is always possible.
        path = next(path for path, target in moves.items() if not target.exists())
        path.rename(moves.pop(path))
    if targets != paths:
        sync_folder(folder)
    return targets


def remove_temporaries(folder: Path) -> None:
    """Removes files that interrupted writers left behind; the caller must hold the folder's lock."""
    for path in folder.glob(f"{TEMP_PREFIX}*"):
        path.unlink(missing_ok=True)
