from __future__ import annotations

import numpy as np
import pyarrow as pa

from costhub.dataset.latency import median_latency_s


def test_the_latency_is_the_median_of_the_repeats() -> None:
    runs = pa.chunked_array([[[1.0, 5.0, 2.0], [4.0, 2.0]], [[], [7.0]]])

    assert np.array_equal(median_latency_s(runs), [2.0, 3.0, np.nan, 7.0], equal_nan=True)
