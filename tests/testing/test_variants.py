from __future__ import annotations

import numpy as np

from costhub.dataset.features.combined import split_parts
from costhub.testing.made_programs import made_programs
from costhub.testing.variants import (
    filled,
    first_rows,
    none_of,
    partly_failed,
    rescaled,
    reversed_order,
    without_rows,
)

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
