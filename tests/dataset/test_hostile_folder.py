"""Data folders whose files are none: whoever reads them gets a sentence at once, and writes nothing elsewhere."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from costhub.dataset.folder import DataFolder
from costhub.dataset.load import iter_measurements, load_measurements, load_programs
from costhub.dataset.metaschedule.export import export_database
from costhub.dataset.metaschedule.lines import read_lines
from costhub.dataset.readme import write_readme
from costhub.dataset.shards.layout import compact
from costhub.dataset.shards.shard import MOST_SHARD_BYTES, new_parquet, read_shard, seal_state
from costhub.dataset.splits.split import Split, find_split, load_split, put_split, save_split
from costhub.dataset.stats.folder_stats import folder_stats
from costhub.errors import DataError

SHARD = "measurements/cpu0/train-00000-of-00001.parquet"
WORKLOADS = "workloads/train-00000-of-00001.parquet"
JOURNAL = "measurements/cpu0/journal.jsonl"
SPLIT = "splits/a.json"


@pytest.fixture(autouse=True)
def at_once() -> Iterator[None]:
    """Ends a test that waits for a pipe: nobody will ever write to it."""

    def hangs(*_: object) -> None:
        raise AssertionError("It waits for ever.")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.setitimer(signal.ITIMER_REAL, 30)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def data(tmp_path: Path, measurement: Any, workload: Any) -> Path:
    folder = DataFolder.create(tmp_path / "data")
    folder.put_device({"device_id": "cpu0", "kind": "cpu"})
    folder.put_workloads([workload(number) for number in range(3)])
    with folder.writer("cpu0") as writer:
        for number in range(4):
            writer.append(measurement(number, trace=str(number)))
    put_split(folder.path, Split("a", ("w0",), ("w1",), 0))
    return folder.path


def pipe(path: Path) -> None:
    os.mkfifo(path)


def bound_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        here = os.open(path.parent, os.O_RDONLY)
        try:
            opened.bind(f"/proc/self/fd/{here}/{path.name}")  # a path of its own may be too long
        finally:
            os.close(here)


def link_to_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def huge_footer(path: Path) -> None:
    """Five gigabytes of nothing, of which four are a footer."""
    with path.open("wb") as file:
        file.truncate(MOST_SHARD_BYTES - 8)
        file.seek(0, os.SEEK_END)
        file.write((MOST_SHARD_BYTES - 100).to_bytes(4, "little") + b"PAR1")


Spoil = Callable[[Path], None]
SPOILS: list[Spoil] = [pipe, bound_socket, link_to_device, huge]


def spoil(path: Path, how: Spoil) -> None:
    path.unlink(missing_ok=True)
    how(path)


@pytest.mark.parametrize("how", [*SPOILS, huge_footer])
@pytest.mark.parametrize("where", [SHARD, WORKLOADS])
def test_a_shard_that_is_none_is_a_sentence(data: Path, where: str, how: Spoil, tmp_path: Path) -> None:
    spoil(data / where, how)

    readers: list[Callable[[], object]] = [
        lambda: load_measurements(data, workload="w0"),
        lambda: list(iter_measurements(data, operator="matmul")),
        lambda: folder_stats(data),
        lambda: load_programs(data),
        lambda: export_database(data, tmp_path / "out", progress=False),
    ]
    for read in readers:
        with pytest.raises(DataError, match="train-00000-of-00001"):
            read()


@pytest.mark.parametrize("how", SPOILS)
def test_a_file_that_is_none_has_no_seal(data: Path, how: Spoil) -> None:
    spoil(data / SHARD, how)
    with pytest.raises(DataError):
        seal_state(data / SHARD)


def test_a_footer_that_claims_gigabytes_is_not_read(data: Path) -> None:
    spoil(data / SHARD, huge_footer)
    assert seal_state(data / SHARD) == "missing"


@pytest.mark.parametrize("how", SPOILS)
def test_a_journal_that_is_none_is_a_sentence(data: Path, how: Spoil) -> None:
    spoil(data / JOURNAL, how)

    for read in (load_measurements, load_programs, folder_stats, lambda path: DataFolder.open(path).writer("cpu0")):
        with pytest.raises(DataError, match=r"journal\.jsonl"):
            read(data)


def test_a_journal_is_never_a_link(data: Path, tmp_path: Path) -> None:
    """Rows would be appended to whatever it leads to."""
    (tmp_path / "victim").write_bytes(b"")
    spoil(data / JOURNAL, lambda path: path.symlink_to(tmp_path / "victim"))

    with pytest.raises(DataError, match="symbolic link"):
        DataFolder.open(data).writer("cpu0")
    (tmp_path / "victim").unlink()
    with pytest.raises(DataError, match="symbolic link"):
        DataFolder.open(data).writer("cpu0")
    assert not (tmp_path / "victim").exists()


@pytest.mark.parametrize("how", SPOILS)
def test_a_split_that_is_none_is_a_sentence(data: Path, how: Spoil) -> None:
    spoil(data / SPLIT, how)

    split = Split("a", ("w0",), ("w1",), 0)
    for use in (
        lambda: load_split(data, "a"),
        lambda: load_split(data / SPLIT),
        lambda: find_split(data, "a"),
        lambda: put_split(data, split),
    ):
        with pytest.raises(DataError, match=r"a\.json"):
            use()


@pytest.mark.parametrize("how", SPOILS[:3])
def test_a_lock_that_is_none_is_a_sentence(data: Path, how: Spoil) -> None:
    spoil(data / "measurements/cpu0/.lock", how)
    with pytest.raises(DataError, match=r"\.lock .*[Rr]emove it"):
        DataFolder.open(data).writer("cpu0")


def test_a_lock_writes_through_no_link(data: Path, tmp_path: Path) -> None:
    """The pid of the writer would replace what the file holds."""
    (tmp_path / "victim").write_text("precious")
    spoil(data / "measurements/cpu0/.lock", lambda path: path.symlink_to(tmp_path / "victim"))

    with pytest.raises(DataError, match="Remove it"):
        DataFolder.open(data).writer("cpu0")
    assert (tmp_path / "victim").read_text() == "precious"


def test_text_files_write_through_no_link(data: Path, tmp_path: Path) -> None:
    for path in (data / SPLIT, data / "README.md"):
        spoil(path, lambda path: path.symlink_to(tmp_path / "victim"))

    save_split(Split("a", ("w0",), ("w1",), 0), data / SPLIT)
    write_readme(data)

    assert not (tmp_path / "victim").exists()
    assert load_split(data, "a").train == ("w0",)


def test_shards_that_are_links_to_files_of_ones_own_are_read(data: Path, tmp_path: Path) -> None:
    """As huggingface_hub keeps what it has fetched."""
    elsewhere = tmp_path / "blob"
    (data / SHARD).rename(elsewhere)
    (data / SHARD).symlink_to(elsewhere)
    assert load_measurements(data).num_rows == 4
    assert seal_state(data / SHARD) == "sealed"


@pytest.mark.parametrize("how", SPOILS)
def test_a_database_that_is_no_file_is_a_sentence(how: Spoil, tmp_path: Path) -> None:
    spoil(tmp_path / "lines.json", how)
    with pytest.raises(DataError, match=r"lines\.json"):
        next(read_lines(tmp_path / "lines.json", most_bytes=100))


@pytest.mark.parametrize("column", ["instructions", "postproc", "workload_id", "error", "proposed_by", "record_id"])
def test_texts_that_are_none_are_a_sentence(data: Path, column: str, tmp_path: Path) -> None:
    """Parquet takes any bytes for a text."""
    table = compact(read_shard(data / SHARD))
    texts = [b"\xff\xfe", *(b"x" for _ in range(table.num_rows - 1))]
    place = table.schema.get_field_index(column)
    bad = table.set_column(place, table.schema.field(place), pa.array(texts, pa.binary()).view(pa.string()))
    with new_parquet(data / SHARD, table.schema) as writer:
        writer.write_table(bad)

    with pytest.raises(DataError, match="UTF8"):
        load_measurements(data)
    for read in (folder_stats, load_programs, lambda path: export_database(path, tmp_path / "out")):
        with contextlib.suppress(DataError):  # not every one reads the column
            read(data)
