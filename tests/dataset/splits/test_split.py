from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.dataset.splits.split import (
    Split,
    WorkloadFingerprint,
    compare_split,
    find_split,
    list_splits,
    load_split,
    put_split,
    save_split,
)
from costhub.errors import DataError, UnknownNameError
from costhub.hub.catalogue.hubs import EMBEDDED

ids = st.lists(st.sampled_from([f"w{i}" for i in range(12)]), max_size=12)


def test_a_workload_on_both_sides_is_refused() -> None:
    with pytest.raises(DataError, match="has the workload w1 on both sides"):
        Split("s", ("w0", "w1"), ("w1",), 0)


def test_a_split_prints_as_a_line() -> None:
    by_device = Split("b", ("w0", "w1"), ("w1",), train_devices=("cpu0",), test_devices=("cpu1", "cpu2"))

    assert str(Split("a", ("w0", "w1"), ("w2",))) == "a: 2 workloads to train on, 1 workload to test on"
    assert repr(by_device) == "b: 2 workloads to train on (cpu0), 1 workload to test on (cpu1, cpu2)"


@pytest.mark.parametrize(
    ("train", "test", "allowed"),
    [
        (("cpu0",), ("cpu1",), True),
        (("cpu0", "cpu1"), ("cpu1", "cpu2"), False),
        (("cpu0",), (), False),
        ((), ("cpu1",), False),
    ],
)
def test_a_workload_may_be_on_both_sides_of_different_devices(
    train: tuple[str, ...], test: tuple[str, ...], allowed: bool
) -> None:
    devices: dict[str, Any] = {"kind": "device", "train_devices": train, "test_devices": test}

    assert Split("s", ("w0",), ("w1",), **devices).test_devices == test
    if allowed:
        assert Split("s", ("w0", "w1"), ("w1",), **devices).train == ("w0", "w1")
    else:
        with pytest.raises(DataError, match="the two sides must have different devices"):
            Split("s", ("w0", "w1"), ("w1",), **devices)


def test_the_sides_are_sorted_and_have_each_workload_once() -> None:
    split = Split("s", ("w2", "w0", "w2"), ("w9", "w8"), hold_out=("b", "a"))

    assert (split.train, split.test, split.hold_out) == (("w0", "w2"), ("w8", "w9"), ("a", "b"))


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(DataError, match="has the kind 'moon'; use one of workload, network, operator, device"):
        Split("s", ("w0",), (), kind="moon")


def test_devices_of_the_other_side_are_refused() -> None:
    split = Split("s", ("w0",), ("w0",), kind="device", train_devices=("cpu0",), test_devices=("cpu1",))

    split.check_device("cpu0", "train")
    Split("any", ("w0",), ("w1",)).check_device("cpu7", "test")
    with pytest.raises(DataError, match="has cpu1 to test on, and 'cpu0' is not among them"):
        split.check_device("cpu0", "test")


@given(ids, ids, st.randoms(use_true_random=False))
def test_what_a_split_was_made_from_depends_on_the_set_alone(some: list[str], others: list[str], random: Any) -> None:
    shuffled = some + some[:3]
    random.shuffle(shuffled)

    assert WorkloadFingerprint.of(shuffled) == WorkloadFingerprint.of(some)
    assert (WorkloadFingerprint.of(some) == WorkloadFingerprint.of(others)) == (set(some) == set(others))


@given(ids, ids, ids)
def test_a_fit_names_what_either_does_not_know(train: list[str], test: list[str], have: list[str]) -> None:
    test = [i for i in test if i not in train]
    every = {*train, *test}
    split = Split("s", tuple(train), tuple(test), made_from=WorkloadFingerprint.of(every))

    found = compare_split(split, have)

    assert (set(found.unknown), set(found.new)) == (every - set(have), set(have) - every)
    assert found.same == (every == set(have))
    assert bool(found.sentences()) != found.same


def test_a_fit_names_devices_that_are_missing() -> None:
    split = Split("s", ("w0",), ("w0",), kind="device", train_devices=("cpu0",), test_devices=("cpu1",))

    assert compare_split(split, ["w0"]).unknown_devices == ()
    assert compare_split(split, ["w0", "w5"], ["cpu0"]).sentences() == [
        "1 workload of the folder is on neither side, such as w5.",
        "1 device of the split is not in the folder, such as cpu1.",
    ]


SPLIT = Split(
    "device-cpu1",
    ("w1", "w0"),
    ("w2", "w0"),
    seed=3,
    kind="device",
    hold_out=("cpu1",),
    train_devices=("cpu0",),
    test_devices=("cpu1",),
    made_from=WorkloadFingerprint.of(["w0", "w1", "w2", "w3"]),
)


def test_a_saved_split_comes_back(tmp_path: Path) -> None:
    save_split(SPLIT, tmp_path / "split.json")

    assert load_split(tmp_path / "split.json") == SPLIT
    assert [p.name for p in tmp_path.iterdir()] == ["split.json"]


def test_a_file_of_version_1_is_read(tmp_path: Path) -> None:
    content = {
        "costhub": "split",
        "version": 1,
        "name": "old",
        "seed": 4,
        "train": ["w1", "w0"],
        "test": ["w2"],
    }
    (tmp_path / "old.json").write_text(json.dumps(content))

    assert load_split(tmp_path / "old.json") == Split("old", ("w0", "w1"), ("w2",), 4)


def test_the_embedded_datasets_have_splits_that_can_be_read() -> None:
    [folder] = (EMBEDDED / "datasets" / "costhub").glob("amd-epyc-zen5")

    assert "held-out-14" in list_splits(folder)
    for name in list_splits(folder):
        assert load_split(folder, name).name == name
    assert len(load_split(folder, "held-out-14").test) == 14


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 3}, "has split version 3; this costhub reads up to 2"),
        ({"costhub": "model"}, "is JSON, but not a split of costhub; `costhub split` makes splits"),
        ({"train": "w0"}, "lacks one of name, seed, train, test, hold_out.*; make it again with `costhub split`"),
        ({"test": [1]}, "lacks one of name, seed, train, test, hold_out"),
        ({"name": None}, "lacks one of name, seed, train, test, hold_out"),
        ({"seed": "0"}, "lacks one of name, seed, train, test, hold_out"),
        ({"test_devices": None}, "lacks one of name, seed, train, test, hold_out"),
        ({"test_devices": [], "test": ["w0"]}, "on both sides"),
        ({"kind": "moon"}, "has the kind 'moon'"),
        ({"made_from": 7}, "lacks the field made_from, or it is damaged; make the split again with `costhub split`"),
        ({"made_from": {"workloads": float("inf"), "sha256": "0"}}, "lacks the field made_from"),
    ],
)
def test_a_file_that_is_no_split_is_refused(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    path = tmp_path / "split.json"
    save_split(SPLIT, path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))

    with pytest.raises(DataError, match=words):
        load_split(path)


@pytest.mark.parametrize("content", [None, "", "{", "[1]", "[" * 100_000])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "split.json"
    if content is not None:
        path.write_text(content)

    with pytest.raises(
        DataError, match=r"split\.json (cannot be read as a split|is JSON, but not a split).*`costhub split`"
    ):
        load_split(path)


def test_a_data_folder_has_splits_by_name(tmp_path: Path) -> None:
    assert list_splits(tmp_path) == []
    put_split(tmp_path, SPLIT)
    path = put_split(tmp_path, Split("mine", ("w0",), ("w1",), 0))

    assert put_split(tmp_path, SPLIT).read_bytes() == put_split(tmp_path, SPLIT).read_bytes()
    assert list_splits(tmp_path) == ["device-cpu1", "mine"]
    assert load_split(tmp_path, "device-cpu1") == find_split(tmp_path, "device-cpu1") == SPLIT
    assert find_split(tmp_path / "elsewhere", str(path)).name == "mine"
    for missing in ("device-cpu2", "../splits/device-cpu1"):
        with pytest.raises(UnknownNameError, match="Did you mean device-cpu1"):
            find_split(tmp_path, missing)


def test_another_split_of_the_same_name_is_not_replaced(tmp_path: Path) -> None:
    path = put_split(tmp_path, SPLIT)
    before = path.read_bytes()

    with pytest.raises(DataError, match="is another split of that name"):
        put_split(tmp_path, Split("device-cpu1", ("w0",), ("w1",), 0))
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "a b", "x" * 121])
def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="cannot name a split"):
        put_split(tmp_path, Split(name, ("w0",), ("w1",), 0))
