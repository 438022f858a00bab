"""Featurised programs: the rows stay with their program, whatever is selected."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.dataset.programs import Programs


def make(counts: list[int]) -> Programs:
    """Program i has counts[i] rows that all hold i."""
    features = [np.full((count, 2), float(i)) for i, count in enumerate(counts)]
    n = len(counts)
    return Programs.from_list(features, np.arange(n) % 2, ("a", "b"), np.arange(1, n + 1) * 1e-3)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12), st.data())
def test_selected_programs_keep_their_own_rows(counts: list[int], data: st.DataObject) -> None:
    programs = make(counts)
    index = data.draw(st.lists(st.integers(0, len(counts) - 1), max_size=15))

    chosen = programs.select(np.array(index, dtype=np.int64))

    assert chosen.counts.tolist() == [counts[i] for i in index]
    assert chosen.rows[:, 0].tolist() == [float(i) for i in index for _ in range(counts[i])]


def test_throughput_is_relative_to_the_best_of_the_workload() -> None:
    programs = make([1, 1, 1, 1])
    assert programs.throughput().tolist() == pytest.approx([1.0, 1.0, 1 / 3, 0.5])


def test_only_the_wanted_workloads_remain() -> None:
    chosen = make([1, 2, 3]).of_workloads({"b"})
    assert chosen.n == 1
    assert len(chosen.rows) == 2


def test_rows_that_belong_to_nobody_are_refused() -> None:
    with pytest.raises(ValueError, match=r"counts\.sum"):
        Programs(np.zeros((3, 2), np.float32), np.array([2]), np.array([0]), ("a",), np.array([1.0]))


def test_arrays_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="one entry per program"):
        Programs(np.zeros((2, 2), np.float32), np.array([2]), np.array([0, 0]), ("a",), np.array([1.0]))


def test_chosen_programs_keep_the_name_of_their_spec() -> None:
    programs = dataclasses.replace(make([1, 2]), spec="demo@1")

    assert programs.of_workloads({"a"}).spec == "demo@1"
