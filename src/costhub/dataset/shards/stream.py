"""Provides stream_measurements: the measurements of one device in batches, however many there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.schema import table_from_rows
from costhub.dataset.shards.journal import JOURNAL, read_journal
from costhub.dataset.shards.shard import iter_shard, read_shard
from costhub.dataset.shards.shard_set import shard_paths
from costhub.errors import DataError


def stream_measurements(
    folder: Path, columns: Sequence[str] | None, where: pc.Expression | None, batch_rows: int
) -> Iterator[pa.RecordBatch]:
    """Reads shards and journal of one device in batches, every record once.

    Args:
        folder: `DIR/measurements/<device_id>`.
        columns: Columns wanted, `record_id` among them; all by default.
        where: Condition on the rows, pushed down to row groups.
        batch_rows: Rows of a batch, at most.

    Raises:
        DataError: A shard or journal cannot be read, or a writer moves the shards meanwhile.
    """
    # The journal is read first: rows that move to a shard meanwhile are then seen twice, not never.
    rows, _ = read_journal(folder / JOURNAL)
    paths = shard_paths(folder)
    seen: set[str] = set()
    try:
        doubled = _doubled(paths, [row["record_id"] for row in rows])
        for path in paths:
            for batch in iter_shard(path, columns, where=where, batch_rows=batch_rows):
                yield from _once(batch, doubled, seen)
    except FileNotFoundError as error:
        raise DataError(f"The shards of {folder} changed while they were read; read them again.") from error
    pending = table_from_rows("measurements", rows)
    if where is not None:
        pending = pending.filter(where)
    for batch in (pending if columns is None else pending.select(list(columns))).to_batches(batch_rows):
        yield from _once(batch, doubled, seen)


def _doubled(paths: Sequence[Path], pending: Sequence[str]) -> set[str]:
    """The records in two places, as a crash between two steps of a writer leaves them; mostly none."""
    parts = [read_shard(path, ["record_id"], table="measurements")["record_id"] for path in paths]
    ids = pa.chunked_array(
        [chunk for part in parts for chunk in part.chunks] + [pa.array(pending, pa.string())]
    )
    if pc.count_distinct(ids).as_py() == len(ids):
        return set()
    counts = ids.value_counts()
    return set(counts.filter(pc.greater(counts.field("counts"), 1)).field("values").to_pylist())


def _once(batch: pa.RecordBatch, doubled: set[str], seen: set[str]) -> Iterator[pa.RecordBatch]:
    if doubled:
        ids = batch["record_id"].to_pylist()
        keep = []
        for record_id in ids:
            keep.append(record_id not in seen)
            if record_id in doubled:
                seen.add(record_id)
        batch = batch.filter(pa.array(keep))
    if batch.num_rows:
        yield batch
