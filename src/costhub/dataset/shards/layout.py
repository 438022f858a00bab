"""Provides Layout: how a shard of a schema version stores the rows of a table, and how to restore them.

Since version 3 a shard of measurements holds only what cannot be computed. Ids are shortened if they
follow from the row, as git shortens hashes: the first digits tell rows apart, and a modified row no longer matches
them. A trace is three texts: its instructions and those of post-processing, which many programs share, and its
decisions. Other programs read the columns of `schema.stored_columns_of`; costhub restores those of the schema.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.schema import (
    COMPACT_SINCE,
    PROGRAM_DIGITS,
    RECORD_DIGITS,
    SCHEMA_VERSION,
    STORED,
    Column,
    arrow_schema,
    columns_of,
    stored_columns_of,
    stored_schema,
)
from costhub.errors import DataError

RECORD_KEY = "record_key"
"""A column readable in addition to those of measurements: it tells records apart as their ids do, but faster."""

PROGRAM_KEY = "program_key"
"""Tells programs apart as their ids do, without needing a trace to compute."""

_KEYS = {key: pa.field(key, pa.string(), nullable=False) for key in (RECORD_KEY, PROGRAM_KEY)}
_OWN = "="
"""Prefix of an id that looks like a shortened one but is not."""
UNKNOWN = "\N{HORIZONTAL ELLIPSIS}"
"""Suffix of a shortened id that does not follow from its row."""
_FULL_ID = re.compile("[0-9a-f]{64}")
_SHORT_PROGRAM = re.compile(f"[0-9a-f]{{{PROGRAM_DIGITS}}}")
_SHORT_RECORD = re.compile(f"[0-9a-f]{{{RECORD_DIGITS}}}")

_POSTPROC = ',["EnterPostproc",'
_NEEDS = {
    "trace": ("instructions", "decisions", "postproc"),
    "program_id": ("program_id", "workload_id", "instructions", "decisions", "postproc"),
    RECORD_KEY: ("record_id",),
    PROGRAM_KEY: ("program_id",),
}
_NEEDS["record_id"] = ("record_id", *_NEEDS["program_id"], "device_id", "session", "timestamp")

Batches = Callable[[list[str], "pc.Expression | None"], Iterable[pa.RecordBatch]]


def empty_table(table: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Returns a table without rows that has the schema of `table`, or some of its columns.

    Raises:
        DataError: A column does not exist.
    """
    schema = arrow_schema(table)
    for column in columns or ():
        if column not in schema.names and not (column in _KEYS and table == "measurements"):
            raise DataError(f"The table {table} has no column {column!r}; it has {', '.join(schema.names)}.")
    fields = schema if columns is None else [_KEYS.get(c) or schema.field(c) for c in columns]
    return pa.schema(fields, metadata=schema.metadata).empty_table()


@dataclass(frozen=True)
class Layout:
    """The stored form of a table's rows in a shard."""

    table: str
    version: int = SCHEMA_VERSION

    @property
    def is_compact(self) -> bool:
        """Whether some columns are computed from those of the shard."""
        return self.table == "measurements" and self.version >= COMPACT_SINCE

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the schema to open a shard with."""
        return stored_columns_of(self.table) if self.is_compact else columns_of(self.table)

    @property
    def schema(self) -> pa.Schema:
        """The schema to open a shard with; columns that its version lacks are null."""
        return stored_schema(self.table) if self.is_compact else arrow_schema(self.table)

    def read(
        self, batches: Batches, columns: Sequence[str] | None, where: pc.Expression | None
    ) -> Iterator[pa.RecordBatch]:
        """Yields rows of a shard.

        Args:
            batches: Called with the columns and the condition with which to read the shard itself.
            columns: Columns of the rows; all by default.
            where: Condition on the rows.

        Raises:
            DataError: A column does not exist.
            ValueError: A text is not UTF-8, or null where it may not be; Arrow's errors are of this kind.
        """
        empty = empty_table(self.table, columns)
        named = empty.schema.names
        # Every word of a condition may be a column: a false match costs time, never rows.
        words = set(re.findall(r"\w+", str(where))) if where is not None else set()
        computed = self.is_compact and not words.isdisjoint({*STORED, "FieldPath"})
        asked = [c.name for c in columns_of(self.table) if c.name in words and c.name not in named] if computed else []
        if computed and "FieldPath" in words:
            raise DataError("A condition must name columns, not number them: use pyarrow.compute.field(NAME).")
        for batch in batches(self.needs([*named, *asked]), None if computed else where):
            if not batch.num_rows:
                continue
            rows = self.rows(batch, [*named, *asked])
            if not computed:
                yield rows
                continue
            table = pa.Table.from_batches([rows]).filter(where).select(named)
            yield from table.combine_chunks().to_batches() if table.num_rows else ()

    def needs(self, columns: Sequence[str]) -> list[str]:
        """The columns of a shard from which these columns are computed."""
        needed = _NEEDS if self.is_compact else {key: _NEEDS[key] for key in _KEYS}
        return list(dict.fromkeys(held for column in columns for held in needed.get(column, (column,))))

    def rows(self, batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
        """Restores the rows that a batch of a shard represents.

        Args:
            batch: A batch with the columns that `columns` need, in any order.
            columns: Columns of the rows.

        Raises:
            ValueError: A text is not UTF-8, or null where it may not be.
        """
        schema = self.schema
        held = batch.cast(pa.schema([schema.field(name) for name in batch.schema.names]))
        held.validate(full=True)  # Parquet does not check whether a text is UTF-8
        rows = _Rows(held, is_compact=self.is_compact)
        arrays = [rows.column(name) for name in columns]
        whole = pa.RecordBatch.from_arrays(arrays, schema=empty_table(self.table, columns).schema)
        whole.validate(full=True)  # nor the parts that make up a text
        return whole


def compact(rows: pa.Table) -> pa.Table:
    """Converts measurements to the form stored in a shard.

    Args:
        rows: Rows with the schema of measurements.
    """
    traces = [_parts(text) for text in rows["trace"].to_pylist()]
    program_ids = _program_ids(rows["workload_id"].to_pylist(), rows["trace"].cast(pa.binary()).to_pylist())
    record_ids = _record_ids(program_ids, rows)
    texts = {
        "record_id": _shortened(rows["record_id"].to_pylist(), record_ids, _SHORT_RECORD, RECORD_DIGITS),
        "program_id": _shortened(rows["program_id"].to_pylist(), program_ids, _SHORT_PROGRAM, PROGRAM_DIGITS),
        "instructions": [parts[0] for parts in traces],
        "decisions": [parts[1] for parts in traces],
        "postproc": [parts[2] for parts in traces],
    }
    schema = stored_schema("measurements")
    arrays = [pa.array(texts[f.name], f.type) if f.name in texts else rows[f.name] for f in schema]
    return pa.table(arrays, schema=schema)


def record_key(record_id: str) -> str:
    """Returns the key of a record: 16 digits of a 64-digit id, or any other id itself.

    Example:
        >>> record_key("0123456789abcdef" * 4), record_key("row-1")
        ('0123456789abcdef', 'row-1')
    """
    return record_id[:RECORD_DIGITS] if _FULL_ID.fullmatch(record_id) else record_id


def program_key(program_id: str) -> str:
    """Returns the key of a program: 12 digits of a 64-digit id, or any other id itself.

    Example:
        >>> program_key("0123456789abcdef" * 4), program_key("matmul-1")
        ('0123456789ab', 'matmul-1')
    """
    return program_id[:PROGRAM_DIGITS] if _FULL_ID.fullmatch(program_id) else program_id


class _Rows:
    """Rows of measurements in their stored form; computes each column once, on request."""

    def __init__(self, held: pa.RecordBatch, *, is_compact: bool) -> None:
        self._held, self._is_compact = held, is_compact

    def column(self, name: str) -> pa.Array:
        """A column of the rows."""
        if name == RECORD_KEY:
            return _keys(self._held["record_id"], RECORD_DIGITS)
        if name == PROGRAM_KEY:
            return _keys(self._held["program_id"], PROGRAM_DIGITS)
        if not self._is_compact or name not in STORED:
            return self._held[name]
        if name == "trace":
            return self._traces
        if name == "program_id":
            shown = _completed(self._held["program_id"], self._program_ids, _SHORT_PROGRAM)
        else:
            shown = _completed(self._held["record_id"], _record_ids(self._program_ids, self._held), _SHORT_RECORD)
        return pa.array(shown, pa.string())

    @cached_property
    def _traces(self) -> pa.Array:
        instructions, decisions, postproc = (self._held[name].cast(pa.binary()) for name in STORED_TRACE)
        start = pc.binary_slice(instructions, 0, -1)
        rest = pc.fill_null(pc.binary_replace_slice(postproc, 0, 1, b","), b"]")
        whole = pc.binary_join_element_wise(b"[", start, rest, b",", decisions, b"]", b"")
        # A text without such parts is stored whole.
        return pc.if_else(pc.is_null(decisions), instructions, whole).cast(pa.string())

    @cached_property
    def _program_ids(self) -> list[str]:
        return _program_ids(self._held["workload_id"].to_pylist(), self._traces.cast(pa.binary()).to_pylist())


STORED_TRACE = tuple(column.name for column in STORED["trace"])


def _parts(trace: str) -> tuple[str, str | None, str | None]:
    """Instructions, decisions and post-processing of a trace; `_Rows` can reassemble any text."""
    end = trace.rfind("]],[[")
    if end < 0 and trace.endswith("]],[]]"):
        end = len(trace) - len("]],[]]")
    if end < 0 or not (trace.startswith("[") and trace.endswith("]")):
        return trace, None, None
    instructions, decisions = trace[1 : end + 2], trace[end + 3 : -1]
    start = instructions.find(_POSTPROC)
    if start < 0:
        return instructions, decisions, None
    return instructions[:start] + "]", decisions, "[" + instructions[start + 1 :]


def _program_ids(workload_ids: Sequence[str], traces: Sequence[bytes]) -> list[str]:
    """The results of `trace.program_id`, without a copy of every trace as a Python string."""
    heads = {name: f"{name}\n".encode() for name in set(workload_ids)}
    pairs = zip(workload_ids, traces, strict=True)
    return [hashlib.sha256(heads[name] + trace).hexdigest() for name, trace in pairs]


def _record_ids(program_ids: Sequence[str], rows: pa.Table | pa.RecordBatch) -> list[str]:
    """The results of `trace.record_id`."""
    # Like datetime.isoformat: microseconds are omitted if zero.
    times = pc.strftime(rows["timestamp"].cast(pa.timestamp("us")), format="%Y-%m-%dT%H:%M:%S")
    times = pc.binary_join_element_wise(pc.replace_substring_regex(times, r"\.000000$", ""), "+00:00", "")
    others = (rows[name].to_pylist() for name in ("device_id", "session"))
    texts = zip(program_ids, *others, times.to_pylist(), strict=True)
    return [hashlib.sha256(f"{p} {d} {s} {t}".encode()).hexdigest() for p, d, s, t in texts]


def _shortened(ids: Sequence[str], computed: Sequence[str], short: re.Pattern[str], digits: int) -> list[str]:
    return [
        name[:digits] if name == other else _OWN + name if name.startswith(_OWN) or short.fullmatch(name) else name
        for name, other in zip(ids, computed, strict=True)
    ]


def _completed(held: pa.Array, computed: Sequence[str], short: re.Pattern[str]) -> list[str]:
    def completed(name: str, other: str) -> str:
        if other.startswith(name) and short.fullmatch(name):
            return other
        if short.fullmatch(name):
            return name + UNKNOWN
        return name.removeprefix(_OWN)

    return list(map(completed, held.to_pylist(), computed))


def _keys(ids: pa.Array, digits: int) -> pa.Array:
    """(n,) keys of ids, as for `record_key`; the ids may be shortened to `digits`."""
    short = pc.utf8_slice_codeunits(ids, 0, digits)
    own = pc.replace_substring_regex(ids, f"^{_OWN}", "")
    return pc.if_else(pc.match_substring_regex(ids, "^[0-9a-f]{64}$"), short, own)
