from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from costhub.dataset.check.files import Listing, Source
from costhub.dataset.check.reading import BATCH_ROWS, Refusal, open_batches


def source_of(damaged: Any, table: str) -> Source:
    return next(source for source in Listing(damaged.path).sources() if source.table == table)


def test_rows_come_in_batches_with_the_columns_in_order(damaged: Any) -> None:
    rows = damaged.rows() * 40
    damaged.write(rows)
    count, batches = open_batches(source_of(damaged, "measurements"))

    found = list(batches)
    assert count == len(rows) == sum(batch.num_rows for batch in found)
    assert max(batch.num_rows for batch in found) <= BATCH_ROWS
    assert found[0].schema.names[:2] == ["record_id", "program_id"]


def test_columns_may_come_in_another_order(damaged: Any) -> None:
    source = source_of(damaged, "measurements")
    table = pq.ParquetFile(source.path).read()
    damaged.write_table(table.select(table.column_names[::-1]))

    batch = next(open_batches(source)[1])
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
    source = source_of(damaged, "measurements")
    pq.write_table(change(pq.ParquetFile(source.path).read()), source.path)

    with pytest.raises(Refusal) as refusal:
        open_batches(source)
    assert refusal.value.args[0] == rule
    assert word in refusal.value.args[1]


def test_too_many_rows_are_refused(damaged: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("costhub.dataset.check.reading.MOST_ROWS", {"measurements": 10})

    with pytest.raises(Refusal, match="at most 10 rows"):
        open_batches(source_of(damaged, "measurements"))


def test_pages_are_verified(damaged: Any) -> None:
    source = source_of(damaged, "measurements")
    content = bytearray(source.path.read_bytes())
    content[600:610] = bytes(10)
    source.path.write_bytes(content)

    with pytest.raises((OSError, pa.ArrowException)):
        list(open_batches(source)[1])
