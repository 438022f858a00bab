from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from costhub.dataset.check import child
from costhub.dataset.check.child import BATCH_ROWS, UnreadableFile, open_batches, open_file, read_chunk, read_rows
from costhub.dataset.check.files import Listing, TableFile


def table_file(damaged: Any, table: str) -> TableFile:
    return next(source for source in Listing(damaged.path).sources() if source.table == table)


def test_rows_come_in_batches_with_the_columns_in_order(damaged: Any) -> None:
    rows = damaged.rows() * 40
    damaged.write(rows)
    count, _, batches = open_batches(table_file(damaged, "measurements"))

    found = list(batches)
    assert count == len(rows) == sum(batch.num_rows for batch in found)
    assert max(batch.num_rows for batch in found) <= BATCH_ROWS
    assert found[0].schema.names[:2] == ["record_id", "program_id"]


def test_columns_may_come_in_another_order(damaged: Any) -> None:
    source = table_file(damaged, "measurements")
    table = pq.ParquetFile(source.path).read()
    damaged.write_table(table.select(table.column_names[::-1]))

    batch = next(open_batches(source)[2])
    assert batch.schema.names[0] == "record_id"


@pytest.mark.parametrize(
    ("change", "rule", "word"),
    [
        (lambda t: t.drop_columns(["build_s"]), "CH004", "has no single column 'build_s'"),
        (lambda t: t.append_column("more", t["build_s"]), "CH004", "'more'"),
        (lambda t: t.append_column("build_s", t["build_s"]), "CH004", "has no single column"),
        (lambda t: t.replace_schema_metadata({}), "CH004", "no table of costhub"),
        (
            lambda t: t.replace_schema_metadata({b"costhub.table": b"measurements"}),
            "CH005",
            "version is none",
        ),
    ],
)
def test_what_is_no_shard_is_refused(damaged: Any, change: Any, rule: str, word: str) -> None:
    source = table_file(damaged, "measurements")
    pq.write_table(change(pq.ParquetFile(source.path).read()), source.path)

    with pytest.raises(UnreadableFile) as refusal:
        open_batches(source)
    assert refusal.value.args[0] == rule
    assert word in refusal.value.args[1]


def test_too_many_rows_are_refused(damaged: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("costhub.dataset.check.child.MOST_ROWS", {"measurements": 10})

    with pytest.raises(UnreadableFile, match="at most 10 rows"):
        open_batches(table_file(damaged, "measurements"))


def test_rows_that_decode_to_too_much_are_refused(damaged: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that all rows share takes little space in the file."""
    monkeypatch.setattr("costhub.dataset.check.child.MOST_DECODED_BYTES", 1000)

    _, _, batches = open_batches(table_file(damaged, "measurements"))

    with pytest.raises(UnreadableFile, match="more than 1,000 bytes once decoded"):
        list(batches)


def test_pages_are_verified(damaged: Any) -> None:
    source = table_file(damaged, "measurements")
    content = bytearray(source.path.read_bytes())
    content[600:610] = bytes(10)
    source.path.write_bytes(content)

    with pytest.raises((OSError, pa.ArrowException)):
        list(open_batches(source)[2])


@pytest.fixture(autouse=True)
def fresh_state() -> Iterator[None]:
    child._open = child._OpenFile()
    yield
    child._open = child._OpenFile()


def test_a_file_is_read_piece_by_piece(damaged: Any) -> None:
    source = table_file(damaged, "measurements")

    assert open_file(source, 3).rows == len(damaged.rows())
    piece = read_chunk()
    assert piece.rows == len(piece.entries) == len(damaged.rows())
    assert set(piece.entries["file"]) == {3}
    # Nothing is known of devices and workloads here.
    assert [breach.rule for breach in piece.breaches] == ["CH012", "CH013"]
    assert read_chunk().is_last


def test_tables_come_back_as_facts(damaged: Any) -> None:
    open_file(table_file(damaged, "workloads"), 0)
    [t2d] = [w for w in read_chunk().workloads if w.bytes == 8486912.0]
    assert t2d.flop == 268435456.0 / 4

    open_file(table_file(damaged, "devices"), 0)
    [device] = read_chunk().devices
    assert device["cores"] == 1


def test_rows_themselves_can_be_had(damaged: Any) -> None:
    source = table_file(damaged, "workloads")
    open_file(source, 0, as_dicts=True)

    rows = read_chunk().dicts
    assert rows == damaged.rows("workloads/train-00000-of-00001.parquet")


def test_some_columns_of_some_rows_can_be_fetched(damaged: Any) -> None:
    source = table_file(damaged, "measurements")
    found = read_rows(source, (5, 2), ("record_id", "trace"))

    rows = damaged.rows()
    assert found == [{name: rows[n][name] for name in ("record_id", "trace")} for n in (2, 5)]


def test_rows_are_counted_as_the_rules_see_them_without_those_that_lack_something(damaged: Any) -> None:
    source = table_file(damaged, "measurements")
    rows = damaged.rows()
    table = pq.ParquetFile(source.path).read()
    place = table.column_names.index("record_id")
    ids = pa.array([None if number == 1 else row["record_id"] for number, row in enumerate(rows)], pa.string())
    damaged.write_table(table.set_column(place, pa.field("record_id", pa.string()), ids))

    found = read_rows(source, (0, 1, 4), ("record_id",))

    assert [row["record_id"] for row in found] == [rows[number]["record_id"] for number in (0, 2, 5)]


def test_a_file_that_cannot_be_read_is_a_breach(damaged: Any) -> None:
    source = table_file(damaged, "measurements")
    source.path.write_bytes(b"PAR1 and no more")

    piece = open_file(source, 0)
    assert piece.is_last
    [breach] = piece.breaches
    assert (breach.rule, breach.where) == ("CH001", source.where)
    assert read_rows(source, (0,), ("trace",)) == []


def test_the_next_file_is_not_mixed_with_one_that_failed(damaged: Any) -> None:
    open_file(table_file(damaged, "devices"), 0)
    pq.write_table(
        pq.ParquetFile(table_file(damaged, "workloads").path).read(), damaged.path / "devices/train-x.parquet"
    )
    wrong = [source for source in Listing(damaged.path).sources() if source.where.endswith("train-x.parquet")]

    assert [breach.rule for breach in open_file(wrong[0], 1).breaches] == ["CH004"]
    assert read_chunk().is_last
