from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import costhub
from costhub.dataset.features import cache as cache_module
from costhub.dataset.features.cache import NOT_COMPUTED, FeatureCache, feature_folders
from costhub.dataset.features.cache_part import FAILED, PartLost
from costhub.dataset.features.specs import find_spec
from costhub.dataset.programs import FloatArray
from costhub.files import CACHE_VARIABLE, cache_root

SPEC = dataclasses.replace(find_spec("per_store@1"), columns=tuple("xyz"))


def features(rows: int, seed: int) -> FloatArray:
    return np.random.default_rng(seed).normal(size=(rows, 3)).astype(np.float32)


@pytest.fixture
def cache(tmp_path: Path) -> FeatureCache:
    return FeatureCache(tmp_path, "cpu0", SPEC)


def read(cache: FeatureCache, *record_ids: str) -> tuple[list[int], FloatArray]:
    found = cache.find(pa.array(record_ids, pa.string()))
    return found.counts.tolist(), cache.read(found)


def test_what_was_appended_comes_back(cache: FeatureCache) -> None:
    stored = {"a": features(4, 0), "b": None, "c": features(0, 1), "d": features(1, 2)}
    cache.append(list(stored)[:2], list(stored.values())[:2])
    cache.append(list(stored)[2:], list(stored.values())[2:])

    counts, rows = read(cache, "d", "b", "a", "c", "unknown")

    assert counts == [1, FAILED, 4, 0, NOT_COMPUTED]
    assert rows.dtype == np.float32
    assert np.array_equal(rows, np.concatenate([stored["d"], stored["a"]]))


def test_nothing_is_known_of_an_empty_cache_and_nothing_asked_is_nothing_read(cache: FeatureCache) -> None:
    assert read(cache, "a")[0] == [NOT_COMPUTED]
    assert read(cache, "a")[1].shape == (0, 3)
    cache.append(["a"], [features(1, 0)])
    assert read(cache)[1].shape == (0, 3)


def test_parts_lie_by_layout_and_device(cache: FeatureCache, tmp_path: Path) -> None:
    cache.append(["a"], [features(1, 0)])

    assert [p.parent for p in tmp_path.rglob("*.parquet")] == [tmp_path / "features/per_store@1/cpu0"]


@given(st.lists(st.integers(-1, 3), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_the_order_of_parts_and_programs_does_not_matter(counts: list[int], random: object) -> None:
    import tempfile

    stored = [None if count < 0 else features(count, number) for number, count in enumerate(counts)]
    order, wanted = list(range(len(counts))), list(range(len(counts)))
    random.shuffle(order)  # type: ignore[attr-defined]
    random.shuffle(wanted)  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory() as folder:
        cache = FeatureCache(Path(folder), "cpu0", SPEC)
        for start in range(0, len(order), 7):
            numbers = order[start : start + 7]
            cache.append([str(n) for n in numbers], [stored[n] for n in numbers])

        found_counts, rows = read(cache, *(str(n) for n in wanted))

    assert found_counts == [counts[n] for n in wanted]
    assert np.array_equal(
        rows, np.concatenate([np.zeros((0, 3)), *(s for n in wanted if (s := stored[n]) is not None)])
    )


def test_many_parts_are_read_in_the_order_asked_for_before_and_after_they_are_merged(
    cache: FeatureCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 5, 20_000)
    stored = np.repeat(np.arange(len(counts)), counts)[:, None] * np.ones(3, np.float32)
    ends = np.cumsum(counts)
    shuffled = rng.permutation(len(counts)).reshape(40, -1)
    for numbers in shuffled:
        cache.append([str(n) for n in numbers], [stored[ends[n] - counts[n] : ends[n]] for n in numbers])
    ids = [str(n) for n in range(len(counts))]

    before = read(cache, *ids)
    monkeypatch.setattr(cache_module, "PART_BYTES", 100_000)
    cache.merge()
    after = read(cache, *ids)

    assert before[0] == after[0] == counts.tolist()
    assert np.array_equal(before[1], stored)
    assert np.array_equal(after[1], stored)
    sizes = [pq.read_metadata(path).num_rows for path in cache.folder.glob("part-*")]
    assert 5 <= len(sizes) <= 7
    assert sum(sizes) == len(counts)


def test_large_parts_are_left_alone(cache: FeatureCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "PART_BYTES", 200)
    cache.append(["large"], [features(9, 0)])
    [large] = cache.folder.glob("part-*")
    cache.append(["a"], [features(1, 1)])
    cache.append(["b"], [features(1, 2)])

    cache.merge()

    assert large.exists()
    assert len(list(cache.folder.glob("part-*"))) == 2
    assert read(cache, "a", "large", "b")[0] == [1, 9, 1]


def test_a_merge_that_ends_half_way_loses_nothing(cache: FeatureCache, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        cache.append([name], [features(2, ord(name))])
    expected = read(cache, *"abc")

    def interrupted(path: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(cache, "_discard", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cache.merge()

    # Every program is there twice now.
    counts, rows = read(cache, *"abc")
    assert counts == expected[0]
    assert np.array_equal(rows, expected[1])
    cache.merge()
    assert np.array_equal(read(cache, *"abc")[1], expected[1])
    assert [pq.read_metadata(path).num_rows for path in cache.folder.glob("part-*")] == [3]


def test_a_part_that_breaks_before_it_is_merged_stays_out_of_it(cache: FeatureCache) -> None:
    for name in "ab":
        cache.append([name], [features(2, ord(name))])
    first = cache.find(pa.array(["a"])).parts[0].path
    first.write_bytes(b"")

    cache.merge()

    assert len(list(cache.folder.glob("part-*"))) == 2
    with pytest.raises(PartLost):
        read(cache, "a", "b")
    assert read(cache, "a", "b")[0] == [NOT_COMPUTED, 2]


def test_there_is_nothing_to_merge_in_a_cache_that_was_never_written(cache: FeatureCache) -> None:
    cache.merge()
    assert not cache.folder.exists()


@pytest.mark.parametrize("damage", ["truncated", "empty", "foreign", "flipped"])
def test_a_damaged_part_is_removed_and_the_others_are_kept(cache: FeatureCache, damage: str) -> None:
    cache.append(["a"], [features(1, 0)])
    [part] = cache.folder.glob("part-*")
    bad = cache.folder / "part-bad.parquet"
    content = part.read_bytes()
    if damage == "foreign":
        pq.write_table(pa.table({"x": [1]}), bad)
    elif damage == "flipped":
        bad.write_bytes(content[:40] + bytes([content[40] ^ 1]) + content[41:])
    else:
        bad.write_bytes(content[: len(content) // 2] if damage == "truncated" else b"")

    assert read(cache, "a")[0] == [1]
    assert list(cache.folder.glob("part-*")) == [part]


def test_a_part_of_another_version_is_removed(cache: FeatureCache, tmp_path: Path) -> None:
    cache.append(["a"], [features(1, 0)])
    renamed = dataclasses.replace(SPEC, columns=("x", "y", "other"))

    assert read(FeatureCache(tmp_path, "cpu0", renamed), "a")[0] == [NOT_COMPUTED]
    assert read(cache, "a")[0] == [NOT_COMPUTED]


def test_a_part_that_breaks_while_it_is_read_is_removed(cache: FeatureCache) -> None:
    cache.append(["a"], [features(1, 0)])
    cache.append(["b"], [features(1, 1)])
    found = cache.find(pa.array(["a", "b"]))
    first = found.parts[0].path
    first.write_bytes(b"")

    with pytest.raises(PartLost):
        cache.read(found)

    assert not first.exists()
    assert read(cache, "a", "b")[0] == [NOT_COMPUTED, 1]


def test_parts_that_another_process_merged_away_are_found_again(cache: FeatureCache, tmp_path: Path) -> None:
    for name in "ab":
        cache.append([name], [features(1, ord(name))])
    expected = read(cache, "a", "b")
    found = cache.find(pa.array(["a", "b"]))

    FeatureCache(tmp_path, "cpu0", SPEC).merge()

    with pytest.raises(PartLost):
        cache.read(found)
    assert np.array_equal(read(cache, "a", "b")[1], expected[1])


def test_half_written_parts_are_not_read_and_swept_away(cache: FeatureCache) -> None:
    cache.append(["a"], [features(1, 0)])
    half = cache.folder / ".writing-1-x"
    half.write_bytes(b"PAR1")

    assert read(cache, "a")[0] == [1]
    cache.merge()
    assert not half.exists()


def test_features_that_lie_beside_read_only_data_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COSTHUB_CACHE", str(tmp_path / "cache"))
    data = tmp_path / "data"
    FeatureCache(data, "cpu0", SPEC).append(["a"], [features(1, 0)])
    monkeypatch.setattr("costhub.dataset.features.cache._can_write", lambda folder: data not in folder.parents)

    cache = FeatureCache(data, "cpu0", SPEC)
    cache.append(["b"], [features(2, 1)])

    assert read(cache, "a", "b")[0] == [1, 2]
    assert tmp_path / "cache" in cache.folder.parents
    cache.merge()
    assert read(cache, "a", "b")[0] == [1, 2]


def test_with_no_place_to_write_to_features_live_as_long_as_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "features").write_text("")
    monkeypatch.setenv("COSTHUB_CACHE", str(tmp_path / "features"))
    cache = FeatureCache(tmp_path, "cpu0", SPEC)
    cache.append(["a"], [features(1, 0)])
    folder = cache.folder

    assert read(cache, "a")[0] == [1]
    del cache
    assert not folder.exists()


@pytest.fixture
def user_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_features_lie_beside_the_data(tmp_path: Path, user_cache: Path) -> None:
    assert feature_folders(tmp_path) == (tmp_path / "features", (tmp_path / "features",))
    assert not user_cache.exists()


def test_where_nothing_can_be_written_the_user_cache_serves(tmp_path: Path, user_cache: Path) -> None:
    # A file in the way keeps even root from making the folder.
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "features").write_text("")
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "features").write_text("")

    chosen, places = feature_folders(tmp_path / "one")

    assert chosen is not None
    assert chosen.parent == user_cache / "features"
    assert places == (chosen, tmp_path / "one" / "features")
    assert feature_folders(tmp_path / "two")[0] not in (chosen, None)
    assert feature_folders(tmp_path / "one")[0] == chosen


def test_nothing_is_written_into_the_installed_package(user_cache: Path) -> None:
    root = Path(costhub.__file__).parent / "hub" / "embedded" / "datasets" / "costhub" / "none"

    chosen, places = feature_folders(root)

    assert chosen is not None
    assert chosen.parent == user_cache / "features"
    assert places[1] == root / "features"
    assert not root.exists()


def test_there_may_be_no_place_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "features").write_text("")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "features"))

    assert feature_folders(tmp_path)[0] is None


def test_the_cache_is_where_pulled_models_are(tmp_path: Path, user_cache: Path) -> None:
    (tmp_path / "features").write_text("")
    chosen, _ = feature_folders(tmp_path)
    assert chosen is not None
    assert cache_root() in chosen.parents
