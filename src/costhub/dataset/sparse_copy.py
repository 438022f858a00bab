"""Provides SparseCopy: the footer and some row groups of a remote Parquet file, in a local file."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_TAIL = 1 << 16
"""Bytes at the end that are fetched at once; most footers fit."""
_END = 8
"""Bytes after the footer: its length, and PAR1."""
_HOLE = 1 << 13
"""Bytes between two wanted ranges that are cheaper to fetch than another request."""


class SparseCopy:
    """A local file as long as the remote one, with holes where nothing was asked for.

    Arrow can read the remote file itself, but its threads then hold Python objects, and one that lets go of
    them while the interpreter ends aborts the process (apache/arrow issues 36980 and 45017). Of a local file
    they hold none.

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
            remote: A file that can seek.

        Raises:
            ValueError: It does not end like a Parquet file.
        """
        self._remote = remote
        self._size = remote.seek(0, 2)
        self._footer = self._read_footer()
        # Before there is a file that a broken footer would leave behind.
        self._metadata = pq.read_metadata(pa.BufferReader(self._footer))
        self._file = tempfile.NamedTemporaryFile(suffix=".parquet")  # noqa: SIM115
        self.path = self._file.name
        self._begin()

    def __enter__(self) -> SparseCopy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def fetch(self, row_group: int, columns: Collection[str]) -> None:
        """Fetches the columns of a row group; what was fetched before is a hole again.

        Raises:
            ValueError: The remote file is shorter than it was.
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
        found: bytes = self._remote.read(end - start)
        if len(found) < end - start:
            raise ValueError(f"it ends after {start + len(found)} bytes of {self._size}")
        return found

    def _read_footer(self) -> bytes:
        tail = self._get(max(0, self._size - _TAIL), self._size)
        if tail[-4:] != b"PAR1" or len(tail) < _END:
            raise ValueError("it is not a Parquet file")
        length = int.from_bytes(tail[-_END:-4], "little") + _END
        if length > self._size:
            raise ValueError("its footer is longer than the file")
        if length > len(tail):
            tail = self._get(self._size - length, self._size - len(tail)) + tail
        return tail

    def _ranges(self, row_group: int, columns: Collection[str]) -> Iterator[tuple[int, int]]:
        """Where the columns lie; ranges that nearly touch are one."""
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
