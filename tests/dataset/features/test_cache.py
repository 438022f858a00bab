from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from costhub.dataset.features.cache import FeatureCache
from costhub.dataset.programs import FloatArray


def features(rows: int, seed: int) -> FloatArray:
    return np.random.default_rng(seed).normal(size=(rows, 172)).astype(np.float32)


@pytest.fixture
def cache(tmp_path: Path) -> FeatureCache:
    return FeatureCache(tmp_path, "cpu0")


def test_what_was_appended_comes_back(cache: FeatureCache) -> None:
    stored = {"a": features(4, 0), "b": None, "c": features(0, 1), "d": features(1, 2)}
    cache.append(list(stored)[:2], list(stored.values())[:2])
    cache.append(list(stored)[2:], list(stored.values())[2:])

    found = cache.read(["d", "b", "a", "c", "unknown"])

    assert found.keys() == stored.keys()
    assert found["b"] is None
    for name in "acd":
        assert np.array_equal(found[name], stored[name])
        assert found[name].dtype == np.float32


def test_only_what_is_asked_for_is_read(cache: FeatureCache) -> None:
    cache.append(["a", "b"], [features(1, 0), features(2, 1)])

    assert list(cache.read(["b"])) == ["b"]
    assert cache.read([]) == {}


def test_an_empty_cache_knows_nothing(cache: FeatureCache) -> None:
    assert cache.read(["a"]) == {}


def test_parts_lie_by_layout_and_device(cache: FeatureCache, tmp_path: Path) -> None:
    cache.append(["a"], [features(1, 0)])

    assert [p.parent for p in tmp_path.rglob("*.parquet")] == [tmp_path / "features/per_store@1/cpu0"]


@pytest.mark.parametrize("damage", ["truncated", "empty", "foreign", "too short", "without id"])
def test_a_damaged_part_is_removed_and_the_others_are_kept(cache: FeatureCache, damage: str) -> None:
    cache.append(["a"], [features(1, 0)])
    part = next(iter(cache.folder.iterdir()))
    bad = cache.folder / "part-bad.parquet"
    content = part.read_bytes()
    table = pq.read_table(part)
    if damage in ("truncated", "empty"):
        bad.write_bytes(content[: len(content) // 2] if damage == "truncated" else b"")
    elif damage == "foreign":
        pq.write_table(pa.table({"x": [1]}), bad)
    elif damage == "too short":
        pq.write_table(table.set_column(1, table.schema.field("n_rows"), pa.array([2], pa.int32())), bad)
    else:
        pq.write_table(
            table.set_column(0, table.schema.field("record_id"), pa.array([None], pa.string())), bad
        )

    assert list(cache.read(["a"])) == ["a"]
    assert list(cache.folder.iterdir()) == [part]


def test_half_written_parts_are_not_read(cache: FeatureCache) -> None:
    cache.append(["a"], [features(1, 0)])
    (cache.folder / ".writing-1-x").write_bytes(b"PAR1")

    assert list(cache.read(["a"])) == ["a"]
