"""Outputs: what is rounding, and what is another network."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from costhub.transfer.network.agree import TOLERANCE, difference

VALUES = np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32)


@given(st.floats(-0.4, 0.4), st.floats(2.5, 100.0))
def test_the_tolerance_is_where_it_is_named(below: float, above: float) -> None:
    assert difference([VALUES * np.float32(1 + below * TOLERANCE)], [VALUES]) is None

    mean = float(np.abs(VALUES).mean())
    wrong = VALUES.copy()
    wrong[1, 2] += above * TOLERANCE * (abs(VALUES[1, 2]) + mean)
    assert "1 of 20 elements" in (difference([wrong], [VALUES]) or "")


def test_numbers_shapes_and_types_of_outputs_count() -> None:
    assert difference([VALUES], [VALUES, VALUES]) == "there are 1 outputs instead of 2"
    assert difference([VALUES.T], [VALUES]) == "output 0 is 5x4 of float32 instead of 4x5 of float32"
    assert difference([VALUES.astype(np.float64)], [VALUES]) is not None


def test_nan_is_wrong_unless_it_is_right() -> None:
    holes = VALUES.copy()
    holes[0, 0] = np.nan

    assert difference([holes], [VALUES]) is not None
    assert difference([holes], [holes]) is None


def test_outputs_without_a_number_agree_with_nothing() -> None:
    nothing = np.full(4, np.nan, np.float32)

    assert difference([nothing], [nothing]) == "output 0 has no number that could be compared"
    assert difference([np.float32([np.nan, 1.0])], [np.float32([np.nan, 1.0])]) is None
