from __future__ import annotations

import math

import pytest

from scripts.tables.gains import gain_with_error, geometric


def test_twice_as_fast_and_half_as_fast_are_level() -> None:
    mean, error = gain_with_error([math.log(2.0), math.log(0.5)])

    assert mean == pytest.approx(1.0)
    assert error == pytest.approx(math.log(2.0))
    assert geometric([2.0, 0.5]) == pytest.approx(1.0)


def test_of_nothing_there_is_no_mean() -> None:
    assert geometric([]) is None
    assert gain_with_error([]) == (None, None)
