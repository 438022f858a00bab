from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.dataset.splits.split import Split, WorkloadFingerprint, compare_split
from costhub.errors import DataError

ids = st.lists(st.sampled_from([f"w{i}" for i in range(12)]), max_size=12)


def test_a_workload_on_both_sides_is_refused() -> None:
    with pytest.raises(DataError, match="has the workload w1 on both sides"):
        Split("s", ("w0", "w1"), ("w1",), 0)


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
        with pytest.raises(DataError, match="devices of the two sides must be different ones"):
            Split("s", ("w0", "w1"), ("w1",), **devices)


def test_the_sides_are_sorted_and_have_each_workload_once() -> None:
    split = Split("s", ("w2", "w0", "w2"), ("w9", "w8"), hold_out=("b", "a"))

    assert (split.train, split.test, split.hold_out) == (("w0", "w2"), ("w8", "w9"), ("a", "b"))


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(DataError, match="is of kind 'moon'; a kind is workload, network, operator, device"):
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
        "1 workloads of the folder are on neither side, such as w5.",
        "1 devices of the split are not in the folder, such as cpu1.",
    ]
