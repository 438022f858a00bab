from __future__ import annotations

import dataclasses
import os
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.dataset.features import cache as cache_module
from costhub.dataset.features.cache import NOT_COMPUTED, FeatureCache, features_root, remove_unused
from costhub.dataset.features.cache_part import FAILED, PartLost
from costhub.dataset.features.program_key import key_array
from costhub.dataset.features.specs import find_spec
from costhub.dataset.programs import FloatArray
from costhub.errors import DataError
from costhub.files import CACHE_VARIABLE

SPEC = dataclasses.replace(find_spec("per_store@1"), columns=tuple("xyz"))


def features(rows: int, seed: int) -> FloatArray:
    return np.random.default_rng(seed).normal(size=(rows, 3)).astype(np.float32)


def key(name: str) -> bytes:
    return name.encode().ljust(32)


def keys(*names: str) -> pa.Array:
    return key_array([key(name) for name in names])


@pytest.fixture(autouse=True)
def user_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def cache(user_cache: Path) -> FeatureCache:
    return FeatureCache("cpu0", SPEC)


def read(cache: FeatureCache, *names: str) -> tuple[list[int], FloatArray]:
    found = cache.find(keys(*names))
    return found.counts.tolist(), cache.read(found)


def test_what_was_appended_comes_back(cache: FeatureCache) -> None:
    stored = {"a": features(4, 0), "b": None, "c": features(0, 1), "d": features(1, 2)}
    cache.append([*map(key, "ab")], list(stored.values())[:2])
    cache.append([*map(key, "cd")], list(stored.values())[2:])

    counts, rows = read(cache, "d", "b", "a", "c", "unknown")

    assert counts == [1, FAILED, 4, 0, NOT_COMPUTED]
    assert rows.dtype == np.float32
    assert np.array_equal(rows, np.concatenate([stored["d"], stored["a"]]))


def test_nothing_is_known_of_an_empty_cache_and_nothing_asked_is_nothing_read(cache: FeatureCache) -> None:
    assert read(cache, "a")[0] == [NOT_COMPUTED]
    assert read(cache, "a")[1].shape == (0, 3)
    cache.append([key("a")], [features(1, 0)])
    assert read(cache)[1].shape == (0, 3)


def test_parts_lie_by_layout_and_device_in_the_users_cache(cache: FeatureCache, user_cache: Path) -> None:
    cache.append([key("a")], [features(1, 0)])

    assert features_root() == user_cache / "features"
    assert [p.parent for p in user_cache.rglob("*.parquet")] == [user_cache / "features/per_store@1/cpu0"]


def test_a_program_that_is_asked_for_twice_comes_twice(cache: FeatureCache) -> None:
    cache.append([*map(key, "abc")], [features(2, 0), features(0, 1), features(1, 2)])

    counts, rows = read(cache, "c", "a", "b", "a", "x", "c", "b")

    assert counts == [1, 2, 0, 2, NOT_COMPUTED, 1, 0]
    assert np.array_equal(rows, np.concatenate([features(n, s) for n, s in ((1, 2), (2, 0), (2, 0), (1, 2))]))


@given(st.lists(st.integers(-1, 3), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_the_order_of_parts_and_programs_does_not_matter(counts: list[int], random: object) -> None:
    stored = [None if count < 0 else features(count, number) for number, count in enumerate(counts)]
    order, wanted = list(range(len(counts))), list(range(len(counts)))
    random.shuffle(order)  # type: ignore[attr-defined]
    random.shuffle(wanted)  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        patched.setenv(CACHE_VARIABLE, folder)
        cache = FeatureCache("cpu0", SPEC)
        for start in range(0, len(order), 7):
            numbers = order[start : start + 7]
            cache.append([key(str(n)) for n in numbers], [stored[n] for n in numbers])

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
        cache.append([key(str(n)) for n in numbers], [stored[ends[n] - counts[n] : ends[n]] for n in numbers])
    names = [str(n) for n in range(len(counts))]

    before = read(cache, *names)
    monkeypatch.setattr(cache_module, "PART_BYTES", 100_000)
    cache.merge()
    after = read(cache, *names)

    assert before[0] == after[0] == counts.tolist()
    assert np.array_equal(before[1], stored)
    assert np.array_equal(after[1], stored)
    sizes = [pq.read_metadata(path).num_rows for path in cache.folder.glob("part-*")]
    assert 5 <= len(sizes) <= 7
    assert sum(sizes) == len(counts)


def test_large_parts_are_left_alone(cache: FeatureCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "PART_BYTES", 200)
    cache.append([key("large")], [features(9, 0)])
    [large] = cache.folder.glob("part-*")
    cache.append([key("a")], [features(1, 1)])
    cache.append([key("b")], [features(1, 2)])

    cache.merge()

    assert large.exists()
    assert len(list(cache.folder.glob("part-*"))) == 2
    assert read(cache, "a", "large", "b")[0] == [1, 9, 1]


def test_a_merge_that_ends_half_way_loses_nothing(cache: FeatureCache, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        cache.append([key(name)], [features(2, ord(name))])
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
        cache.append([key(name)], [features(2, ord(name))])
    first = cache.find(keys("a")).parts[0].path
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
    cache.append([key("a")], [features(1, 0)])
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


def test_a_part_of_another_version_is_removed(cache: FeatureCache) -> None:
    cache.append([key("a")], [features(1, 0)])
    renamed = dataclasses.replace(SPEC, columns=("x", "y", "other"))

    assert read(FeatureCache("cpu0", renamed), "a")[0] == [NOT_COMPUTED]
    assert read(cache, "a")[0] == [NOT_COMPUTED]


def test_a_part_that_breaks_while_it_is_read_is_removed(cache: FeatureCache) -> None:
    cache.append([key("a")], [features(1, 0)])
    cache.append([key("b")], [features(1, 1)])
    found = cache.find(keys("a", "b"))
    first = found.parts[0].path
    first.write_bytes(b"")

    with pytest.raises(PartLost):
        cache.read(found)

    assert not first.exists()
    assert read(cache, "a", "b")[0] == [NOT_COMPUTED, 1]


@pytest.mark.parametrize("looked_up_before", [False, True])
def test_a_lack_of_memory_removes_nothing(
    cache: FeatureCache, monkeypatch: pytest.MonkeyPatch, looked_up_before: bool
) -> None:
    cache.append([key("a")], [features(4, 0)])
    if looked_up_before:
        cache.find(keys("a"))

    def fails(*_: object, **__: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 64 failed")

    with monkeypatch.context() as patch:
        patch.setattr(pq.ParquetFile, "read", fails)
        with pytest.raises(MemoryError):
            read(cache, "a")
    assert read(cache, "a")[0] == [4]


def test_parts_that_another_process_merged_away_are_found_again(cache: FeatureCache) -> None:
    for name in "ab":
        cache.append([key(name)], [features(1, ord(name))])
    expected = read(cache, "a", "b")
    found = cache.find(keys("a", "b"))

    FeatureCache("cpu0", SPEC).merge()

    with pytest.raises(PartLost):
        cache.read(found)
    assert np.array_equal(read(cache, "a", "b")[1], expected[1])


def test_half_written_parts_are_not_read_and_swept_away(cache: FeatureCache) -> None:
    cache.append([key("a")], [features(1, 0)])
    half = cache.folder / ".writing-1-x"
    half.write_bytes(b"PAR1")

    assert read(cache, "a")[0] == [1]
    cache.merge()
    assert not half.exists()


def test_with_no_place_to_write_to_features_live_as_long_as_the_cache(user_cache: Path) -> None:
    user_cache.write_text("in the way, for root as well")
    cache = FeatureCache("cpu0", SPEC)
    cache.append([key("a")], [features(1, 0)])
    folder = cache.folder

    assert read(cache, "a")[0] == [1]
    del cache
    assert not folder.exists()


def test_a_cache_that_cannot_be_written_to_is_still_read(cache: FeatureCache, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.append([key("a")], [features(1, 0)])
    monkeypatch.setattr(cache_module, "_can_keep", lambda folder: False)

    other = FeatureCache("cpu0", SPEC)
    other.append([key("b")], [features(2, 1)])
    other.merge()

    assert read(other, "a", "b")[0] == [1, 2]
    assert read(cache, "a", "b")[0] == [1, NOT_COMPUTED]


def give_away(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes another user the owner of what lies in a folder."""
    if os.geteuid():
        mine = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
        return
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, 65534, 65534)


def test_what_another_user_put_into_a_shared_cache_is_not_read(
    cache: FeatureCache, user_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.append([key("a")], [features(2, 1)])
    assert read(FeatureCache("cpu0", SPEC), "a")[0] == [2]

    give_away(user_cache, monkeypatch)

    again = FeatureCache("cpu0", SPEC)
    assert read(again, "a")[0] == [NOT_COMPUTED]
    assert not again.folder.is_relative_to(user_cache)


def test_a_full_disk_is_a_sentence(cache: FeatureCache, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache_module, "write_part", full)

    with pytest.raises(DataError, match=r"No space left.*set COSTHUB_CACHE"):
        cache.append([key("a")], [features(1, 0)])


def test_what_nobody_has_read_for_longest_goes_when_the_cache_is_too_large(
    cache: FeatureCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [FeatureCache(f"cpu{number}", SPEC) for number in (1, 2, 3)]
    for number, other in enumerate([cache, *others]):
        other.append([key("a")], [features(50, number)])
        (part,) = other.folder.glob("part-*")
        os.utime(part, (number, number))
    read(others[0], "a")
    (size,) = {part.stat().st_size for part in cache.folder.glob("part-*")}

    monkeypatch.setattr(cache_module, "MOST_CACHE_BYTES", 3 * size)
    cache.merge()

    # Its own stay, the oldest as they are; the next oldest was read just now.
    assert [read(each, "a")[0] for each in (cache, *others)] == [[50], [50], [NOT_COMPUTED], [50]]


def test_nothing_goes_while_there_is_room(cache: FeatureCache, user_cache: Path) -> None:
    cache.append([key("a")], [features(50, 0)])
    remove_unused(user_cache, most_bytes=1 << 20, but=user_cache)
    assert read(cache, "a")[0] == [50]


def test_a_folder_in_the_cache_that_cannot_be_written_is_none_to_keep_rows_in(
    user_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, access = user_cache / "features" / SPEC.name / "cpu0", os.access
    kept.mkdir(parents=True)
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != kept and access(path, mode))

    assert not FeatureCache("cpu0", SPEC).folder.is_relative_to(user_cache)
    assert FeatureCache("cpu1", SPEC).folder.is_relative_to(user_cache)
