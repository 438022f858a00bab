from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow.parquet as pq
import pytest

from costhub.dataset.check import service
from costhub.dataset.check.context import Context
from costhub.dataset.check.files import Listing, Source
from costhub.dataset.check.service import Fetch, Next, Open, handle


def table_file(damaged: Any, table: str) -> Source:
    return next(source for source in Listing(damaged.path).sources() if source.table == table)


@pytest.fixture(autouse=True)
def fresh_state() -> Iterator[None]:
    # Start is left to the tests of Reader: its limits would hold for this process.
    service._state = service._State(context=Context())
    yield
    service._state = service._State()


def test_a_file_is_read_piece_by_piece(damaged: Any) -> None:
    source = table_file(damaged, "measurements")

    assert handle(Open(source, 3)).rows == len(damaged.rows())
    piece = handle(Next())
    assert piece.rows == len(piece.entries) == len(damaged.rows())
    assert set(piece.entries["file"]) == {3}
    # Nothing is known of devices and workloads here.
    assert [breach.rule for breach in piece.breaches] == ["CH012", "CH013"]
    assert handle(Next()).is_last


def test_tables_come_back_as_facts(damaged: Any) -> None:
    handle(Open(table_file(damaged, "workloads"), 0))
    [t2d] = [w for w in handle(Next()).workloads if w.bytes == 8486912.0]
    assert t2d.flop == 268435456.0 / 4

    handle(Open(table_file(damaged, "devices"), 0))
    [device] = handle(Next()).devices
    assert device["cores"] == 1


def test_rows_themselves_can_be_had(damaged: Any) -> None:
    source = table_file(damaged, "workloads")
    handle(Open(source, 0, as_dicts=True))

    rows = handle(Next()).dicts
    assert rows == damaged.rows("workloads/train-00000-of-00001.parquet")


def test_some_columns_of_some_rows_can_be_fetched(damaged: Any) -> None:
    source = table_file(damaged, "measurements")
    found = handle(Fetch(source, (5, 2), ("record_id", "trace")))

    rows = damaged.rows()
    assert found == [{name: rows[n][name] for name in ("record_id", "trace")} for n in (2, 5)]


def test_a_file_that_cannot_be_read_is_a_breach(damaged: Any) -> None:
    source = table_file(damaged, "measurements")
    source.path.write_bytes(b"PAR1 and no more")

    piece = handle(Open(source, 0))
    assert piece.is_last
    [breach] = piece.breaches
    assert (breach.rule, breach.where) == ("CH001", source.where)
    assert handle(Fetch(source, (0,), ("trace",))) == []


def test_the_next_file_is_not_mixed_with_one_that_failed(damaged: Any) -> None:
    handle(Open(table_file(damaged, "devices"), 0))
    pq.write_table(
        pq.ParquetFile(table_file(damaged, "workloads").path).read(), damaged.path / "devices/train-x.parquet"
    )
    wrong = [source for source in Listing(damaged.path).sources() if source.where.endswith("train-x.parquet")]

    assert [breach.rule for breach in handle(Open(wrong[0], 1)).breaches] == ["CH004"]
    assert handle(Next()).is_last
