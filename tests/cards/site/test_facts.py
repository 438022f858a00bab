"""Numbers in files of strangers."""

from __future__ import annotations

import pytest

from costhub.cards.site.facts import as_number


@pytest.mark.parametrize("value", [None, "1", True, [1], {}, float("nan"), float("inf"), 10**400])
def test_what_is_no_finite_number_is_none(value: object) -> None:
    assert as_number(value) is None


@pytest.mark.parametrize(("value", "number"), [(3, 3.0), (-0.25, -0.25), (0, 0.0)])
def test_numbers_are_kept(value: float, number: float) -> None:
    assert as_number(value) == number
