from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.dataset.folder import DataFolder
from costhub.dataset.stats.noise import PERCENTILES, device_noise, relative_spread
from costhub.dataset.stats.observations import read_observations

LISTS = st.lists(st.lists(st.floats(1e-6, 1.0), max_size=5), max_size=8)


@given(LISTS, st.floats(0.1, 10.0))
def test_the_spread_has_no_unit(lists: list[list[float]], factor: float) -> None:
    values = pa.array(lists, pa.list_(pa.float64()))
    scaled = pa.array([[x * factor for x in xs] for xs in lists], pa.list_(pa.float64()))

    np.testing.assert_allclose(relative_spread(values), relative_spread(scaled), rtol=1e-9, atol=1e-12)


def test_the_spread_is_the_range_over_the_median() -> None:
    found = relative_spread(pa.chunked_array([[[1.0, 2.0, 4.0], [3.0, 3.0]], [[], [5.0], [0.0, 0.0]]]))

    np.testing.assert_array_equal(found, [1.5, 0.0, np.nan, np.nan, np.nan])


def test_repeats_and_repeated_programs_are_told_apart(tmp_path: Path, measurement: Any) -> None:
    root = DataFolder.create(tmp_path / "data")
    with root.writer("cpu0") as writer:
        # Repeats within 10 %; the program p was measured three times, at 1, 2 and 4 us.
        for number, us in enumerate((1.0, 2.0, 4.0)):
            writer.append(measurement(number, program_id="p", run_s=[us * 1e-6, us * 1e-6, us * 1.1e-6]))
        writer.append(measurement(3, run_s=[5e-6]))
        writer.append(measurement(4, program_id="p", status="run_error", error="x", run_s=[]))
    with root.writer("cpu1") as writer:
        writer.append(measurement(5, device_id="cpu1", program_id="p", run_s=[9e-6]))

    first, second = device_noise(read_observations(root))

    assert (first.device_id, first.repeats.count, first.again.count) == ("cpu0", 3, 1)
    assert first.repeats.median == pytest.approx(0.1)
    assert first.again.median == pytest.approx((4 - 1) / 2)
    assert len(first.repeats.percentiles) == len(PERCENTILES)
    # Another device says nothing about how well this one repeats itself.
    assert (second.device_id, second.repeats.count, second.again.count) == ("cpu1", 0, 0)
    assert (second.again.median, second.again.percentiles) == (None, ())
