from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from costhub.dataset.features.combined import combine
from costhub.models.trees.pooling import pool, pool_parts, pooled_width


@given(st.lists(st.integers(0, 3), max_size=6))
def test_each_program_pools_as_if_it_were_alone(sizes: list[int]) -> None:
    counts = np.array(sizes, np.int64)
    rows = np.random.default_rng(0).normal(size=(int(counts.sum()), 2)).astype(np.float32)
    pooled = pool(rows, counts)

    assert pooled.shape == (len(sizes), 7)
    end = 0
    for size, line in zip(sizes, pooled, strict=True):
        own, end = rows[end : end + size], end + size
        parts = [own.sum(0), own.max(0), own.mean(0), [size]] if size else [np.zeros(7)]
        expected = np.concatenate(parts)
        np.testing.assert_allclose(line, expected, rtol=1e-5, atol=1e-6)


def test_the_parts_of_a_composite_spec_are_pooled_each_by_itself() -> None:
    rng = np.random.default_rng(0)
    parts = [
        (rng.normal(size=(int(counts.sum()), width)).astype(np.float32), counts)
        for width, counts in ((3, np.array([2, 0, 1])), (5, np.array([0, 0, 4])))
    ]

    pooled = pool_parts(*combine(parts), [3, 5], [False, False])

    assert pooled.shape == (3, pooled_width([3, 5], [False, False]))
    np.testing.assert_array_equal(pooled, np.concatenate([pool(*part) for part in parts], axis=1))


def test_a_simple_spec_is_pooled_as_it_is() -> None:
    rows, counts = np.arange(6.0, dtype=np.float32).reshape(3, 2), np.array([1, 2])

    np.testing.assert_array_equal(pool_parts(rows, counts, [2], [False]), pool(rows, counts))


def test_the_first_row_of_a_leading_part_is_taken_by_itself() -> None:
    rows, counts = np.arange(6.0, dtype=np.float32).reshape(3, 2), np.array([1, 0, 2])

    pooled = pool_parts(rows, counts, [2], [True])

    assert pooled.shape == (3, pooled_width([2], [True]))
    np.testing.assert_array_equal(pooled[:, :7], pool(rows, counts))
    assert pooled[:, 7:].tolist() == [[0, 1], [0, 0], [2, 3]]
