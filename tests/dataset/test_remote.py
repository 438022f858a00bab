from __future__ import annotations

import io
import os
import runpy
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from costhub.dataset.folder import DataFolder
from costhub.dataset.load import iter_measurements, load_measurements
from costhub.dataset.remote import RemoteFolder, SparseCopy
from costhub.errors import DataError

build_groups = runpy.run_path(str(Path(__file__).with_name("grouped_folder.py")))["build_groups"]
SHARD = "measurements/cpu0/train-00000-of-00001.parquet"


class CountingFiles(fsspec.AbstractFileSystem):
    """The files of this machine through fsspec, with the ranges that were asked for."""

    cachable = False  # or fsspec hands out one object for all tests

    def __init__(self) -> None:
        super().__init__()
        self.ranges: list[tuple[int, int]] = []

    def find(self, path: str) -> list[str]:
        return [str(found) for found in Path(path).rglob("*") if found.is_file()]

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        assert options == {"cache_type": "none"}
        return CountedFile(path, self.ranges)

    @property
    def bytes_read(self) -> int:
        return sum(length for _, length in self.ranges)


class CountedFile:
    def __init__(self, path: str, ranges: list[tuple[int, int]]) -> None:
        self._file = Path(path).open("rb")  # noqa: SIM115 - closed by close()
        self._ranges = ranges

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def read(self, length: int = -1) -> bytes:
        start = self._file.tell()
        content = self._file.read(length)
        self._ranges.append((start, len(content)))
        return content


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return build_groups(tmp_path_factory.mktemp("grouped") / "data")


@pytest.fixture
def files() -> CountingFiles:
    return CountingFiles()


def test_it_reads_what_the_folder_itself_reads(folder: DataFolder, files: CountingFiles) -> None:
    choice: dict[str, Any] = {"workload": ["matmul3", "w07"], "status": "ok"}

    remote = load_measurements(str(folder.path), filesystem=files, **choice)

    assert remote.equals(load_measurements(folder.path, **choice))
    assert remote.num_rows > 100


@pytest.mark.parametrize("spelt", [os.path.relpath, lambda path: f"file://{path}", "{}/".format])
def test_a_path_may_be_spelt_in_any_way_that_its_file_system_takes(folder: DataFolder, spelt: Any) -> None:
    found = load_measurements(spelt(folder.path), filesystem=fsspec.filesystem("file"), workload="w07")

    assert found.equals(load_measurements(folder.path, workload="w07"))


def test_only_the_row_groups_that_match_are_read(folder: DataFolder, files: CountingFiles) -> None:
    size = (folder.path / SHARD).stat().st_size

    table = load_measurements(str(folder.path), workload="matmul3", filesystem=files)

    assert table.num_rows == 250
    # One of twenty row groups, one footer, and the names of the workloads.
    assert files.bytes_read < 0.2 * size
    files.ranges.clear()
    assert load_measurements(str(folder.path), filesystem=files).num_rows == 5000
    assert files.bytes_read > 0.9 * size


def test_only_the_columns_wanted_are_read(folder: DataFolder, files: CountingFiles) -> None:
    load_measurements(str(folder.path), columns=["run_s", "status"], filesystem=files)

    assert files.bytes_read < 0.2 * (folder.path / SHARD).stat().st_size


def test_batches_are_fetched_only_when_they_are_asked_for(folder: DataFolder, files: CountingFiles) -> None:
    batches = iter_measurements(str(folder.path), batch_rows=100, filesystem=files)
    first = next(batches)

    assert (first.num_rows, first.schema.names) == (
        100,
        DataFolder.open(folder.path).measurements().column_names,
    )
    assert files.bytes_read < 0.2 * (folder.path / SHARD).stat().st_size
    assert [batch.num_rows for batch in batches][:3] == [100, 50, 100]


def test_memory_does_not_grow_with_the_data(folder: DataFolder, files: CountingFiles) -> None:
    pa.default_memory_pool().release_unused()
    before, peak = pa.total_allocated_bytes(), 0
    for _ in iter_measurements(str(folder.path), filesystem=files):
        peak = max(peak, pa.total_allocated_bytes() - before)

    # Twenty row groups pass by, one at a time.
    assert 0 < peak < 0.3 * load_measurements(folder.path).nbytes


def test_the_small_tables_are_there(folder: DataFolder, files: CountingFiles) -> None:
    remote = RemoteFolder(files, str(folder.path))

    assert remote.device_ids() == ["cpu0"]
    assert remote.devices().equals(folder.devices())
    assert remote.workloads().equals(folder.workloads())
    assert remote.workloads(["name"]).equals(folder.workloads(["name"]))


def test_a_folder_without_shards_is_refused(tmp_path: Path, files: CountingFiles) -> None:
    with pytest.raises(DataError, match="no shards measurements/<device>/train-"):
        list(RemoteFolder(files, str(tmp_path)).iter_measurements())


def test_an_unknown_device_is_refused(folder: DataFolder, files: CountingFiles) -> None:
    with pytest.raises(DataError, match="no measurements of 'gpu'; it has those of cpu0"):
        load_measurements(str(folder.path), device="gpu", filesystem=files)


@pytest.mark.parametrize("start", [0, -40])
def test_a_damaged_shard_is_refused(tmp_path: Path, files: CountingFiles, start: int) -> None:
    path = build_groups(tmp_path / "data").path / SHARD
    content = bytearray(path.read_bytes())
    middle = start % len(content) or len(content) // 2
    content[middle : middle + 20] = b"\xff" * 20
    path.write_bytes(content)

    with pytest.raises(DataError, match="cannot be read"):
        load_measurements(str(tmp_path / "data"), filesystem=files)


def test_a_file_of_something_else_is_refused(folder: DataFolder, tmp_path: Path, files: CountingFiles) -> None:
    place = tmp_path / SHARD
    place.parent.mkdir(parents=True)
    place.write_bytes((folder.path / "devices/train-00000-of-00001.parquet").read_bytes())

    with pytest.raises(DataError, match="holds the table devices, but measurements belongs there"):
        list(RemoteFolder(files, str(tmp_path)).iter_measurements(where=pc.field("status") == "ok"))


def test_errors_of_the_file_system_pass(folder: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    class Forbidden(CountingFiles):
        def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
            raise PermissionError(path)

    with pytest.raises(PermissionError):
        load_measurements(str(folder.path), filesystem=Forbidden())


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


def remote_file(table: pa.Table, **options: Any) -> io.BytesIO:
    file = io.BytesIO()
    pq.write_table(table, file, row_group_size=GROUP, **options)
    return file


@pytest.mark.parametrize("columns", [{"number"}, {"text", "other"}, {"list"}, {"number", "text", "list", "other"}])
@pytest.mark.parametrize("group", range(ROWS // GROUP))
def test_what_was_fetched_reads_as_it_is(table: pa.Table, columns: set[str], group: int) -> None:
    names = sorted(columns)
    with SparseCopy(remote_file(table)) as copy:
        copy.fetch(group, columns)

        found = pq.ParquetFile(copy.path, page_checksum_verification=True).read_row_group(group, names)

    assert found.equals(table.slice(group * GROUP, GROUP).select(names))


def test_what_was_not_fetched_is_a_hole(table: pa.Table) -> None:
    with SparseCopy(remote_file(table)) as copy:
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

    counted = Counted(remote_file(table).getvalue())
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
    file = remote_file(wide)
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
    file = remote_file(table)
    with SparseCopy(file) as copy:
        file.truncate(2000)

        with pytest.raises(ValueError, match="it ends after"):
            copy.fetch(3, {"other"})
