"""Provides the functions of a check's child process: it opens untrusted files and applies rules to the rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from costhub.dataset.check.files import (
    MOST_DECODED_BYTES,
    MOST_GROUP_BYTES,
    MOST_ROWS,
    READABLE,
    SCHEMA,
    SIZE,
    VERSION,
    TableFile,
)
from costhub.dataset.check.measurements import CheckContext, RowRule, Rows, TableRule, WorkloadFacts, entries_of
from costhub.dataset.check.rule import Breach
from costhub.dataset.check.rules import RULES
from costhub.dataset.check.tables import useful_share
from costhub.dataset.check.texts import MOST_NAME_BYTES
from costhub.dataset.intrinsics import FLAT_CONVOLUTION, PAIR_CONVOLUTION, PAIR_PRODUCT
from costhub.dataset.schema import (
    SCHEMA_VERSION,
    TABLE_KEY,
    TABLES,
    VERSION_KEY,
    Column,
    columns_of,
    stored_columns_of,
    table_from_rows,
)
from costhub.dataset.shards.journal import read_journal
from costhub.dataset.shards.layout import Layout
from costhub.dataset.shards.shard import SealState, open_shard, seal_state
from costhub.errors import DataError
from costhub.isolation.limits import Limits

BATCH_ROWS = 4096
KNOWN_VERSIONS = tuple(str(version).encode() for version in range(1, SCHEMA_VERSION + 1))
MODULE_ROWS = 64
"""A module may take megabytes."""
LIMITS = Limits(further_bytes=2 << 30)
"""Limit for the reading process; parsers of damaged files may request any amount."""
_JOURNAL = Layout("measurements", 1)
"""A journal stores complete rows."""
_FLOAT32 = frozenset({"float32", "float64"})


class UnreadableFile(Exception):
    """A file from which no rows can be read: the id of the rule, and a message."""


def open_batches(source: TableFile) -> tuple[int, Layout, Iterator[pa.RecordBatch]]:
    """Returns the number of rows of a file, its layout, and its rows in batches with the columns of the layout.

    Raises:
        UnreadableFile: The file is of another table or version, or too large. Pyarrow's own errors are passed through.
    """
    if source.is_journal:
        try:
            rows, _ = read_journal(source.path)
        except DataError as error:
            raise UnreadableFile(READABLE.id, str(error).replace(str(source.path), "the journal")) from error
        table = table_from_rows("measurements", rows)
        return table.num_rows, _JOURNAL, iter(table.to_batches(max_chunksize=BATCH_ROWS))
    file = _parquet(source)
    layout = _check_schema(file, source.table)
    metadata = file.metadata
    groups = [metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups)]
    if metadata.num_rows > MOST_ROWS[source.table] or max(groups, default=0) > MOST_GROUP_BYTES:
        raise UnreadableFile(
            SIZE.id,
            f"It has {metadata.num_rows:,} rows and up to {max(groups, default=0):,} bytes in a row group; "
            f"at most {MOST_ROWS[source.table]:,} rows and {MOST_GROUP_BYTES:,} bytes were expected.",
        )
    schema = layout.schema
    held = [name for name in schema.names if name in file.schema_arrow.names]
    count = MODULE_ROWS if source.table == "workloads" else BATCH_ROWS
    decoded = _bounded(file.iter_batches(count, columns=held))
    return metadata.num_rows, layout, (_completed(batch, schema) for batch in decoded)


def _bounded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches, as far as readers of the whole file can hold them.

    A text that a million rows share counts a million times, while the footer counts it once.
    """
    total = 0
    for batch in batches:
        total += batch.nbytes
        if total > MOST_DECODED_BYTES:
            raise UnreadableFile(SIZE.id, f"Its rows take more than {MOST_DECODED_BYTES:,} bytes once decoded.")
        yield batch


def _parquet(source: TableFile) -> pq.ParquetFile:
    try:
        with open_shard(source.path):
            pass  # it is a plain file, and its footer is not too large
    except DataError as error:
        raise UnreadableFile(SIZE.id, str(error).replace(str(source.path), "It", 1)) from error
    return pq.ParquetFile(source.path, page_checksum_verification=True)


def seal_of(source: TableFile) -> SealState | None:
    """The state of a shard's seal, computed by hashing the whole file; None if it cannot be read."""
    try:
        return seal_state(source.path)
    except DataError:
        return None  # reading it reports the problem


def size_of(source: TableFile) -> tuple[int, int]:
    """Rows of a shard and its decompressed bytes, according to its footer; zeros if it cannot be read."""
    try:
        metadata = _parquet(source).metadata
    except Exception:  # parsers of damaged files can raise anything
        return 0, 0
    return metadata.num_rows, sum(metadata.row_group(n).total_byte_size for n in range(metadata.num_row_groups))


def _completed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with nulls in the columns that its schema version lacks."""
    columns = [
        batch[field.name] if field.name in batch.schema.names else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, names=schema.names)


def _check_schema(file: pq.ParquetFile, table: str) -> Layout:
    schema = file.schema_arrow
    metadata = schema.metadata or {}
    name, version = metadata.get(TABLE_KEY, b"").decode(errors="replace"), metadata.get(VERSION_KEY, b"")
    if name != table:
        kind = f"the table {name}" if name in TABLES else "no table of costhub"
        raise UnreadableFile(SCHEMA.id, f"It is {kind}, and {table} was expected in its folder.")
    if version not in KNOWN_VERSIONS:
        shown = version.decode(errors="replace") or "none"
        raise UnreadableFile(VERSION.id, f"Its schema version is {shown}; this costhub reads 1 to {SCHEMA_VERSION}.")
    expected = {column.name: column.type for column in stored_columns_of(table, int(version))}
    for column, type_ in expected.items():
        if schema.names.count(column) != 1 or schema.field(column).type != type_:
            raise UnreadableFile(SCHEMA.id, f"It has no single column {column!r} of type {type_}.")
    if sorted(schema.names) != sorted(expected):
        extra = min(column for column in schema.names if column not in expected)
        raise UnreadableFile(SCHEMA.id, f"It has the unknown column {extra!r}.")
    return Layout(table, int(version))


@dataclass
class FileChunk:
    """The result of reading a part of a file."""

    rows: int = 0
    """Rows in this part; the rows of the whole file if it was just opened."""
    breaches: list[Breach] = field(default_factory=list)
    entries: npt.NDArray[Any] | None = None
    """Ledger entries of measurements."""
    devices: list[dict[str, Any]] = field(default_factory=list)
    workloads: list[WorkloadFacts] = field(default_factory=list)
    dicts: list[dict[str, Any]] = field(default_factory=list)
    """The rows themselves, if requested."""
    is_last: bool = False


@dataclass
class _OpenFile:
    """The file that the process is reading, and the context of the rules."""

    context: CheckContext = field(default_factory=CheckContext)
    source: TableFile | None = None
    number: int = 0
    as_dicts: bool = False
    layout: Layout = _JOURNAL
    batches: Iterator[pa.RecordBatch] = field(default_factory=lambda: iter(()))


_open = _OpenFile()


def set_context(context: CheckContext) -> None:
    """Sets the devices and workloads that the rules know."""
    # One thread per column would map an arena each, all of which count towards the limit.
    pa.set_cpu_count(1)
    _open.context = context


def open_file(source: TableFile, number: int, as_dicts: bool = False) -> FileChunk:
    """Opens a file; the chunk has no rows, and is the last one if the file cannot be used.

    Args:
        source: The file.
        number: Its number, for the ledger.
        as_dicts: Whether to return the rows themselves and apply no rule.
    """
    _open.source, _open.number, _open.as_dicts, _open.batches = source, number, as_dicts, iter(())

    def opened() -> FileChunk:
        rows, _open.layout, _open.batches = open_batches(source)
        return FileChunk(rows=rows)

    return _chunk_or_breach(opened)


def read_chunk() -> FileChunk:
    """Continues reading the open file; the last chunk has `is_last`."""
    return _chunk_or_breach(_next_chunk)


def read_rows(source: TableFile, rows: Sequence[int], columns: Sequence[str]) -> list[dict[str, Any]]:
    """Some columns of some rows of a file, in order; empty if it cannot be read.

    Args:
        source: The file.
        rows: Positions among the rows without nulls in required columns, which are those that the rules see.
        columns: The columns.
    """
    numbers, start = np.array(sorted(rows)), 0
    values: list[dict[str, Any]] = []
    try:
        _, layout, batches = open_batches(source)
        for batch in batches:
            whole = np.all([_is_whole(batch, column) for column in layout.columns], axis=0)
            held = batch.filter(pa.array(whole))
            here = numbers[(numbers >= start) & (numbers < start + held.num_rows)] - start
            start += held.num_rows
            values += layout.rows(held.take(pa.array(here)), columns).to_pylist()
    except Exception:  # parsers of damaged files can raise anything
        return []
    return values


def _chunk_or_breach(read: Callable[[], FileChunk]) -> FileChunk:
    """Reads a chunk; a problem with the file is a breach, and ends the file."""
    try:
        return read()
    except UnreadableFile as refusal:
        rule, message = refusal.args
    except MemoryError:
        rule, message = READABLE.id, "Reading it takes more memory than a check may use."
    except Exception as error:  # parsers of damaged files can raise anything
        rule, message = READABLE.id, f"It cannot be read ({type(error).__name__}: {_brief(error)})."
    where = _open.source.where if _open.source is not None else "."
    return FileChunk(breaches=[Breach(rule, where, message)], is_last=True)


def _next_chunk() -> FileChunk:
    source, batch = _open.source, next(_open.batches, None)
    if batch is None or source is None:
        return FileChunk(is_last=True)
    batch.validate(full=True)
    piece = FileChunk(rows=batch.num_rows)
    held = _without_nulls(batch, source, piece)
    batch = _open.layout.rows(held, [column.name for column in columns_of(source.table)])
    if _open.as_dicts:
        piece.dicts = batch.to_pylist()
    elif source.table == "measurements":
        rows = Rows(batch, _open.context, source.device_id)
        _apply_row_rules(rows, source, piece)
        piece.entries = entries_of(rows, _open.number)
    else:
        _apply_table_rules(batch, source, piece)
    return piece


def _without_nulls(batch: pa.RecordBatch, source: TableFile, piece: FileChunk) -> pa.RecordBatch:
    """The rows without nulls in required columns; rows with nulls are a breach."""
    whole = np.ones(batch.num_rows, bool)
    for column in _open.layout.columns:
        missing = ~_is_whole(batch, column)
        if missing.any():
            names = _names(batch, missing, batch.schema.names[0])
            message = f"{column.name} is null, but every row must have it."
            piece.breaches.append(Breach(SCHEMA.id, source.where, message, int(missing.sum()), names))
            whole &= ~missing
    return batch if whole.all() else batch.filter(pa.array(whole))


def _is_whole(batch: pa.RecordBatch, column: Column) -> npt.NDArray[np.bool_]:
    """(n,) where a column is not null, or may be null."""
    values = batch.column(column.name)
    if column.nullable or not values.null_count:
        return np.ones(batch.num_rows, bool)
    whole: npt.NDArray[np.bool_] = pc.is_valid(values).to_numpy(zero_copy_only=False)
    return whole


def _apply_row_rules(rows: Rows, source: TableFile, piece: FileChunk) -> None:
    for rule in RULES.values():
        if isinstance(rule, RowRule):
            for message, mask in rule.find(rows):
                count = int(mask.sum())
                if count:
                    names = _names(rows.batch, mask, rule.shown)
                    piece.breaches.append(Breach(rule.id, source.where, message, count, names))


def _apply_table_rules(batch: pa.RecordBatch, source: TableFile, piece: FileChunk) -> None:
    rules = [r for r in RULES.values() if isinstance(r, TableRule) and source.table in r.tables]
    for row in batch.to_pylist():
        name = row[batch.schema.names[0]][:MOST_NAME_BYTES]
        for rule in rules:
            messages = set(rule.find(row))
            piece.breaches += [Breach(rule.id, source.where, message, 1, [name[:64]]) for message in sorted(messages)]
        if source.table == "devices":
            piece.devices.append({column: _kept(value) for column, value in row.items()})
        else:
            is_float32 = _FLOAT32.issuperset(row["dtypes"])
            flop = row["flop"] * useful_share(row["module_json"])
            in_pairs = any(
                f'"{kernel}"' in row["module_json"] for kernel in (PAIR_CONVOLUTION, PAIR_PRODUCT, FLAT_CONVOLUTION)
            )
            piece.workloads.append(WorkloadFacts(name, flop, row["bytes"], is_float32, _kept(row["name"]), in_pairs))


def _kept(value: Any) -> Any:
    """The part of a value that the other process gets: no rule across rows needs lists or long texts."""
    if isinstance(value, list):
        return None
    return value[:MOST_NAME_BYTES] if isinstance(value, str) else value


def _names(batch: pa.RecordBatch, mask: npt.NDArray[np.bool_], column: str) -> list[str]:
    """The first few distinct values of a column of text, cut to a displayable length."""
    values = pc.utf8_slice_codeunits(batch.column(column).filter(pa.array(mask)), 0, 64)
    return [str(value) for value in pc.unique(values)[:3].to_pylist()]


def _brief(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return json.dumps(lines[0][:160])[1:-1] if lines else "no message"
