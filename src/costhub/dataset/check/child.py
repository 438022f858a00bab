"""Provides what the child process of a check does.

It opens files from strangers and applies the rules on rows to them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from costhub.dataset.check.files import MOST_GROUP_BYTES, MOST_ROWS, READABLE, SCHEMA, SIZE, VERSION, TableFile
from costhub.dataset.check.measurements import CheckContext, RowRule, Rows, TableRule, WorkloadFacts, entries_of
from costhub.dataset.check.rule import Breach
from costhub.dataset.check.rules import RULES
from costhub.dataset.check.tables import useful_share
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
from costhub.isolation.limits import limit_memory

BATCH_ROWS = 4096
KNOWN_VERSIONS = tuple(str(version).encode() for version in range(1, SCHEMA_VERSION + 1))
MODULE_ROWS = 64
"""A module may have megabytes."""


class UnreadableFile(Exception):
    """A file that no rows can be read of: the id of the rule, and the sentence."""


def open_batches(source: TableFile) -> tuple[int, Iterator[pa.RecordBatch]]:
    """The number of rows of a file, and its rows in batches with the columns of the schema in order.

    Raises:
        Refusal: The file is of another table or version, or too large. Pyarrow's own errors come through.
    """
    if source.is_journal:
        try:
            rows, _ = read_journal(source.path)
        except DataError as error:
            raise UnreadableFile(READABLE.id, str(error).replace(str(source.path), "the journal")) from error
        table = table_from_rows("measurements", rows)
        return table.num_rows, iter(table.to_batches(max_chunksize=BATCH_ROWS))
    file = pq.ParquetFile(source.path, page_checksum_verification=True)
    _check_schema(file, source.table)
    metadata = file.metadata
    groups = [metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups)]
    if metadata.num_rows > MOST_ROWS[source.table] or max(groups, default=0) > MOST_GROUP_BYTES:
        raise UnreadableFile(
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
        raise UnreadableFile(SCHEMA.id, f"It is {kind}, and {table} was expected in its folder.")
    if version not in KNOWN_VERSIONS:
        shown = version.decode(errors="replace") or "none"
        raise UnreadableFile(VERSION.id, f"Its schema version is {shown}; this costhub reads 1 to {SCHEMA_VERSION}.")
    expected = {c.name: c.type for c in columns_of(table) if c.since <= int(version)}
    for column, type_ in expected.items():
        if schema.names.count(column) != 1 or schema.field(column).type != type_:
            raise UnreadableFile(SCHEMA.id, f"It has no single column {column!r} of type {type_}.")
    if sorted(schema.names) != sorted(expected):
        extra = min(column for column in schema.names if column not in expected)
        raise UnreadableFile(SCHEMA.id, f"It has the unknown column {extra!r}.")


SERVICE = "costhub.dataset.check.child:handle"
MEMORY_BYTES = 2 << 30
_FLOAT32 = frozenset({"float32", "float64"})


@dataclass(frozen=True)
class Start:
    """Sets the process up: the memory it may take, and what the rules know."""

    context: CheckContext


@dataclass(frozen=True)
class Open:
    """Opens a file; the reply is a Piece without rows, the last one where it cannot be used."""

    source: TableFile
    number: int
    """The number of the file, for the ledger."""
    as_dicts: bool = False
    """Whether the rows themselves are wanted, and no rule is applied."""


@dataclass(frozen=True)
class Next:
    """Reads on in the file that is open; the reply is a Piece, the last one with `is_last`."""


@dataclass(frozen=True)
class Fetch:
    """Asks for some columns of some rows of a file; the reply is a list of dicts, in their order."""

    source: TableFile
    rows: tuple[int, ...]
    columns: tuple[str, ...]


@dataclass
class FileChunk:
    """What came of a part of a file."""

    rows: int = 0
    """Rows in this part; after Open, those of the whole file."""
    breaches: list[Breach] = field(default_factory=list)
    entries: npt.NDArray[Any] | None = None
    """Ledger entries of measurements."""
    devices: list[dict[str, Any]] = field(default_factory=list)
    workloads: list[WorkloadFacts] = field(default_factory=list)
    dicts: list[dict[str, Any]] = field(default_factory=list)
    """The rows themselves, where they were asked for."""
    is_last: bool = False


@dataclass
class _State:
    context: CheckContext = field(default_factory=CheckContext)
    request: Open | None = None
    batches: Iterator[pa.RecordBatch] = field(default_factory=lambda: iter(()))


_state = _State()


def handle(request: Start | Open | Next | Fetch) -> Any:
    """Answers a request; what is wrong with a file is a breach in the reply, and ends the file."""
    if isinstance(request, Start):
        # One thread per column would map an arena each, all of which count.
        pa.set_cpu_count(1)
        limit_memory(MEMORY_BYTES, beyond_tvm=False)
        _state.context = request.context
        return None
    try:
        if isinstance(request, Open):
            return _open(request)
        if isinstance(request, Fetch):
            return _fetch(request)
        return _next()
    except UnreadableFile as refusal:
        rule, message = refusal.args
    except MemoryError:
        rule, message = READABLE.id, "Reading it takes more memory than the check allows itself."
    except Exception as error:  # parsers of damaged files raise anything
        rule, message = READABLE.id, f"It cannot be read ({type(error).__name__}: {_brief(error)})."
    if isinstance(request, Fetch):
        return []
    where = _state.request.source.where if _state.request is not None else "."
    return FileChunk(breaches=[Breach(rule, where, message)], is_last=True)


def _open(request: Open) -> FileChunk:
    _state.request, _state.batches = request, iter(())
    rows, _state.batches = open_batches(request.source)
    return FileChunk(rows=rows)


def _next() -> FileChunk:
    batch = next(_state.batches, None)
    if batch is None or _state.request is None:
        return FileChunk(is_last=True)
    source = _state.request.source
    batch.validate(full=True)
    piece = FileChunk(rows=batch.num_rows)
    batch = _without_nulls(batch, source, piece)
    if _state.request.as_dicts:
        piece.dicts = batch.to_pylist()
    elif source.table == "measurements":
        rows = Rows(batch, _state.context, source.device_id)
        _apply_row_rules(rows, source, piece)
        piece.entries = entries_of(rows, _state.request.number)
    else:
        _apply_table_rules(batch, source, piece)
    return piece


def _without_nulls(batch: pa.RecordBatch, source: TableFile, piece: FileChunk) -> pa.RecordBatch:
    """The rows that hold all that they must hold; the others are a breach."""
    whole = np.ones(batch.num_rows, bool)
    for column in columns_of(source.table):
        if not column.nullable and batch.column(column.name).null_count:
            missing = pc.is_null(batch.column(column.name)).to_numpy(zero_copy_only=False)
            names = _names(batch, missing, batch.schema.names[0])
            message = f"{column.name} is null, and every row must have it."
            piece.breaches.append(Breach(SCHEMA.id, source.where, message, int(missing.sum()), names))
            whole &= ~missing
    return batch if whole.all() else batch.filter(pa.array(whole))


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
        name = row[batch.schema.names[0]]
        for rule in rules:
            messages = set(rule.find(row))
            piece.breaches += [Breach(rule.id, source.where, message, 1, [name]) for message in sorted(messages)]
        if source.table == "devices":
            piece.devices.append(row)
        else:
            is_float32 = _FLOAT32.issuperset(row["dtypes"])
            flop = row["flop"] * useful_share(row["module_json"])
            piece.workloads.append(WorkloadFacts(name, flop, row["bytes"], is_float32))


def _names(batch: pa.RecordBatch, mask: npt.NDArray[np.bool_], column: str) -> list[str]:
    """The first few distinct values of a column of text, cut to what may be shown."""
    values = pc.utf8_slice_codeunits(batch.column(column).filter(pa.array(mask)), 0, 64)
    return [str(value) for value in pc.unique(values)[:3].to_pylist()]


def _fetch(request: Fetch) -> list[dict[str, Any]]:
    wanted, start, found = np.array(sorted(request.rows)), 0, []
    for batch in open_batches(request.source)[1]:
        here = wanted[(wanted >= start) & (wanted < start + batch.num_rows)] - start
        found += batch.select(list(request.columns)).take(pa.array(here)).to_pylist()
        start += batch.num_rows
    return found


def _brief(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return json.dumps(lines[0][:160])[1:-1] if lines else "no message"
