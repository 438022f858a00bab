"""Measurements in batches: every record once, whatever an interrupted writer left."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.schema import table_from_rows
from costhub.dataset.shards.journal import encode_row
from costhub.dataset.shards.shard_set import add_shard, stream_measurements
from costhub.errors import DataError


def ids(folder: Path) -> list[str]:
    batches = stream_measurements(folder, ["record_id"], None, 2)
    return [record_id for batch in batches for record_id in batch["record_id"].to_pylist()]


def test_a_record_in_several_places_is_read_once(tmp_path: Path, measurement: Any) -> None:
    for numbers in ([0, 1, 2], [2, 3]):
        add_shard(tmp_path, table_from_rows("measurements", [measurement(n, workload_id="w") for n in numbers]))
    (tmp_path / "journal.jsonl").write_bytes(b"".join(encode_row(measurement(n)) for n in (3, 4)))

    assert ids(tmp_path) == ["r00000", "r00001", "r00002", "r00003", "r00004"]


def test_nothing_is_read_of_an_empty_folder(tmp_path: Path) -> None:
    assert ids(tmp_path) == []


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
