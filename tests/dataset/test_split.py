from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.dataset.split import Split, load_split, save_split, split_by_workload
from costhub.errors import DataError


def rows_of(sizes: list[int]) -> list[dict[str, str]]:
    return [
        {"workload_id": f"w{family}_{i}", "operator": f"op{family}"}
        for family, size in enumerate(sizes)
        for i in range(size)
    ]


def family(workload_id: str) -> str:
    return workload_id.split("_", maxsplit=1)[0]


sizes = st.lists(st.integers(1, 9), min_size=1, max_size=6)


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

    assert split_by_workload(rows, held_out=held_out, seed=3) == split_by_workload(
        shuffled, held_out=held_out, seed=3
    )


def test_families_give_in_proportion_to_their_size() -> None:
    split = split_by_workload(rows_of([20, 10, 2]), held_out=7, seed=0)

    assert Counter(family(i) for i in split.test) == {"w0": 4, "w1": 2, "w2": 1}


def test_the_seed_chooses_the_workloads() -> None:
    rows = rows_of([12, 12])
    found = {split_by_workload(rows, held_out=4, seed=seed).test for seed in range(8)}

    assert len(found) == 8


@pytest.mark.parametrize("held_out", [0, 1, 5])
def test_an_impossible_number_is_refused_with_the_possible_ones(held_out: int) -> None:
    with pytest.raises(DataError, match="cannot be held out of 7 in 3 operator families; ask for 2 to 4"):
        split_by_workload(rows_of([4, 2, 1]), held_out=held_out, seed=0)


def test_a_workload_on_both_sides_is_refused() -> None:
    with pytest.raises(DataError, match="has the workload w1 on both sides"):
        Split("s", ("w0", "w1"), ("w1",), 0)


def test_a_saved_split_comes_back(tmp_path: Path) -> None:
    split = split_by_workload(rows_of([3, 3]), held_out=2, seed=1)
    save_split(split, tmp_path / "split.json")

    assert load_split(tmp_path / "split.json") == split
    assert [p.name for p in tmp_path.iterdir()] == ["split.json"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "is a split of version 2; costhub here reads 1"),
        ({"costhub": "model"}, "is JSON, but not a split of costhub"),
        ({"train": "w0"}, "lacks one of name, seed, train and test"),
        ({"test": [1]}, "lacks one of name, seed, train and test"),
        ({"name": None}, "lacks one of name, seed, train and test"),
        ({"test": ["w0"], "train": ["w0"]}, "on both sides"),
    ],
)
def test_a_file_that_is_no_split_is_refused(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    path = tmp_path / "split.json"
    save_split(Split("s", ("w0",), ("w1",), 0), path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))

    with pytest.raises(DataError, match=words):
        load_split(path)


@pytest.mark.parametrize("content", [None, "", "{", "[1]"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "split.json"
    if content is not None:
        path.write_text(content)

    with pytest.raises(DataError, match=r"split\.json (cannot be read as a split|is JSON, but not a split)"):
        load_split(path)
