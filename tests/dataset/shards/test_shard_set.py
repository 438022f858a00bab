from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.dataset.schema import table_from_rows
from costhub.dataset.shards.journal import encode_row
from costhub.dataset.shards.layout import RECORD_KEY
from costhub.dataset.shards.shard import shard_rows, write_shard
from costhub.dataset.shards.shard_set import (
    add_shard,
    merge_small,
    read_shards,
    remove_merged,
    remove_temporaries,
    repair_names,
    shard_name,
    shard_paths,
    stream_measurements,
)
from costhub.errors import DataError


def ids_of(folder: Path) -> list[str]:
    ids: list[str] = read_shards(folder, "measurements", ["record_id"])["record_id"].to_pylist()
    return ids


@pytest.fixture
def one(measurement: Any) -> Any:
    return lambda number: table_from_rows("measurements", [measurement(number)])


def test_added_shards_are_counted_in_every_name(tmp_path: Path, one: Any) -> None:
    paths = [add_shard(tmp_path, one(i)) for i in range(3)]

    assert paths[-1].name == "train-00002-of-00003.parquet"
    assert [p.name for p in shard_paths(tmp_path)] == [shard_name(i, 3) for i in range(3)]
    assert ids_of(tmp_path) == ["r00000", "r00001", "r00002"]


@pytest.mark.parametrize("renamed", [0, 1, 2])
def test_a_crash_between_renames_leaves_everything_readable_and_is_repaired(
    tmp_path: Path, one: Any, renamed: int
) -> None:
    for i in range(2):
        add_shard(tmp_path, one(i))
    # What add_shard leaves when it dies after `renamed` renames: all shards, some by their old names.
    add_shard(tmp_path, one(2))
    for i in range(renamed, 2):
        (tmp_path / shard_name(i, 3)).rename(tmp_path / shard_name(i, 2))

    assert ids_of(tmp_path) == ["r00000", "r00001", "r00002"]
    add_shard(tmp_path, one(3))
    assert [p.name for p in shard_paths(tmp_path)] == [shard_name(i, 4) for i in range(4)]
    assert ids_of(tmp_path) == ["r00000", "r00001", "r00002", "r00003"]


def test_a_new_shard_replaces_none_however_they_are_named(tmp_path: Path, one: Any) -> None:
    for i, name in enumerate([shard_name(3, 4), "train-a.parquet", "train-b.parquet"]):
        (tmp_path / "new").mkdir()
        add_shard(tmp_path / "new", one(i)).rename(tmp_path / name)
        (tmp_path / "new").rmdir()

    assert add_shard(tmp_path, one(9)).name == shard_name(3, 4)
    assert ids_of(tmp_path) == ["r00000", "r00001", "r00002", "r00009"]


names = st.one_of(
    st.builds(shard_name, st.integers(0, 5), st.integers(1, 6)),
    st.sampled_from(["train-a.parquet", "train-b.parquet"]),
)


@given(st.sets(names, min_size=1, max_size=7))
def test_any_mix_of_names_is_repaired_without_losing_a_file(
    tmp_path_factory: pytest.TempPathFactory, found: set[str]
) -> None:
    folder = tmp_path_factory.mktemp("shards")
    for name in found:
        (folder / name).write_text(name)
    order = [path.name for path in shard_paths(folder)]

    repair_names(folder)

    assert [path.name for path in shard_paths(folder)] == [shard_name(i, len(found)) for i in range(len(found))]
    assert [path.read_text() for path in shard_paths(folder)] == order


def test_temporaries_are_not_read_and_are_removed(tmp_path: Path, one: Any) -> None:
    add_shard(tmp_path, one(0))
    (tmp_path / ".writing-1-ab").write_bytes(b"PAR1 half")

    assert ids_of(tmp_path) == ["r00000"]
    remove_temporaries(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [shard_name(0, 1)]


def test_a_missing_folder_has_no_rows(tmp_path: Path) -> None:
    table = read_shards(tmp_path / "nothing", "devices", ["kind"])

    assert (table.num_rows, table.column_names) == (0, ["kind"])


def test_a_reader_sees_every_row_while_shards_are_added(tmp_path: Path, one: Any) -> None:
    add_shard(tmp_path, one(0))
    stop = threading.Event()
    failed: list[BaseException] = []

    def write() -> None:
        try:
            for i in range(1, 40):
                add_shard(tmp_path, one(i))
        except BaseException as error:
            failed.append(error)
        finally:
            stop.set()

    writer = threading.Thread(target=write)
    writer.start()
    counts = [0]
    while not stop.is_set():
        table: pa.Table = read_shards(tmp_path, "measurements", ["record_id"])
        assert table["record_id"].to_pylist() == [f"r{i:05d}" for i in range(table.num_rows)]
        assert table.num_rows >= counts[-1]
        counts.append(table.num_rows)
    writer.join()

    assert failed == []
    assert len(ids_of(tmp_path)) == 40


def test_small_neighbours_are_joined_in_order_and_large_ones_left(tmp_path: Path, measurement: Any) -> None:
    for numbers in (range(0, 2), range(2, 4), range(4, 9), range(9, 10), range(10, 12)):
        rows = [measurement(n, workload_id="w") for n in numbers]
        add_shard(tmp_path, table_from_rows("measurements", rows))
    before = ids_of(tmp_path)

    merge_small(tmp_path, rows=4)

    assert [shard_rows(path) for path in shard_paths(tmp_path)] == [4, 5, 3]
    assert [path.name for path in shard_paths(tmp_path)] == [shard_name(i, 3) for i in range(3)]
    assert ids_of(tmp_path) == before


def test_what_an_interrupted_merge_left_is_removed(tmp_path: Path, one: Any) -> None:
    for number in range(3):
        add_shard(tmp_path, one(number))
    joined = pa.concat_tables([one(0), one(1)])
    write_shard(joined, tmp_path / shard_name(0, 3))

    assert remove_merged(tmp_path) == {"r00000", "r00001", "r00002"}

    assert [shard_rows(path) for path in shard_paths(tmp_path)] == [2, 1]
    assert ids_of(tmp_path) == ["r00000", "r00001", "r00002"]


def test_shards_that_share_only_some_records_are_left(tmp_path: Path, one: Any) -> None:
    add_shard(tmp_path, pa.concat_tables([one(0), one(1)]))
    add_shard(tmp_path, pa.concat_tables([one(1), one(2)]))

    assert len(remove_merged(tmp_path)) == 3
    assert len(shard_paths(tmp_path)) == 2


def streamed_ids(folder: Path) -> list[str]:
    batches = stream_measurements(folder, ["record_id", RECORD_KEY], None, 2)
    return [record_id for batch in batches for record_id in batch["record_id"].to_pylist()]


def test_a_record_in_several_places_is_read_once(tmp_path: Path, measurement: Any) -> None:
    for numbers in ([0, 1, 2], [2, 3]):
        add_shard(tmp_path, table_from_rows("measurements", [measurement(n, workload_id="w") for n in numbers]))
    (tmp_path / "journal.jsonl").write_bytes(b"".join(encode_row(measurement(n)) for n in (3, 4)))

    assert streamed_ids(tmp_path) == ["r00000", "r00001", "r00002", "r00003", "r00004"]


def test_a_row_that_moves_to_a_shard_of_an_old_name_is_read_once(tmp_path: Path, measurement: Any) -> None:
    def shard_of(*numbers: int) -> None:
        add_shard(tmp_path, table_from_rows("measurements", [measurement(n, workload_id="w") for n in numbers]))

    shard_of(0, 1, 2, 3)
    shard_of(4)
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(encode_row(measurement(5, workload_id="w")))
    before = [path.name for path in shard_paths(tmp_path)]
    batches = stream_measurements(tmp_path, ["record_id", RECORD_KEY], None, 2)

    found = next(batches)["record_id"].to_pylist()
    shard_of(5)
    journal.unlink()
    merge_small(tmp_path, rows=4)
    assert [path.name for path in shard_paths(tmp_path)] == before
    found += [record_id for batch in batches for record_id in batch["record_id"].to_pylist()]

    assert found == [f"r{number:05}" for number in range(6)]


def test_nothing_is_read_of_an_empty_folder(tmp_path: Path) -> None:
    assert streamed_ids(tmp_path) == []


def test_shards_that_go_away_meanwhile_are_said(tmp_path: Path, measurement: Any) -> None:
    for number in range(2):
        add_shard(tmp_path, table_from_rows("measurements", [measurement(number)]))
    batches = stream_measurements(tmp_path, ["record_id"], None, 2)
    next(batches)
    (tmp_path / "train-00001-of-00002.parquet").unlink()

    with pytest.raises(DataError, match="changed while they were read; read them again"):
        next(batches)


def test_a_damaged_shard_is_said(tmp_path: Path, measurement: Any) -> None:
    path = add_shard(tmp_path, table_from_rows("measurements", [measurement(n) for n in range(50)]))
    content = bytearray(path.read_bytes())
    content[100] ^= 255
    path.write_bytes(content)

    with pytest.raises(DataError, match=r"cannot be read .* remove it or fetch it again"):
        list(stream_measurements(tmp_path, None, None, 10))
