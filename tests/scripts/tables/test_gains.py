from __future__ import annotations

import math

import pytest

from scripts.tables.gains import gain_with_error, geometric, mean_with_error


def test_twice_as_fast_and_half_as_fast_are_level() -> None:
    mean, error = gain_with_error([math.log(2.0), math.log(0.5)])

    assert mean == pytest.approx(1.0)
    assert error == pytest.approx(math.log(2.0))
    assert geometric([2.0, 0.5]) == pytest.approx(1.0)


def test_of_nothing_there_is_no_mean() -> None:
    assert geometric([]) is None
    assert gain_with_error([]) == (None, None)


def test_other_seeds_of_the_same_workloads_make_nothing_more_certain() -> None:
    once = mean_with_error([0.2, 0.0], ["conv", "norm"])
    thrice = mean_with_error([0.2] * 3 + [0.0] * 3, ["conv"] * 3 + ["norm"] * 3)

    assert once == pytest.approx((0.1, 0.1))
    assert thrice == pytest.approx(once)
    assert mean_with_error([0.1, 0.3], ["conv", "conv"]) == pytest.approx((0.2, 0.1))  # over searches of it alone
    assert mean_with_error([0.1], ["conv"])[1] is None
