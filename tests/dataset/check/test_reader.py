from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from costhub.dataset.check import reader as reader_module
from costhub.dataset.check.files import Listing, Source
from costhub.dataset.check.reader import Reader, time_limit_s
from costhub.dataset.schema import arrow_schema
from costhub.dataset.shards.seal import BLANK, SEAL_KEY, write_seal


def sources(path: Path) -> list[Source]:
    return list(Listing(path).sources())


def test_pieces_count_their_rows(damaged: Any, reader: Reader) -> None:
    counts: list[int] = []
    pieces = list(reader.read(sources(damaged.path)[2], 0, counts.append))

    assert sum(counts) == pieces[0].rows == len(damaged.rows())
    assert [piece.is_last for piece in pieces] == [False, False, True]


def test_a_file_that_takes_too_long_is_a_breach_and_the_next_is_read(
    damaged: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A pipe that nobody writes to: reading it never ends.
    endless = Source(damaged.path / "pipe", "pipe", "workloads")
    os.mkfifo(endless.path)
    monkeypatch.setattr(reader_module, "FILE_TIMEOUT_S", 1.0)
    with Reader() as reader:
        [piece] = reader.read(endless, 0, lambda _: None)
        monkeypatch.undo()
        again = list(reader.read(sources(damaged.path)[1], 1, lambda _: None))

    [breach] = piece.breaches
    assert (breach.rule, breach.where, piece.is_last) == ("CH001", "pipe", True)
    assert "took more than 1 s" in breach.message
    assert len(again) == 3


@pytest.mark.slow
def test_a_file_that_unfolds_to_more_than_the_memory_is_a_breach(damaged: Any, reader: Reader) -> None:
    # 2 MB whose dictionary unfolds to 4 GiB of text within one batch; the footer tells of the 2 MB.
    schema = arrow_schema("measurements")
    row, count = damaged.rows()[0], 4096
    columns = [pa.array([row[field.name]] * count, field.type) for field in schema]
    at = schema.get_field_index("error")
    columns[at] = pa.DictionaryArray.from_arrays(
        pa.array([0] * count, pa.int32()), pa.array(["x" * (1 << 20)])
    )
    folded = schema.set(at, pa.field("error", columns[at].type))
    source = sources(damaged.path)[2]
    with pq.ParquetWriter(source.path, folded, use_dictionary=["error"], store_schema=False) as writer:
        writer.write_table(pa.table(columns, schema=folded))
        writer.add_key_value_metadata({**schema.metadata, SEAL_KEY: BLANK})
    write_seal(source.path)

    [breach] = [breach for piece in reader.read(source, 0, lambda _: None) for breach in piece.breaches]
    assert (breach.rule, breach.where) == ("CH001", source.where)
    assert "memory" in breach.message
    assert len(list(reader.read(sources(damaged.path)[0], 0, lambda _: None))) == 3


def test_the_time_limit_grows_with_the_file(damaged: Any) -> None:
    source = sources(damaged.path)[2]

    assert 10 < time_limit_s(source) < 12
