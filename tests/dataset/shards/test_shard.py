from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from costhub.dataset.schema import arrow_schema, table_from_rows
from costhub.dataset.shards import shard
from costhub.dataset.shards.layout import compact, empty_table
from costhub.dataset.shards.shard import (
    SEAL_KEY,
    check_shard,
    read_shard,
    seal_state,
    write_seal,
    write_shard,
)
from costhub.errors import DataError


@pytest.fixture
def table(measurement: Any) -> pa.Table:
    return table_from_rows("measurements", [measurement(i) for i in range(7)])


@pytest.fixture
def path(tmp_path: Path, table: pa.Table) -> Path:
    path = tmp_path / "train-00000-of-00001.parquet"
    write_shard(table, path)
    return path


def test_a_shard_holds_what_was_written_sorted_by_workload(path: Path, table: pa.Table) -> None:
    ids = read_shard(path)["record_id"].to_pylist()

    assert ids == ["r00000", "r00003", "r00006", "r00001", "r00004", "r00002", "r00005"]
    assert sorted(read_shard(path).to_pylist(), key=lambda row: row["record_id"]) == table.to_pylist()


def test_a_shard_is_zstd_with_an_index_and_no_dictionary_for_lists_of_floats(path: Path) -> None:
    group = pq.read_metadata(path).row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}

    assert {column.compression for column in columns.values()} == {"ZSTD"}
    assert not columns["run_s.list.element"].has_dictionary_page
    assert not columns["decisions"].has_dictionary_page
    assert columns["instructions"].has_dictionary_page
    assert columns["status"].has_dictionary_page
    assert columns["workload_id"].has_column_index


def test_row_groups_stay_small(measurement: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard, "ROW_GROUP_ROWS", 10)
    write_shard(table_from_rows("measurements", [measurement(i) for i in range(25)]), tmp_path / "a.parquet")

    assert pq.read_metadata(tmp_path / "a.parquet").num_row_groups == 3
    assert shard.ROW_GROUP_ROWS <= 20_000


def test_columns_and_rows_can_be_chosen(path: Path) -> None:
    found = read_shard(path, ["run_s", "record_id"], where=pc.field("workload_id") == "w2")

    assert found.column_names == ["run_s", "record_id"]
    assert found["record_id"].to_pylist() == ["r00002", "r00005"]


def test_a_column_that_is_not_there_is_refused(path: Path) -> None:
    with pytest.raises(DataError, match="The table measurements has no column 'speed'"):
        read_shard(path, ["speed"])


def test_columns_in_another_order_are_read_in_ours(tmp_path: Path, table: pa.Table) -> None:
    held = compact(table)
    pq.write_table(held.select(held.column_names[::-1]), tmp_path / "x.parquet")

    assert read_shard(tmp_path / "x.parquet").equals(table)


def test_a_null_where_none_may_be_is_refused(tmp_path: Path, table: pa.Table) -> None:
    held = compact(table)
    field = held.schema.field("instructions").with_nullable(True)
    holes = held.set_column(held.column_names.index("instructions"), field, pa.array([None] * 7, pa.string()))
    pq.write_table(holes, tmp_path / "x.parquet")

    with pytest.raises(DataError, match="cannot be read"):
        read_shard(tmp_path / "x.parquet")


def test_nothing_but_the_shard_is_left_in_the_folder(path: Path) -> None:
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("size", [0, 3, 100, -1])
def test_a_truncated_shard_is_refused_in_a_sentence(path: Path, size: int) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:size])

    with pytest.raises(DataError, match=r"is not a complete Parquet file .*; remove it or fetch it again"):
        read_shard(path)


def test_damage_in_the_middle_is_refused_in_a_sentence(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4:600] = bytes(596)
    path.write_bytes(content)

    with pytest.raises(DataError, match="cannot be read"):
        read_shard(path)


def test_foreign_parquet_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "x.parquet")

    with pytest.raises(DataError, match=r"x\.parquet is Parquet, but not a shard of costhub"):
        read_shard(tmp_path / "x.parquet")


def test_a_shard_of_another_table_is_refused(path: Path) -> None:
    with pytest.raises(DataError, match="holds the table measurements, but devices belongs there"):
        check_shard(path, table="devices")


def test_a_shard_of_a_newer_schema_is_refused(tmp_path: Path, table: pa.Table) -> None:
    newer = table.replace_schema_metadata({b"costhub.table": b"measurements", b"costhub.schema_version": b"4"})
    pq.write_table(newer, tmp_path / "x.parquet")

    with pytest.raises(DataError, match="has schema version 4; this costhub reads up to 3"):
        read_shard(tmp_path / "x.parquet")


def test_a_shard_that_lacks_a_column_is_refused(tmp_path: Path, table: pa.Table) -> None:
    pq.write_table(compact(table).drop_columns(["decisions"]), tmp_path / "x.parquet")

    with pytest.raises(DataError, match="has no column 'decisions' of type string"):
        read_shard(tmp_path / "x.parquet")


def test_a_shard_with_a_column_too_many_is_refused(tmp_path: Path, table: pa.Table) -> None:
    pq.write_table(compact(table).append_column("x", pa.array([0] * 7)), tmp_path / "x.parquet")

    with pytest.raises(DataError, match="has the unknown column 'x'"):
        read_shard(tmp_path / "x.parquet")


def test_a_table_of_another_schema_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not have a costhub schema"):
        write_shard(pa.table({"x": [1]}), tmp_path / "x.parquet")
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_leaves_the_old_shard(path: Path, table: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shard.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_shard(table.slice(0, 1), path)

    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_an_empty_table_has_the_columns_asked_for() -> None:
    assert empty_table("devices").schema.equals(arrow_schema("devices"))
    assert empty_table("devices", ["kind"]).column_names == ["kind"]
    with pytest.raises(DataError, match="The table devices has no column 'colour'; it has device_id"):
        empty_table("devices", ["colour"])


def test_a_shard_of_schema_version_1_is_read_with_nulls_in_the_columns_it_lacks(tmp_path: Path) -> None:
    old = Path(__file__).parents[1] / "artefacts" / "measurements-1.parquet"

    found = read_shard(old)

    assert found.schema.names == arrow_schema("measurements").names
    assert found["space"].null_count == found.num_rows == 8
    assert found["run_s"].null_count == 0
    assert read_shard(old, ["record_id"], where=pc.field("space") == "default").num_rows == 0
    write_shard(found, tmp_path / "new.parquet")
    assert read_shard(tmp_path / "new.parquet").to_pylist() == found.to_pylist()


def test_a_shard_of_version_2_may_not_lack_its_columns(path: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["space"]), bad)

    with pytest.raises(DataError, match="no column 'space'"):
        read_shard(bad)


@pytest.fixture(scope="module")
def sealed_shard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("seal") / "train-00000-of-00001.parquet"
    rows = [{"device_id": f"cpu{i}", "kind": "cpu", "driver": "costhub.seal"} for i in range(50)]
    write_shard(table_from_rows("devices", rows), path)
    return path


def test_a_shard_is_written_sealed(sealed_shard: Path) -> None:
    assert seal_state(sealed_shard) == "sealed"
    assert len(pq.read_metadata(sealed_shard).metadata[SEAL_KEY.encode()]) == 64


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_flipped_bit_is_seen(sealed_shard: Path, tmp_path: Path, data: Any) -> None:
    content = bytearray(sealed_shard.read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= 1 << data.draw(st.integers(0, 7))
    copy = tmp_path / "flipped.parquet"
    copy.write_bytes(content)

    assert seal_state(copy) != "sealed"


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_file_that_is_cut_or_longer_is_seen(sealed_shard: Path, tmp_path: Path, data: Any) -> None:
    content = sealed_shard.read_bytes()
    cut = content[: data.draw(st.integers(0, len(content) - 1))]
    extra = data.draw(st.binary(min_size=1, max_size=20))
    copy = tmp_path / "cut.parquet"
    for changed in (cut, content + extra, extra + content):
        copy.write_bytes(changed)
        assert seal_state(copy) != "sealed"


def test_a_file_that_another_tool_wrote_again_is_seen(sealed_shard: Path, tmp_path: Path) -> None:
    table = pq.read_table(sealed_shard)
    swapped = table.set_column(1, "kind", table["device_id"])
    stale = {SEAL_KEY: pq.read_metadata(sealed_shard).metadata[SEAL_KEY.encode()]}
    for name, seal in (("kept", stale), ("dropped", {})):
        with pq.ParquetWriter(tmp_path / name, swapped.schema) as writer:
            writer.write_table(swapped)
            writer.add_key_value_metadata(seal)

    assert seal_state(tmp_path / "kept") == "broken"
    assert seal_state(tmp_path / "dropped") == "missing"


def test_a_file_without_a_place_for_it_cannot_be_sealed(tmp_path: Path) -> None:
    pq.write_table(table_from_rows("devices", []), tmp_path / "plain.parquet")

    with pytest.raises(ValueError, match="no place for a seal"):
        write_seal(tmp_path / "plain.parquet")
