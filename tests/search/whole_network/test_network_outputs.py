"""Outputs: what is rounding, and what is another network."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.search.whole_network.network_outputs import TOLERANCE, compare_outputs, rms_error

VALUES = np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32)


@given(st.floats(-0.4, 0.4), st.floats(2.5, 100.0))
def test_the_tolerance_is_where_it_is_named(below: float, above: float) -> None:
    assert compare_outputs([VALUES * np.float32(1 + below * TOLERANCE)], [VALUES]) is None

    mean = float(np.abs(VALUES).mean())
    wrong = VALUES.copy()
    wrong[1, 2] += above * TOLERANCE * (abs(VALUES[1, 2]) + mean)
    assert "1 of 20 elements" in (compare_outputs([wrong], [VALUES]) or "")


def test_numbers_shapes_and_types_of_outputs_count() -> None:
    assert compare_outputs([VALUES], [VALUES, VALUES]) == "there are 1 outputs instead of 2"
    assert compare_outputs([VALUES.T], [VALUES]) == "output 0 is 5x4 of float32 instead of 4x5 of float32"
    assert compare_outputs([VALUES.astype(np.float64)], [VALUES]) is not None


def test_nan_is_wrong_unless_it_is_right() -> None:
    holes = VALUES.copy()
    holes[0, 0] = np.nan

    assert compare_outputs([holes], [VALUES]) is not None
    assert compare_outputs([holes], [holes]) is None


def test_outputs_without_a_number_agree_with_nothing() -> None:
    nothing = np.full(4, np.nan, np.float32)

    assert compare_outputs([nothing], [nothing]) == "output 0 has no finite number to compare"
    assert compare_outputs([np.float32([np.nan, 1.0])], [np.float32([np.nan, 1.0])]) is None


def test_integers_and_places_of_infinities_are_no_matter_of_precision() -> None:
    whole, holes = np.arange(3), np.float32([np.inf, 1.0, np.nan])
    assert rms_error([whole, VALUES], [whole, VALUES]) == 0.0
    assert rms_error([whole + 1, VALUES], [whole, VALUES]) is None
    assert rms_error([holes], [holes]) == 0.0
    assert rms_error([-holes], [holes]) is None
    assert rms_error([np.float32([np.inf, 1.0, 2.0])], [holes]) is None


def test_the_error_is_that_of_the_worst_output_and_none_where_nothing_can_be_compared() -> None:
    assert rms_error([VALUES, 1.1 * VALUES], [VALUES, VALUES]) == pytest.approx(0.1, rel=1e-3)
    assert rms_error([VALUES], [VALUES]) == 0.0
    whole = np.arange(3)
    assert rms_error([whole], [whole]) is None
    assert rms_error([0 * VALUES], [0 * VALUES]) is None
    assert rms_error([VALUES.T], [VALUES]) is None
