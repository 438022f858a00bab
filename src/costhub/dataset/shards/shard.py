"""Provides shards: sealed Parquet files of one table that are written whole or not at all.

The seal is a hash of the whole file, kept in its footer, that any changed byte breaks. Parquet's own page checksums
do not cover the footer, and a footer with a flipped bit can crash its parser, so the seal is checked before any
parser sees the file. It detects damage and tools that rewrite files; it is not a signature: whoever forges a shard
can seal it again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from costhub.dataset.schema import SCHEMA_VERSION, TABLE_KEY, TABLES, VERSION_KEY, arrow_schema
from costhub.errors import DataError, first_line
from costhub.files import open_regular

if TYPE_CHECKING:
    import pyarrow.dataset as ds

ROW_GROUP_ROWS = 8_192
"""Reading one workload of sixty fetches 4 % of a shard; 20 % with 20,000 rows, at equal file size."""

# A leading dot keeps half-written files out of every glob, ours and that of `datasets`.
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
"""A row group takes 4 kB of it: 200,000 measurements, 100 kB. What a file claims may be 4 GiB."""


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
        "sealed" for an unchanged file; "broken" where a byte has changed; "missing" where it has no seal,
        because another program wrote it or because its end is damaged.

    Raises:
        DataError: It is not a regular file, is too large, or may not be read.
        FileNotFoundError: It is gone.
    """
    with _open_file(path) as file:
        place = _seal_offset(file)
        if place is None:
            return "missing"
        file.seek(place)
        return "sealed" if file.read(len(BLANK_SEAL)) == _seal_digest(file, place) else "broken"


def _open_file(path: Path) -> BinaryIO:
    """Opens a regular file of bounded size; links are followed, as the folders of huggingface_hub consist of them."""
    try:
        return open_regular(path, limit=MOST_SHARD_BYTES, error=DataError)
    except DataError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise error.__cause__ from None  # a writer has renamed it: callers look again
        raise


@contextlib.contextmanager
def open_shard(path: Path) -> Iterator[BinaryIO]:
    """Opens a file that Parquet's parser may see: a regular one, of bounded size, with a footer of bounded size.

    Raises:
        DataError: It is another file, or may not be read.
        FileNotFoundError: It is gone.
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
    """The bytes of the footer by the file's own account; None where it does not end like a Parquet file."""
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


def write_shard(table: pa.Table, path: Path) -> None:
    """Writes `table` to `path` atomically, sorted by workload (or by its id).

    Args:
        table: A table with the schema of `schema.arrow_schema`.
        path: Where the complete file appears.

    Raises:
        DataError: The table does not have a schema of costhub.
    """
    name = (table.schema.metadata or {}).get(TABLE_KEY, b"").decode()
    if name not in TABLES or not table.schema.equals(arrow_schema(name)):
        raise DataError(f"The table does not have a schema of costhub and cannot become {path}; use table_from_rows.")
    names = table.schema.names
    key = "workload_id" if "workload_id" in names else names[0]
    # Arrow's sort is stable, so programs of one workload keep the order in which they were measured.
    table = table.take(pc.sort_indices(table, sort_keys=[(key, "ascending")]))
    few = [column.name for column in TABLES[name] if column.repeats]
    # Statistics of traces and random ids help no filter and would take a tenth of the file.
    write_parquet(table, path, dictionary=few, statistics=[*few, key])


def write_parquet(
    table: pa.Table, path: Path, *, dictionary: Sequence[str] = (), statistics: Sequence[str] = ()
) -> None:
    """Writes any table to `path`, sealed and atomically.

    Args:
        table: What to write.
        path: Final name; replaces an older file of that name.
        dictionary: Columns with few distinct values.
        statistics: Columns that filters use.
    """
    with new_parquet(path, table.schema, dictionary=dictionary, statistics=statistics) as writer:
        writer.write_table(table, row_group_size=ROW_GROUP_ROWS)


@contextlib.contextmanager
def new_parquet(
    path: Path, schema: pa.Schema, *, dictionary: Sequence[str] = (), statistics: Sequence[str] = ()
) -> Iterator[pq.ParquetWriter]:
    """Opens a Parquet file that appears at `path`, complete and sealed, when the block ends without error.

    Half a file is never seen under that name, not even when the machine stops.
    """
    temporary = path.parent / f"{TEMP_PREFIX}{os.getpid()}-{uuid.uuid4().hex[:8]}"
    try:
        with pq.ParquetWriter(
            temporary,
            schema,
            compression="zstd",
            use_dictionary=list(dictionary) or False,
            write_statistics=list(statistics) or False,
            write_page_index=True,
            write_page_checksum=True,
            use_content_defined_chunking=True,
        ) as writer:
            yield writer
            writer.add_key_value_metadata({SEAL_KEY: BLANK_SEAL})
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
    name = check_shard(path, table=table)
    schema = empty_table(name, columns).schema
    with _scanned(path, name) as rows:
        # The file's own schema may order columns differently, or allow nulls where we do not.
        found = rows.to_table(columns=schema.names, filter=where).cast(schema)
        found.validate(full=True)  # Parquet does not look whether a text is UTF-8
        return found


def iter_shard(
    path: Path,
    columns: Sequence[str] | None = None,
    *,
    where: pc.Expression | None = None,
    batch_rows: int = ROW_GROUP_ROWS,
) -> Iterator[pa.RecordBatch]:
    """Reads a shard in batches of at most `batch_rows` rows, with one row group in memory.

    Raises:
        DataError: As `read_shard`.
    """
    name = check_shard(path)
    schema = empty_table(name, columns).schema
    with _scanned(path, name) as rows:
        # Reading ahead would hold several row groups of traces, some 60 MB each.
        for batch in rows.to_batches(
            columns=schema.names, filter=where, batch_size=batch_rows, batch_readahead=0, fragment_readahead=0
        ):
            if batch.num_rows:
                checked = batch.cast(schema)
                checked.validate(full=True)
                yield checked


@contextlib.contextmanager
def _scanned(path: Path, table: str) -> Iterator[ds.Dataset]:
    """Opens the file with today's schema, in which columns that an older version lacks are null."""
    # Imported here: it imports pandas, which takes twice as long as all else that a wrong name is checked with.
    import pyarrow.dataset as ds

    options = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    parquet = ds.ParquetFileFormat(default_fragment_scan_options=options)
    try:
        yield ds.dataset(path, schema=arrow_schema(table), format=parquet, partitioning=None)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read ({first_line(error)}); remove it or fetch it again.") from error


def shard_rows(path: Path) -> int:
    """Reads the number of rows of a shard from its footer.

    Raises:
        DataError: As `read_shard`.
    """
    check_shard(path)
    with open_shard(path) as file:
        return int(pq.read_metadata(file).num_rows)


def check_shard(path: Path, *, table: str | None = None) -> str:
    """Checks the footer of a shard and returns the name of its table.

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


def check_schema(path: str | Path, schema: pa.Schema, *, table: str | None = None) -> str:
    """Checks the schema of the shard `path`, and returns the name of its table.

    Raises:
        DataError: It is not the schema of a shard of costhub, or has a newer version.
    """
    metadata = schema.metadata or {}
    name = str(metadata.get(TABLE_KEY, b""), errors="replace")
    version = metadata.get(VERSION_KEY, b"")
    if name not in TABLES or not version.isdigit():
        raise DataError(f"{path} is Parquet, but not a shard of costhub; move it out of the data folder.")
    if int(version) > SCHEMA_VERSION:
        raise DataError(
            f"{path} has schema version {int(version)}; costhub here reads up to {SCHEMA_VERSION}: upgrade."
        )
    if table is not None and name != table:
        raise DataError(f"{path} holds the table {name}, but {table} belongs there; move the file.")
    _check_columns(path, name, int(version), schema)
    return name


def _check_columns(path: str | Path, name: str, version: int, schema: pa.Schema) -> None:
    expected = arrow_schema(name, version=version)
    for field in expected:
        if field.name not in schema.names or schema.field(field.name).type != field.type:
            raise DataError(
                f"{path} has no column {field.name!r} of type {field.type}, which schema version "
                f"{version} requires; write it again with costhub."
            )
    extra = set(schema.names) - set(expected.names)
    if extra:
        raise DataError(f"{path} has the unknown column {min(extra)!r}; write it again with costhub.")


def empty_table(table: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Returns a table without rows that has the schema of `table`, or some of its columns.

    Raises:
        DataError: A column does not exist.
    """
    schema = arrow_schema(table)
    for column in columns or ():
        if column not in schema.names:
            raise DataError(f"The table {table} has no column {column!r}; it has {', '.join(schema.names)}.")
    empty = schema.empty_table()
    return empty if columns is None else empty.select(list(columns))
