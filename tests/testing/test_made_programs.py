from __future__ import annotations

import numpy as np
import pytest

from costhub.dataset.features.combined import split_parts
from costhub.dataset.features.specs import find_spec, spec_names
from costhub.testing.made_programs import (
    STRUCTURE,
    filled,
    first_rows,
    free_columns,
    made_programs,
    none_of,
    partly_failed,
    rescaled,
    reversed_order,
    without_rows,
)


@pytest.mark.parametrize("spec", [*spec_names(), "per_store@1+trace_tokens@1", "loop_context@1+relation@1"])
def test_rows_have_the_width_of_the_spec_and_some_programs_have_none(spec: str) -> None:
    made = made_programs(spec)

    assert made.rows.shape[1] == find_spec(spec).width
    assert made.rows.dtype == np.float32
    assert made.spec == spec
    assert (made.n, len(made.workload_ids)) == (96, 4)
    assert made.informative().all()
    if "+" not in spec:
        assert set(made.counts) == {0, 1, 2, 3, 4}


def test_any_other_spec_has_the_columns_asked_for() -> None:
    assert made_programs("demo@1").rows.shape[1] == 6
    assert made_programs("demo@1", columns=1).rows.shape[1] == 1


def test_parents_stand_before_their_children_and_depths_follow() -> None:
    made = made_programs("loop_context@1", each=100)
    parent, depth = made.rows[:, 0].astype(int), made.rows[:, 1].astype(int)
    starts = np.cumsum(made.counts) - made.counts

    for start, count in zip(starts, made.counts, strict=True):
        own = slice(start, start + count)
        for number, (up, down) in enumerate(zip(parent[own], depth[own], strict=True)):
            assert up == -1 if number == 0 else 0 <= up < number
            assert down == (0 if number == 0 else depth[own][up] + 1)


def test_rows_of_a_composite_spec_say_their_part() -> None:
    made = made_programs("per_store@1+loop_context@1")

    (_, counts), (trees, _) = split_parts(made.rows, made.counts, [172, find_spec("loop_context@1").width])

    assert counts.sum() + len(trees) == len(made.rows)
    assert trees[:, 0].min() == -1


def test_numbers_of_a_vocabulary_are_whole_and_within_it() -> None:
    rows, names = made_programs("trace_tokens@1").rows, find_spec("trace_tokens@1").columns

    for name in STRUCTURE["trace_tokens@1"]:
        column = rows[:, names.index(name)]
        np.testing.assert_array_equal(column, column.round())
        assert column.min() >= 0


def test_equal_seeds_make_equal_programs() -> None:
    one, again, other = made_programs("demo@1"), made_programs("demo@1"), made_programs("demo@1", seed=1)

    np.testing.assert_array_equal(one.rows, again.rows)
    np.testing.assert_array_equal(one.latency_s, again.latency_s)
    assert not set(one.latency_s) & set(other.latency_s)


def test_the_free_columns_are_those_without_structure() -> None:
    assert free_columns("demo@1", 3).tolist() == [0, 1, 2]
    width = find_spec("loop_context@1").width
    assert free_columns("loop_context@1", width).tolist() == list(range(2, width))


PROGRAMS = made_programs("demo@1", workloads=3, each=20)


def test_none_are_left() -> None:
    assert (none_of(PROGRAMS).n, none_of(PROGRAMS).rows.shape) == (0, (0, 6))


def test_every_program_keeps_its_first_row() -> None:
    cut = first_rows(PROGRAMS)
    alone = [PROGRAMS.select(np.array([place])) for place in np.flatnonzero(PROGRAMS.counts)]

    assert set(cut.counts) == {1}
    np.testing.assert_array_equal(cut.rows, np.stack([program.rows[0] for program in alone]))
    np.testing.assert_array_equal(cut.latency_s, [program.latency_s[0] for program in alone])


def test_others_keep_their_rows_where_some_have_none() -> None:
    found = without_rows(PROGRAMS, every=3)
    kept = np.arange(PROGRAMS.n) % 3 != 0

    assert not found.counts[~kept].any()
    np.testing.assert_array_equal(found.select(kept).rows, PROGRAMS.select(kept).rows)
    assert not without_rows(PROGRAMS, every=1).counts.any()


def test_all_but_the_structure_is_filled() -> None:
    assert set(filled(PROGRAMS, 5.0, feature_spec="demo@1").rows.ravel()) == {5.0}

    both = made_programs("relation@1+loop_context@1")
    widths = [123, both.rows.shape[1] - 1] if both.rows.shape[1] > 124 else [123, 73]
    (plain, _), (trees, _) = split_parts(filled(both, 5.0, feature_spec=both.spec).rows, both.counts, widths)
    (_, _), (before, _) = split_parts(both.rows, both.counts, widths)
    assert set(plain.ravel()) == {5.0}
    np.testing.assert_array_equal(trees[:, :2], before[:, :2])
    assert set(trees[:, 2:].ravel()) == {5.0}


def test_the_slowest_becomes_the_fastest() -> None:
    assert reversed_order(PROGRAMS).latency_s.argmin() == PROGRAMS.latency_s.argmax()


def test_latencies_are_rescaled_by_workload_and_throughput_stays_to_the_last_digit() -> None:
    found = rescaled(PROGRAMS)

    np.testing.assert_array_equal(found.throughput(), PROGRAMS.throughput())
    ratio = found.latency_s / PROGRAMS.latency_s
    assert len(set(ratio)) == 3
    assert len(set(zip(ratio, PROGRAMS.workload, strict=True))) == 3


def test_some_fail() -> None:
    found = partly_failed(PROGRAMS, every=4)

    assert (~found.is_ok).sum() == 15
    np.testing.assert_array_equal(found.measured().latency_s, PROGRAMS.select(found.is_ok).latency_s)
