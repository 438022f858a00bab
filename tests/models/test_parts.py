from __future__ import annotations

import numpy as np
import pytest

from costhub.dataset.features.combined import combine
from costhub.errors import ModelError, UnknownNameError
from costhub.models.parts import joined_spec, part_names, part_widths, read_as, take_parts
from costhub.testing import made_programs

SPEC = "per_store@1+relation@1+trace_tokens@1"
WIDTHS = (172, 123, 48)
RNG = np.random.default_rng(0)
PARTS = {
    name: (RNG.normal(size=(int(counts.sum()), width)).astype(np.float32), counts)
    for name, width, counts in zip(
        part_names(SPEC), WIDTHS, (np.array([2, 0, 1]), np.array([1, 1, 0]), np.array([3, 0, 4])), strict=True
    )
}
ROWS, COUNTS = combine(list(PARTS.values()))


def test_widths_are_those_of_the_parts_and_a_simple_spec_need_not_be_known() -> None:
    assert part_widths(SPEC, ROWS.shape[1]) == WIDTHS
    assert part_widths("demo@1", 9) == (9,)


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(ModelError, match=r"have 173 columns, got 172"):
        part_widths("per_store@1+relation@1", 172)


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"per_stor@1"):
        part_widths("per_stor@1+relation@1", 173)


def test_a_model_of_one_part_gets_the_rows_of_that_part() -> None:
    taken = take_parts(ROWS, COUNTS, feature_spec=SPEC, specs=list(PARTS))

    for (rows, counts), (own, sizes) in zip(taken, PARTS.values(), strict=True):
        np.testing.assert_array_equal(rows, own)
        np.testing.assert_array_equal(counts, sizes)


def test_a_model_of_several_parts_gets_them_in_the_order_of_its_own_spec() -> None:
    (rows, counts), (whole, _) = take_parts(ROWS, COUNTS, feature_spec=SPEC, specs=["trace_tokens@1+per_store@1", SPEC])

    expected, sizes = combine([PARTS["trace_tokens@1"], PARTS["per_store@1"]])
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_array_equal(counts, sizes)
    assert whole is ROWS


def test_a_simple_spec_is_passed_on_as_it_is() -> None:
    rows, counts = PARTS["per_store@1"]

    assert take_parts(rows, counts, feature_spec="demo@1", specs=["demo@1"])[0][0] is rows


def test_specs_are_joined_in_order_and_no_part_comes_twice() -> None:
    assert joined_spec(["b@1", "a@1+b@1", "c@1", "a@1"]) == "b@1+a@1+c@1"
    assert joined_spec(["a@1", "a@1"]) == "a@1"


def test_programs_are_read_with_other_rows_and_are_the_same_otherwise() -> None:
    programs = made_programs(SPEC, workloads=2, each=5)

    one, whole = read_as(programs, feature_spec=SPEC, specs=["relation@1", SPEC])

    assert one.rows.shape[1] == 123
    np.testing.assert_array_equal(one.latency_s, programs.latency_s)
    np.testing.assert_array_equal(whole.rows, programs.rows)
