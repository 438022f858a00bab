from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from costhub.dataset.folder import DataFolder
from costhub.dataset.splits.split import Split, WorkloadFingerprint, put_split, split_text
from costhub.dataset.splits.split_rules import (
    TENSET_NETWORKS,
    leave_one_out,
    split_as_tenset,
    split_by_device,
    split_by_network,
    split_by_operator,
    split_by_workload,
    split_into_folds,
)
from costhub.errors import DataError, UnknownNameError
from costhub.hub.catalogue.hubs import EMBEDDED

NETWORKS = ["resnet-18", "resnet-50", "bert-base", "vit"]


def rows_of(sizes: list[int]) -> list[dict[str, Any]]:
    return [
        {"workload_id": f"w{family}_{i}", "operator": f"op{family}"}
        for family, size in enumerate(sizes)
        for i in range(size)
    ]


def used_by(*networks: tuple[str, ...]) -> list[dict[str, Any]]:
    """One workload per entry, of the networks in it."""
    return [
        {
            "workload_id": f"w{i:02}",
            "operator": "conv",
            "networks": [{"name": n, "weight": 1.0} for n in names],
        }
        for i, names in enumerate(networks)
    ]


def family(workload_id: str) -> str:
    return workload_id.split("_", maxsplit=1)[0]


sizes = st.lists(st.integers(1, 9), min_size=1, max_size=6)
some_networks = st.lists(st.lists(st.sampled_from(NETWORKS), unique=True, max_size=3).map(tuple), min_size=1)


@given(sizes, st.data())
def test_every_family_that_can_spare_one_is_on_both_sides(sizes: list[int], data: st.DataObject) -> None:
    able = [size for size in sizes if size > 1]
    held_out = data.draw(st.integers(len(able), sum(able) - len(able)))
    rows = rows_of(sizes)

    split = split_by_workload(rows, held_out=held_out, seed=data.draw(st.integers(0, 9)))

    assert len(split.test) == held_out
    assert sorted(split.train + split.test) == sorted(row["workload_id"] for row in rows)
    assert {family(i) for i in split.train} == {family(row["workload_id"]) for row in rows}
    assert {family(i) for i in split.test} == {f"w{i}" for i, size in enumerate(sizes) if size > 1}


@given(sizes, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(sizes: list[int], random: Any) -> None:
    rows = rows_of(sizes)
    held_out = sum(size > 1 for size in sizes)
    shuffled = rows + rows[:1]
    random.shuffle(shuffled)

    assert split_by_workload(rows, held_out=held_out, seed=3) == split_by_workload(shuffled, held_out=held_out, seed=3)


def test_families_give_in_proportion_to_their_size() -> None:
    split = split_by_workload(rows_of([20, 10, 2]), held_out=7, seed=0)

    assert Counter(family(i) for i in split.test) == {"w0": 4, "w1": 2, "w2": 1}


def test_the_seed_chooses_the_workloads() -> None:
    rows = rows_of([12, 12])
    found = {split_by_workload(rows, held_out=4, seed=seed).test for seed in range(8)}

    assert len(found) == 8


def test_what_a_seed_draws_stays_the_same() -> None:
    split = split_by_workload(rows_of([5, 4]), held_out=3, seed=11)

    assert split.test == ("w0_1", "w0_4", "w1_3")


@pytest.mark.parametrize("held_out", [0, 1, 5])
def test_an_impossible_number_is_refused_with_the_possible_ones(held_out: int) -> None:
    with pytest.raises(DataError, match="cannot be held out of 7 in 3 operator families; ask for 2 to 4"):
        split_by_workload(rows_of([4, 2, 1]), held_out=held_out, seed=0)


@given(some_networks, st.sets(st.sampled_from(NETWORKS), min_size=1))
def test_nothing_learned_from_occurs_in_a_network_held_out(networks: list[tuple[str, ...]], hold_out: set[str]) -> None:
    rows = used_by(*networks)
    assume(hold_out <= {name for names in networks for name in names})
    assume(not all(hold_out & set(names) for names in networks))

    split = split_by_network(rows, sorted(hold_out))

    by_id = {row["workload_id"]: {n["name"] for n in row["networks"]} for row in rows}
    assert all(not by_id[i] & hold_out for i in split.train)
    assert all(by_id[i] & hold_out for i in split.test)
    assert {*split.train, *split.test} == set(by_id)
    assert (split.kind, split.hold_out, split.seed) == ("network", tuple(sorted(hold_out)), None)
    assert split.made_from == WorkloadFingerprint.of(by_id)


def test_a_shared_workload_is_tested_on_and_one_of_no_network_learned_from() -> None:
    rows = used_by(("resnet-18",), ("resnet-18", "resnet-50"), ("resnet-50",), ())
    rows[3]["networks"] = None  # the column may be null

    split = split_by_network(rows, ["ResNet_50"])

    assert (split.train, split.test) == (("w00", "w03"), ("w01", "w02"))
    assert split.name == "network-resnet-50"


@given(some_networks, st.randoms(use_true_random=False))
def test_the_files_are_the_same_bytes_for_everyone(networks: list[tuple[str, ...]], random: Any) -> None:
    rows = used_by(*networks)
    shuffled = [{**row, "networks": random.sample(row["networks"], len(row["networks"]))} for row in rows]
    random.shuffle(shuffled)

    ours, theirs = ([split_text(s) for s in leave_one_out(r, "network")] for r in (rows, shuffled))

    assert ours == theirs


def test_each_network_and_family_is_left_out_once() -> None:
    rows = used_by(("resnet-18", "vit"), ("vit",), ("bert-base", "vit"))
    rows[1]["operator"] = "matmul"

    # vit has every workload, so nothing would be left to learn from.
    assert [s.name for s in leave_one_out(rows, "network")] == ["network-bert-base", "network-resnet-18"]
    assert [s.test for s in leave_one_out(rows, "operator")] == [("w00", "w02"), ("w01",)]


def test_two_spellings_are_one_network_whatever_comes_first() -> None:
    rows = used_by(("ResNet_18",), ("resnet-18",), ())

    found = [leave_one_out(order, "network") for order in (rows, rows[::-1])]

    assert found[0] == found[1]
    assert [(s.hold_out, s.test) for s in found[0]] == [(("ResNet_18",), ("w00", "w01"))]


@pytest.mark.parametrize("spelt", ["resnet18", "ResNet-18", "resnet_18"])
def test_a_network_is_found_however_it_is_hyphenated(spelt: str) -> None:
    assert split_by_network(used_by(("resnet-18",), ("vit",)), [spelt]).test == ("w00",)


def test_tensets_networks_are_held_out_together() -> None:
    rows = used_by(("resnet_50", "resnet-18"), ("BERT-base",), ("resnet-18",), ())

    split = split_as_tenset(rows)

    assert (split.name, split.hold_out) == ("network-tenset", ("BERT-base", "resnet_50"))
    assert split.test == ("w00", "w01")
    assert len(TENSET_NETWORKS) == 5
    with pytest.raises(DataError, match="No workload comes from one of TenSet's networks"):
        split_as_tenset(used_by(("vit",), ()))


def test_an_operator_family_is_held_out_whole() -> None:
    split = split_by_operator(rows_of([2, 3, 1]), ["op0", "op2"])

    assert {family(i) for i in split.train} == {"w1"}
    assert (split.name, split.kind, len(split.test)) == ("operator-op0+op2", "operator", 3)


@pytest.mark.parametrize("hold_out", [[], ["op0", "op1"]])
def test_a_side_without_workloads_is_refused(hold_out: list[str]) -> None:
    with pytest.raises(DataError, match="both sides need at least one"):
        split_by_operator(rows_of([2, 3]), hold_out)


def test_an_unknown_name_is_refused_with_the_close_ones() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean resnet-18"):
        split_by_network(used_by(("resnet-18",), ()), ["resnet-81"])
    with pytest.raises(UnknownNameError, match="Did you mean op1"):
        split_by_operator(rows_of([2, 3]), ["opp1"])
    with pytest.raises(UnknownNameError, match="Did you mean cpu1 or cpu0"):
        split_by_device(["w0"], ["cpu0", "cpu1"], ["cpu"])


def test_devices_are_held_out_with_every_workload_or_with_those_of_a_split() -> None:
    rows = rows_of([4])
    ids, workloads = [row["workload_id"] for row in rows], split_by_workload(rows, held_out=1, seed=5)

    every = split_by_device(ids[::-1], ["cpu1", "cpu0"], ["cpu1"])
    both = split_by_device(ids, ["cpu0", "cpu1", "cpu2"], ["cpu1"], workloads=workloads)

    assert every.train == every.test == tuple(ids)
    assert (every.train_devices, every.test_devices, every.seed) == (("cpu0",), ("cpu1",), None)
    assert (both.train, both.test, both.seed) == (workloads.train, workloads.test, 5)
    assert (both.name, both.train_devices) == ("device-cpu1-workload-1-seed5", ("cpu0", "cpu2"))


@pytest.mark.parametrize("hold_out", [[], ["cpu0", "cpu1"]])
def test_both_sides_need_a_device(hold_out: list[str]) -> None:
    with pytest.raises(DataError, match="devices cannot be held out; both sides need at least one"):
        split_by_device(["w0"], ["cpu0", "cpu1"], hold_out)


def test_a_name_from_strangers_becomes_that_of_a_file() -> None:
    assert split_by_network(used_by(("../ViT S/16",), ()), ["../vit s/16"]).name == "network-..-ViT-S-16"
    assert isinstance(split_by_network(used_by(("a",), ()), ["a"]), Split)


def test_many_names_held_out_still_name_a_file(tmp_path: Path) -> None:
    names = [f"a-network-with-a-long-name-{number}" for number in range(12)]
    rows = used_by(*((name,) for name in names), ())
    one, other = split_by_network(rows, names), split_by_network(rows, names[1:])

    assert put_split(tmp_path, one) == put_split(tmp_path, split_by_network(rows, names[::-1]))
    assert put_split(tmp_path, other) != put_split(tmp_path, one)
    by_device = split_by_device(
        ["w"], [*names, "last"], names, workloads=Split("workload-120-seed0", ("w",), ("v",), 0)
    )
    assert put_split(tmp_path, by_device).is_file()


def test_folds_test_on_every_workload_once_and_share_out_the_families() -> None:
    rows = rows_of([7, 4, 1])

    splits = split_into_folds(rows, count=3, seed=1)

    assert [split.name for split in splits] == ["fold-3-seed1-1", "fold-3-seed1-2", "fold-3-seed1-3"]
    assert sorted(i for split in splits for i in split.test) == sorted(row["workload_id"] for row in rows)
    assert {len(split.test) for split in splits} == {4}
    assert split_into_folds(rows[::-1], count=3, seed=1) == splits != split_into_folds(rows, count=3, seed=2)
    for split in splits:
        operators = Counter(row["operator"] for row in rows if row["workload_id"] in split.test)
        assert min(operators[name] for name in sorted({row["operator"] for row in rows})[:2]) >= 1


@pytest.mark.parametrize("count", [0, 1, 13])
def test_folds_need_two_parts_and_a_workload_each(count: int) -> None:
    with pytest.raises(DataError, match="12 workloads cannot be split"):
        split_into_folds(rows_of([7, 4, 1]), count=count, seed=0)


def test_the_published_folds_of_the_h200_are_those_of_the_rule() -> None:
    results = Path(__file__).parents[3] / "docs" / "results" / "models.jsonl"
    recorded: dict[tuple[int, int], set[str]] = {}
    for line in results.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if (row["device"], row["split"]) == ("nvidia-h200", "fold-5"):
            recorded[row["seed"], row["fold"]] = set(row["workload_ids"])
    rows = DataFolder.open(EMBEDDED / "datasets/costhub/nvidia-h200").workloads().to_pylist()

    assert len(recorded) >= 15
    for (seed, fold), tested in recorded.items():
        assert tested == {i[:12] for i in split_into_folds(rows, count=5, seed=seed)[fold].test}
