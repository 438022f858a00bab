from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from costhub.dataset.remote import SparseCopy

ROWS, GROUP = 4000, 1000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(0)
    lists = pa.array([rng.random(3).tolist() for _ in range(ROWS)], pa.list_(pa.float64()))
    return pa.table(
        {
            "number": rng.random(ROWS),
            "text": [f"name {i % 7}" for i in range(ROWS)],  # a dictionary page comes before its data
            "list": lists,
            "other": rng.random(ROWS),
        }
    )


def remote(table: pa.Table, **options: Any) -> io.BytesIO:
    file = io.BytesIO()
    pq.write_table(table, file, row_group_size=GROUP, **options)
    return file


@pytest.mark.parametrize("columns", [{"number"}, {"text", "other"}, {"list"}, {"number", "text", "list", "other"}])
@pytest.mark.parametrize("group", range(ROWS // GROUP))
def test_what_was_fetched_reads_as_it_is(table: pa.Table, columns: set[str], group: int) -> None:
    names = sorted(columns)
    with SparseCopy(remote(table)) as copy:
        copy.fetch(group, columns)

        found = pq.ParquetFile(copy.path, page_checksum_verification=True).read_row_group(group, names)

    assert found.equals(table.slice(group * GROUP, GROUP).select(names))


def test_what_was_not_fetched_is_a_hole(table: pa.Table) -> None:
    with SparseCopy(remote(table)) as copy:
        copy.fetch(1, {"number"})
        copy.fetch(2, {"number"})

        with pytest.raises(OSError, match=r"[Pp]age"):
            pq.ParquetFile(copy.path).read_row_group(1, ["number"])


def test_ranges_are_fetched_once_and_neighbours_in_one_request(table: pa.Table) -> None:
    class Counted(io.BytesIO):
        reads: list[int]

        def read(self, size: int | None = -1) -> bytes:
            self.reads.append(size or 0)
            return super().read(size)

    counted = Counted(remote(table).getvalue())
    counted.reads = []
    with SparseCopy(counted) as copy:
        counted.reads.clear()
        copy.fetch(0, {"number", "text", "list", "other"})
        whole = list(counted.reads)
        counted.reads.clear()
        copy.fetch(0, {"number", "other"})

    assert len(whole) == 1
    assert len(counted.reads) == 2  # the lists between them are larger than a request is worth
    assert sum(counted.reads) < whole[0]


def test_a_footer_longer_than_the_first_fetch_is_completed() -> None:
    names = [f"column {'x' * 400} {i}" for i in range(200)]
    wide = pa.table({name: [1.0, 2.0] for name in names})
    file = remote(wide)
    assert int.from_bytes(file.getvalue()[-8:-4], "little") > 1 << 16

    with SparseCopy(file) as copy:
        copy.fetch(0, {names[150]})

        assert pq.ParquetFile(copy.path).read(columns=[names[150]]).equals(wide.select([names[150]]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a Parquet file"),
        (b"PAR1", "not a Parquet file"),
        (b"<html>not found</html>", "not a Parquet file"),
        (b"PAR1" + (1 << 20).to_bytes(4, "little") + b"PAR1", "footer is longer"),
    ],
)
def test_something_else_is_refused(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SparseCopy(io.BytesIO(content))


def test_a_file_that_shrank_is_refused(table: pa.Table) -> None:
    file = remote(table)
    with SparseCopy(file) as copy:
        file.truncate(2000)

        with pytest.raises(ValueError, match="it ends after"):
            copy.fetch(3, {"other"})
