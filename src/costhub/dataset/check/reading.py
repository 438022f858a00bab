"""Provides open_batches: the rows of a stranger's file in batches of bounded size, for child processes."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from costhub.dataset.check.files import MOST_GROUP_BYTES, MOST_ROWS, READABLE, SCHEMA, SIZE, VERSION, Source
from costhub.dataset.schema import (
    SCHEMA_VERSION,
    TABLE_KEY,
    TABLES,
    VERSION_KEY,
    arrow_schema,
    columns_of,
    table_from_rows,
)
from costhub.dataset.shards.journal import read_journal
from costhub.errors import DataError

BATCH_ROWS = 4096
KNOWN_VERSIONS = tuple(str(version).encode() for version in range(1, SCHEMA_VERSION + 1))
MODULE_ROWS = 64
"""A module may have megabytes."""


class Refusal(Exception):
    """A file that no rows can be read of: the id of the rule, and the sentence."""


def open_batches(source: Source) -> tuple[int, Iterator[pa.RecordBatch]]:
    """The number of rows of a file, and its rows in batches with the columns of the schema in order.

    Raises:
        Refusal: The file is of another table or version, or too large. Pyarrow's own errors come through.
    """
    if source.is_journal:
        try:
            rows, _ = read_journal(source.path)
        except DataError as error:
            raise Refusal(READABLE.id, str(error).replace(str(source.path), "the journal")) from error
        table = table_from_rows("measurements", rows)
        return table.num_rows, iter(table.to_batches(max_chunksize=BATCH_ROWS))
    file = pq.ParquetFile(source.path, page_checksum_verification=True)
    _check_schema(file, source.table)
    metadata = file.metadata
    groups = [metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups)]
    if metadata.num_rows > MOST_ROWS[source.table] or max(groups, default=0) > MOST_GROUP_BYTES:
        raise Refusal(
            SIZE.id,
            f"It has {metadata.num_rows:,} rows and up to {max(groups, default=0):,} bytes in a row group; "
            f"at most {MOST_ROWS[source.table]:,} rows and {MOST_GROUP_BYTES:,} bytes were expected.",
        )
    schema = arrow_schema(source.table)
    held = [name for name in schema.names if name in file.schema_arrow.names]
    count = MODULE_ROWS if source.table == "workloads" else BATCH_ROWS
    return metadata.num_rows, (_completed(batch, schema) for batch in file.iter_batches(count, columns=held))


def _completed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with nulls in the columns that its schema version lacks."""
    columns = [
        batch[field.name] if field.name in batch.schema.names else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, names=schema.names)


def _check_schema(file: pq.ParquetFile, table: str) -> None:
    schema = file.schema_arrow
    metadata = schema.metadata or {}
    name, version = metadata.get(TABLE_KEY, b"").decode(errors="replace"), metadata.get(VERSION_KEY, b"")
    if name != table:
        kind = f"the table {name}" if name in TABLES else "no table of costhub"
        raise Refusal(SCHEMA.id, f"It is {kind}, and {table} was expected in its folder.")
    if version not in KNOWN_VERSIONS:
        shown = version.decode(errors="replace") or "none"
        raise Refusal(VERSION.id, f"Its schema version is {shown}; this costhub reads 1 to {SCHEMA_VERSION}.")
    expected = {c.name: c.type for c in columns_of(table) if c.since <= int(version)}
    for column, type_ in expected.items():
        if schema.names.count(column) != 1 or schema.field(column).type != type_:
            raise Refusal(SCHEMA.id, f"It has no single column {column!r} of type {type_}.")
    if sorted(schema.names) != sorted(expected):
        extra = min(column for column in schema.names if column not in expected)
        raise Refusal(SCHEMA.id, f"It has the unknown column {extra!r}.")
