from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from costhub.dataset.latency import median_latency_s, repeats_by_length


def test_the_latency_is_the_median_of_the_repeats() -> None:
    runs = pa.chunked_array([[[1.0, 5.0, 2.0], [4.0, 2.0]], [[], [7.0]]])

    assert np.array_equal(median_latency_s(runs), [2.0, 3.0, np.nan, 7.0], equal_nan=True)


@given(
    st.lists(st.none() | st.lists(st.none() | st.floats(1e-9, 1.0), max_size=4), max_size=12),
    st.integers(0, 3),
)
def test_it_is_what_numpy_says_of_each_list(runs: list[list[float | None] | None], skip: int) -> None:
    expected = [np.median(np.array(r, np.float64)) if r else np.nan for r in runs]

    # A slice: offsets that do not begin at zero are where such code goes wrong.
    found = median_latency_s(pa.array(runs, pa.list_(pa.float64())).slice(skip))
    assert np.array_equal(found, expected[skip:], equal_nan=True)


def test_lists_come_by_their_length() -> None:
    found = list(repeats_by_length(pa.array([[1.0], [2.0, 3.0], [], [4.0]])))

    assert [(rows.tolist(), values.tolist()) for rows, values in found] == [
        ([0, 3], [[1.0], [4.0]]),
        ([1], [[2.0, 3.0]]),
    ]
