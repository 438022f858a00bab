"""Provides RemoteFolder: a data folder behind an fsspec file system, read in byte ranges instead of downloaded."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq

from costhub.dataset.folder import FolderTables, Result, chosen_devices
from costhub.dataset.shards.layout import empty_table
from costhub.dataset.shards.shard import MOST_FOOTER_BYTES, ROW_GROUP_ROWS, check_schema
from costhub.dataset.shards.shard_set import SHARD_PATTERN
from costhub.errors import DataError, first_line


class FileSystem(Protocol):
    """The file system methods used here; every fsspec file system has them."""

    def find(self, path: str) -> Any:
        """Lists the files in a folder and below it."""

    def open(self, path: str, mode: str = ..., *, cache_type: str) -> Any:
        """Opens a seekable file."""


class RemoteFolder(FolderTables):
    """A data folder behind an fsspec file system, for reading.

    Of each shard it fetches only the footer and, from row groups whose statistics fit the condition, the
    requested columns. It reads only shards, not journals: a folder with a journal is still being written.
    Errors of the file system itself, such as a lost connection, pass through.

    Example:
        >>> import fsspec, tempfile
        >>> from costhub.dataset.folder import DataFolder
        >>> folder = DataFolder.create(tempfile.mkdtemp())
        >>> folder.put_device({"device_id": "amd-epyc", "kind": "cpu"})
        >>> RemoteFolder(fsspec.filesystem("file"), str(folder.path)).devices(["kind"]).to_pylist()
        [{'kind': 'cpu'}]
    """

    def __init__(self, filesystem: FileSystem, path: str) -> None:
        """Wraps a path without looking at it."""
        self.path: str = path
        self._filesystem = filesystem

    def device_ids(self) -> list[str]:
        """Names of the devices that have shards of measurements."""
        return sorted(self._measurements())

    def iter_measurements(
        self,
        device_ids: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        where: pc.Expression | None = None,
        *,
        batch_rows: int = ROW_GROUP_ROWS,
    ) -> Iterator[pa.RecordBatch]:
        """Reads the measurements of some devices that meet a condition, one row group at a time.

        A published folder, unlike one being written, holds every record only once; `costhub check` verifies this.

        Raises:
            DataError: A shard cannot be read, or a device or column does not exist.
        """
        shards = self._measurements()
        for device_id in chosen_devices(self, sorted(shards), device_ids):
            for path in shards[device_id]:
                yield from self._read(path, "measurements", columns, where, batch_rows)

    def read_batches(
        self,
        read: Callable[[Iterable[pa.RecordBatch]], Result],
        device_ids: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
    ) -> Result:
        """Applies `read` to the batches of `iter_measurements`, and returns its result.

        Raises:
            DataError: As for `iter_measurements`.
        """
        return read(self.iter_measurements(device_ids, columns))

    def _measurements(self) -> dict[str, list[str]]:
        shards: dict[str, list[str]] = {}
        for path in self._shards("measurements", depth=2):
            shards.setdefault(path.split("/")[-2], []).append(path)
        if not shards:
            raise DataError(
                f"{self.path} is not a data folder: it has no shards measurements/<device>/{SHARD_PATTERN}."
            )
        return shards

    def _shards(self, table: str, *, depth: int) -> list[str]:
        base = f"{self.path}/{table}"
        try:
            paths = self._filesystem.find(base)
        except FileNotFoundError:
            return []
        # Numbers in names have leading zeros, so names sort like the shards.
        return sorted(
            path
            for path in paths
            # `find` may return the base in another form, such as an absolute path or without its protocol.
            if fnmatchcase(path.rsplit("/", 1)[-1], SHARD_PATTERN) and path.split("/")[-1 - depth :][:1] == [table]
        )

    def _read_small(self, table: str, columns: Sequence[str] | None) -> pa.Table:
        batches = [
            batch
            for path in self._shards(table, depth=1)
            for batch in self._read(path, table, columns, None, ROW_GROUP_ROWS)
        ]
        return pa.Table.from_batches(batches, empty_table(table, columns).schema)

    def _read(
        self,
        path: str,
        table: str,
        columns: Sequence[str] | None,
        where: pc.Expression | None,
        batch_rows: int,
    ) -> Iterator[pa.RecordBatch]:
        import pyarrow.dataset as ds  # it imports pandas

        parquet = ds.ParquetFileFormat(
            default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
        )
        try:
            with (
                # Without fsspec's cache, which would fetch megabytes around each range.
                contextlib.closing(self._filesystem.open(path, "rb", cache_type="none")) as file,
                SparseCopy(file) as copy,
            ):
                shard = parquet.make_fragment(copy.path, pa_fs.LocalFileSystem())
                layout = check_schema(path, shard.physical_schema, table=table)

                def fetched(names: list[str], condition: pc.Expression | None) -> Iterator[pa.RecordBatch]:
                    # Every word of the condition may be a column: a false match costs bytes, never rows.
                    needed = {*names, *(() if condition is None else re.findall(r"\w+", str(condition)))}
                    for group in shard.split_by_row_group(condition, layout.schema):
                        copy.fetch(group.row_groups[0].id, needed)
                        yield from group.to_batches(
                            layout.schema, names, filter=condition, batch_size=batch_rows, batch_readahead=0
                        )

                yield from layout.read(fetched, columns, where)
        except (pa.ArrowException, OSError, ValueError) as error:
            if isinstance(error, OSError) and type(error) is not OSError:
                raise  # the file system's own error, such as a missing permission: the caller knows what to do
            raise DataError(f"{path} cannot be read ({first_line(error)}); try again later.") from error


_TAIL = 1 << 16
"""Number of bytes at the end fetched at once; most footers fit."""
_END = 8
"""Bytes after the footer: its length, and PAR1."""
_HOLE = 1 << 13
"""Fetching a gap of this many bytes between two ranges is cheaper than another request."""


class SparseCopy:
    """A local file as long as the remote one, with holes where nothing was fetched.

    Arrow can read the remote file itself, but its threads then hold Python objects, and one that releases
    them while the interpreter shuts down aborts the process (apache/arrow issues 36980 and 45017). With a local
    file they hold none.

    Example:
        >>> import io, pyarrow as pa, pyarrow.parquet as pq
        >>> remote = io.BytesIO()
        >>> pq.write_table(pa.table({"a": [1, 2, 3], "b": [4, 5, 6]}), remote, row_group_size=2)
        >>> with SparseCopy(remote) as copy:
        ...     copy.fetch(1, {"b"})
        ...     pq.ParquetFile(copy.path).read_row_group(1, columns=["b"])["b"].to_pylist()
        [6]
    """

    def __init__(self, remote: Any) -> None:
        """Fetches the footer.

        Args:
            remote: A seekable file.

        Raises:
            ValueError: The file does not end like a Parquet file.
        """
        self._remote = remote
        self._size = remote.seek(0, 2)
        self._footer = self._read_footer()
        # Parsed before the local file exists, so that a broken footer leaves no file behind.
        self._metadata = pq.read_metadata(pa.BufferReader(self._footer))
        self._file = tempfile.NamedTemporaryFile(suffix=".parquet")  # noqa: SIM115
        self.path = self._file.name
        self._begin()

    def __enter__(self) -> SparseCopy:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def fetch(self, row_group: int, columns: Collection[str]) -> None:
        """Fetches the columns of a row group; earlier row groups turn into holes again.

        Raises:
            ValueError: The remote file has become shorter.
        """
        self._begin()
        for start, end in self._ranges(row_group, columns):
            self._put(start, self._get(start, end))
        self._file.flush()

    def _begin(self) -> None:
        self._file.truncate(0)
        self._file.truncate(self._size)
        self._put(self._size - len(self._footer), self._footer)
        self._file.flush()

    def _put(self, start: int, content: bytes) -> None:
        self._file.seek(start)
        self._file.write(content)

    def _get(self, start: int, end: int) -> bytes:
        self._remote.seek(start)
        content: bytes = self._remote.read(end - start)
        if len(content) < end - start:
            raise ValueError(f"it ends after {start + len(content)} bytes of {self._size}")
        return content

    def _read_footer(self) -> bytes:
        tail = self._get(max(0, self._size - _TAIL), self._size)
        if tail[-4:] != b"PAR1" or len(tail) < _END:
            raise ValueError("it is not a Parquet file")
        length = int.from_bytes(tail[-_END:-4], "little") + _END
        if length > min(self._size, MOST_FOOTER_BYTES):
            raise ValueError(f"its footer is longer than the file, or than {MOST_FOOTER_BYTES:,} bytes")
        if length > len(tail):
            tail = self._get(self._size - length, self._size - len(tail)) + tail
        return tail

    def _ranges(self, row_group: int, columns: Collection[str]) -> Iterator[tuple[int, int]]:
        """Yields the byte ranges of the columns; joins ranges that nearly touch."""
        group = self._metadata.row_group(row_group)
        chunks = [group.column(place) for place in range(group.num_columns)]
        pending: tuple[int, int] | None = None
        for start, length in sorted(
            (chunk.dictionary_page_offset or chunk.data_page_offset, chunk.total_compressed_size)
            for chunk in chunks
            if chunk.path_in_schema.split(".")[0] in columns
        ):
            if pending and start - pending[1] <= _HOLE:
                pending = pending[0], start + length
                continue
            if pending:
                yield pending
            pending = start, start + length
        if pending:
            yield pending
