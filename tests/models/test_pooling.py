from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from costhub.models.pooling import pool


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
