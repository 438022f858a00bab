"""Provides shards: sealed Parquet files of one table that are written whole or not at all.

The seal is a hash of the whole file, stored in its footer, and any changed byte breaks it. Parquet's own page checksums
do not cover the footer, and a footer with a flipped bit can crash its parser, so the seal is checked before any
parser sees the file. It detects damage and tools that rewrite files; it is not a signature: anyone who forges a shard
can seal it again.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from costhub.dataset.schema import SCHEMA_VERSION, TABLE_KEY, TABLES, VERSION_KEY, arrow_schema, stored_schema
from costhub.dataset.shards.layout import Layout, compact, empty_table
from costhub.errors import DataError, first_line
from costhub.files import open_regular

if TYPE_CHECKING:
    import pyarrow.dataset as ds

ROW_GROUP_ROWS = 8_192
"""Reading one workload of sixty fetches 4 % of a shard; 20 % with 20,000 rows, at equal file size."""

# A leading dot keeps half-written files out of every glob, including that of `datasets`.
TEMP_PREFIX = ".writing-"

SEAL_KEY = "costhub.seal"
BLANK_SEAL = "0" * 64
"""The value of the seal while the file is written and hashed."""

SealState = Literal["sealed", "broken", "missing"]

_PARQUET_MAGIC = b"PAR1"
# In Thrift's compact protocol, which Parquet footers are written in, 0x18 is a text field that follows the
# one before; then come the length (a key of 12 bytes, a value of 64) and the text.
_SEAL_MARK = b"\x18" + bytes([len(SEAL_KEY)]) + SEAL_KEY.encode() + b"\x18\x40"
_HASH_BLOCK = 1 << 20

MOST_SHARD_BYTES = 2 << 30
"""A shard of 200,000 rows, the most that a writer makes, has some 30 MB."""
MOST_FOOTER_BYTES = 16 << 20
"""A row group takes 4 kB of it: 200,000 measurements, 100 kB. A file may claim up to 4 GiB."""
MOST_DICTIONARY_BYTES = 64 << 20
"""Beyond that, a row group repeats its texts; 8,192 long traces, each stored once, take 20 MB."""


def write_seal(path: Path) -> None:
    """Replaces the blank seal of a Parquet file with the file's hash.

    Raises:
        ValueError: The file was not written with the key-value pair (SEAL_KEY, BLANK).
    """
    with path.open("r+b") as file:
        place = _seal_offset(file)
        if place is None:
            raise ValueError(f"{path} has no place for a seal.")
        digest = _seal_digest(file, place)
        file.seek(place)
        file.write(digest)
        file.flush()
        os.fsync(file.fileno())


def seal_state(path: Path) -> SealState:
    """Checks whether a file is unchanged since costhub wrote it; reads it once and parses nothing.

    Returns:
        "sealed" for an unchanged file; "broken" if a byte has changed; "missing" if it has no seal,
        because another program wrote it or because its end is damaged.

    Raises:
        DataError: The file is not a regular file, is too large, or may not be read.
        FileNotFoundError: The file no longer exists.
    """
    with _open_file(path) as file:
        place = _seal_offset(file)
        if place is None:
            return "missing"
        file.seek(place)
        return "sealed" if file.read(len(BLANK_SEAL)) == _seal_digest(file, place) else "broken"


def _open_file(path: Path) -> BinaryIO:
    """Opens a regular file of bounded size; links are followed: the folders of huggingface_hub consist of them."""
    try:
        return open_regular(path, limit=MOST_SHARD_BYTES, error=DataError)
    except DataError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise error.__cause__ from None  # a writer has renamed it: callers list again
        raise


@contextlib.contextmanager
def open_shard(path: Path) -> Iterator[BinaryIO]:
    """Opens a file that is safe for Parquet's parser: a regular file of bounded size, with a footer of bounded size.

    Raises:
        DataError: The file is of another kind, or may not be read.
        FileNotFoundError: The file no longer exists.
    """
    with _open_file(path) as file:
        length = _footer_length(file)
        if length is not None and length > MOST_FOOTER_BYTES:
            raise DataError(
                f"{path} says that its footer has {length:,} bytes; at most {MOST_FOOTER_BYTES:,} are read. Remove "
                "it or fetch it again."
            )
        file.seek(0)
        yield file


def _footer_length(file: BinaryIO) -> int | None:
    """Size of the footer in bytes, as stated by the file; None if it does not end like a Parquet file."""
    size = file.seek(0, os.SEEK_END)
    if size < 12:
        return None
    file.seek(size - 8)
    length, magic = int.from_bytes(file.read(4), "little"), file.read(4)
    return length if magic == _PARQUET_MAGIC and length <= size - 12 else None


def _seal_offset(file: BinaryIO) -> int | None:
    """Returns the position of the seal's 64 digits; None unless the footer has exactly one seal."""
    length = _footer_length(file)
    if length is None or length > MOST_FOOTER_BYTES:
        return None
    start = file.seek(-8 - length, os.SEEK_END)
    footer = file.read(length)
    found = footer.find(_SEAL_MARK)
    place = found + len(_SEAL_MARK)
    if found < 0 or footer.find(_SEAL_MARK, place) >= 0 or place + len(BLANK_SEAL) > length:
        return None
    return start + place


def _seal_digest(file: BinaryIO, place: int) -> bytes:
    """Hashes the file as if its seal were blank; returns 64 hex digits."""
    sha = hashlib.sha256()
    file.seek(0)
    for _ in range(place // _HASH_BLOCK):
        sha.update(file.read(_HASH_BLOCK))
    sha.update(file.read(place % _HASH_BLOCK) + BLANK_SEAL.encode())
    file.seek(len(BLANK_SEAL), os.SEEK_CUR)
    while block := file.read(_HASH_BLOCK):
        sha.update(block)
    return sha.hexdigest().encode()


@dataclass(frozen=True)
class Encoding:
    """How a Parquet file stores its columns; names are column names, or paths to the elements of lists."""

    dictionary: tuple[str, ...] = ()
    """Columns with few distinct values."""
    ordered: tuple[str, ...] = ()
    """Columns whose dictionaries are sorted: long texts next to similar ones take half the bytes."""
    statistics: tuple[str, ...] = ()
    """Columns that filters use."""
    levels: Mapping[str, int] = field(default_factory=dict)
    """Levels of zstd other than the usual one."""
    encodings: Mapping[str, str] = field(default_factory=dict)
    """Parquet's own encodings, for columns without a dictionary."""

    def file_schema(self, schema: pa.Schema) -> pa.Schema:
        """The schema needed by the writer; readers do not see the dictionaries."""
        for name in self.ordered:
            place = schema.get_field_index(name)
            schema = schema.set(place, schema.field(place).with_type(_DICTIONARY))
        return schema

    def row_group(self, rows: pa.Table) -> pa.Table:
        """Rows in the form needed by the writer."""
        for name in self.ordered:
            encoded = pc.dictionary_encode(rows[name].combine_chunks())
            texts = encoded.dictionary
            order = pc.sort_indices(texts)
            places = pa.array(np.argsort(order.to_numpy()).astype(np.int32))
            column = pa.DictionaryArray.from_arrays(places.take(encoded.indices), texts.take(order))
            place = rows.schema.get_field_index(name)
            rows = rows.set_column(place, rows.schema.field(place).with_type(_DICTIONARY), column)
        return rows


_DICTIONARY = pa.dictionary(pa.int32(), pa.string())
_TEXT_LEVEL = 15
"""Takes about 50 us per row and saves a tenth of the file over level 9; higher levels take several times as long."""
_COMPACT: dict[str, Any] = {
    "ordered": ("instructions", "postproc"),
    "levels": dict.fromkeys(("instructions", "decisions", "postproc", "run_s.list.element"), _TEXT_LEVEL),
    "encodings": {
        # Digits without the lengths between them take four bits each, and floats less by bytes of equal weight.
        **dict.fromkeys(("record_id", "program_id", "decisions"), "DELTA_LENGTH_BYTE_ARRAY"),
        **dict.fromkeys(("run_s.list.element", "build_s", "run_wall_s", "reference_after_s"), "BYTE_STREAM_SPLIT"),
    },
}


def write_shard(table: pa.Table, path: Path) -> None:
    """Writes `table` to `path` atomically, sorted by workload (or by its id).

    Args:
        table: A table with the schema of `schema.arrow_schema`.
        path: Path where the complete file appears.

    Raises:
        DataError: The table does not have a costhub schema.
    """
    name = (table.schema.metadata or {}).get(TABLE_KEY, b"").decode()
    if name not in TABLES or not table.schema.equals(arrow_schema(name)):
        raise DataError(f"The table does not have a costhub schema, so it cannot become {path}; use table_from_rows.")
    names = table.schema.names
    key = "workload_id" if "workload_id" in names else names[0]
    # Arrow's sort is stable, so programs of one workload keep the order in which they were measured.
    table = table.take(pc.sort_indices(table, sort_keys=[(key, "ascending")]))
    few = [column.name for column in TABLES[name] if column.repeats]
    # Statistics of traces and random ids help no filter and would take a tenth of the file.
    statistics = (*few, key)
    if name == "measurements":
        few += _COMPACT["ordered"]
        encoding = Encoding(dictionary=tuple(few), statistics=statistics, **_COMPACT)
    else:
        encoding = Encoding(dictionary=tuple(few), statistics=statistics)
    with new_parquet(path, stored_schema(name), encoding) as writer:
        for start in range(0, table.num_rows, ROW_GROUP_ROWS):
            rows = table.slice(start, ROW_GROUP_ROWS)
            rows = compact(rows) if name == "measurements" else rows
            writer.write_table(encoding.row_group(rows), row_group_size=ROW_GROUP_ROWS)


@contextlib.contextmanager
def new_parquet(path: Path, schema: pa.Schema, encoding: Encoding | None = None) -> Iterator[pq.ParquetWriter]:
    """Opens a Parquet file that appears at `path`, complete and sealed, when the block ends without error.

    A partial file is never seen under that name, not even when the machine stops.

    Args:
        path: Final name; replaces an older file of that name.
        schema: Schema of the file, as readers see it.
        encoding: How to store the columns; the writer is given the result of `Encoding.row_group`.
    """
    encoding = encoding or Encoding()
    temporary = path.parent / f"{TEMP_PREFIX}{os.getpid()}-{uuid.uuid4().hex[:8]}"
    try:
        with pq.ParquetWriter(
            temporary,
            encoding.file_schema(schema),
            compression="zstd",
            compression_level=dict(encoding.levels) or None,
            use_dictionary=list(encoding.dictionary) or False,
            dictionary_pagesize_limit=MOST_DICTIONARY_BYTES,
            column_encoding=dict(encoding.encodings) or None,
            write_statistics=list(encoding.statistics) or False,
            write_page_index=True,
            write_page_checksum=True,
            use_content_defined_chunking=True,
            store_schema=False,
        ) as writer:
            yield writer
            # The schema that readers see: the writer's would make every reader see dictionaries.
            shown = base64.b64encode(schema.serialize().to_pybytes())
            own = {b"ARROW:schema": shown, SEAL_KEY.encode(): BLANK_SEAL.encode()}
            writer.add_key_value_metadata({**(schema.metadata or {}), **own})
        write_seal(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes renames in `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_shard(
    path: Path,
    columns: Sequence[str] | None = None,
    *,
    where: pc.Expression | None = None,
    table: str | None = None,
) -> pa.Table:
    """Reads a shard, or some of its columns and rows.

    Args:
        path: The file.
        columns: Names of the columns to read, in order; all by default.
        where: Condition on the rows, pushed down to row groups.
        table: The table that the file must hold; any by default.

    Raises:
        DataError: The file is damaged, not a shard of costhub, has a newer schema, or lacks a column.
    """
    layout = check_shard(path, table=table)
    schema = empty_table(layout.table, columns).schema
    with _scanned(path, layout) as held:

        def whole(names: list[str], condition: pc.Expression | None) -> list[pa.RecordBatch]:
            found: list[pa.RecordBatch] = held.to_table(columns=names, filter=condition).to_batches()
            return found

        return pa.Table.from_batches(layout.read(whole, columns, where), schema)


def iter_shard(
    path: Path,
    columns: Sequence[str] | None = None,
    *,
    where: pc.Expression | None = None,
    batch_rows: int = ROW_GROUP_ROWS,
) -> Iterator[pa.RecordBatch]:
    """Reads a shard in batches of at most `batch_rows` rows, with one row group in memory.

    Raises:
        DataError: As for `read_shard`.
    """
    layout = check_shard(path)
    with _scanned(path, layout) as held:

        def one_by_one(names: list[str], condition: pc.Expression | None) -> Iterator[pa.RecordBatch]:
            # Reading ahead would hold several row groups of traces, some 60 MB each.
            return held.to_batches(  # type: ignore[no-any-return]
                columns=names, filter=condition, batch_size=batch_rows, batch_readahead=0, fragment_readahead=0
            )

        yield from layout.read(one_by_one, columns, where)


@contextlib.contextmanager
def _scanned(path: Path, layout: Layout) -> Iterator[ds.Dataset]:
    """Opens the file with the current schema, in which columns missing from an older version are null."""
    # Imported here: it imports pandas, which takes twice as long as everything else needed to report a wrong name.
    import pyarrow.dataset as ds

    options = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    parquet = ds.ParquetFileFormat(default_fragment_scan_options=options)
    try:
        yield ds.dataset(path, schema=layout.schema, format=parquet, partitioning=None)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read ({first_line(error)}); remove it or fetch it again.") from error


def shard_rows(path: Path) -> int:
    """Reads the number of rows of a shard from its footer.

    Raises:
        DataError: As for `read_shard`.
    """
    check_shard(path)
    with open_shard(path) as file:
        return int(pq.read_metadata(file).num_rows)


def check_shard(path: Path, *, table: str | None = None) -> Layout:
    """Checks the footer of a shard and returns its layout.

    Raises:
        DataError: The file is damaged, not a shard of costhub, or has a newer schema.
    """
    try:
        with open_shard(path) as file:
            schema = pq.read_schema(file)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"{path} is not a complete Parquet file ({first_line(error)}); remove it or fetch it again."
        ) from error
    return check_schema(path, schema, table=table)


def check_schema(path: str | Path, schema: pa.Schema, *, table: str | None = None) -> Layout:
    """Checks the schema of the shard `path`, and returns its layout.

    Raises:
        DataError: It is not the schema of a costhub shard, or has a newer version.
    """
    metadata = schema.metadata or {}
    name = str(metadata.get(TABLE_KEY, b""), errors="replace")
    version = metadata.get(VERSION_KEY, b"")
    if name not in TABLES or not version.isdigit():
        raise DataError(f"{path} is Parquet, but not a shard of costhub; move it out of the data folder.")
    if int(version) > SCHEMA_VERSION:
        raise DataError(
            f"{path} has schema version {int(version)}; this costhub reads up to {SCHEMA_VERSION}: upgrade it."
        )
    if table is not None and name != table:
        raise DataError(f"{path} holds the table {name}, but {table} belongs there; move the file.")
    _check_columns(path, name, int(version), schema)
    return Layout(name, int(version))


def _check_columns(path: str | Path, name: str, version: int, schema: pa.Schema) -> None:
    expected = stored_schema(name, version)
    for column in expected:
        if column.name not in schema.names or schema.field(column.name).type != column.type:
            raise DataError(
                f"{path} has no column {column.name!r} of type {column.type}, which schema version "
                f"{version} requires; write it again with costhub."
            )
    extra = set(schema.names) - set(expected.names)
    if extra:
        raise DataError(f"{path} has the unknown column {min(extra)!r}; write it again with costhub.")
