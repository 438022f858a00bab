from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from costhub.dataset.features.cache_part import (
    FAILED,
    CachePart,
    PartLost,
    new_part_path,
    pack_features,
    part_schema,
    read_part,
    read_rows,
    read_table,
    write_part,
)
from costhub.dataset.features.specs import find_spec
from costhub.dataset.shards.shard import new_parquet
from costhub.errors import DataError

SPEC = find_spec("trace_tokens@1")
FEATURES = [np.full((rows, SPEC.width), value, np.float32) for value, rows in enumerate((2, 0, 3))]

KEYS = [bytes([number]) * 32 for number in range(4)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = new_part_path(tmp_path)
    write_part(pack_features(SPEC, KEYS, [*FEATURES, None]), path)
    return path


def opened(path: Path) -> CachePart:
    part = read_part(path, SPEC)
    assert part is not None
    return part


def test_what_was_written_comes_back(path: Path) -> None:
    part = opened(path)

    assert part.keys.to_pylist() == KEYS
    assert part.counts.tolist() == [2, 0, 3, FAILED]
    assert part.rows == 5
    rows = read_rows(part, SPEC.width)
    assert rows.dtype == np.float32
    assert np.array_equal(rows, np.concatenate(FEATURES))
    assert read_table(part).num_rows == 4


def test_names_of_parts_ascend(tmp_path: Path) -> None:
    names = [new_part_path(tmp_path).name for _ in range(20)]
    assert names == sorted(names)


def test_the_metadata_say_what_a_part_was_made_with() -> None:
    spec = find_spec("per_store@1")

    assert (
        part_schema(spec)
        .metadata[b"costhub.features"]
        .startswith(b'{"columns": "440efcddf4e75d55", "spec": "per_store@1", "tvm": "0.')
    )
    # Features that need no TVM stay good when it changes.
    assert b'"tvm": null' in part_schema(SPEC).metadata[b"costhub.features"]


@pytest.mark.parametrize("change", [{"name": "trace_tokens@2"}, {"columns": (*SPEC.columns[1:], "other")}])
def test_a_part_of_another_version_is_none_of_ours(path: Path, change: dict[str, object]) -> None:
    assert read_part(path, dataclasses.replace(SPEC, **change)) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("place", [6, -200, -20])
def test_a_part_with_a_changed_byte_is_not_parsed(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)

    assert read_part(path, SPEC) is None


def test_sealed_parquet_of_something_else_is_none_of_ours(tmp_path: Path) -> None:
    foreign = pa.table({"x": [1]})
    with new_parquet(tmp_path / "part-0.parquet", foreign.schema) as writer:
        writer.write_table(foreign)
    assert read_part(tmp_path / "part-0.parquet", SPEC) is None


def test_programs_of_other_sizes_than_said_are_lost(tmp_path: Path) -> None:
    table = pack_features(SPEC, KEYS[:1], FEATURES[:1])
    table = table.set_column(1, table.schema.field(1), pa.array([3], pa.int32()))
    write_part(table, tmp_path / "part-0.parquet")

    with pytest.raises(PartLost):
        read_rows(opened(tmp_path / "part-0.parquet"), SPEC.width)


@pytest.mark.parametrize("shape", [(2, SPEC.width - 1), (SPEC.width,), (2, SPEC.width, 1)])
def test_rows_of_another_width_than_the_layout_are_not_written(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError) as told:
        pack_features(SPEC, KEYS[:2], [FEATURES[0], np.zeros(shape, np.float32)])

    assert str(told.value) == f"{SPEC.name} has {SPEC.width} columns, but its code gave rows of shape {shape}."


@pytest.mark.parametrize("how", ["gone", "emptied"])
def test_a_part_that_goes_after_it_was_opened_is_lost(path: Path, how: str) -> None:
    part = opened(path)
    path.unlink()
    if how == "emptied":
        path.write_bytes(b"")

    for read in (lambda: read_rows(part, SPEC.width), lambda: read_table(part)):
        with pytest.raises(PartLost):
            read()


def test_a_part_that_is_not_there_is_told_from_a_bad_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_part(tmp_path / "part-0.parquet", SPEC)


def test_others_can_read_the_rows_as_bytes(path: Path) -> None:
    value = pq.read_table(path, partitioning=None)["rows"][0].as_py()
    assert np.array_equal(np.frombuffer(value, "<f4").reshape(-1, SPEC.width), FEATURES[0])
