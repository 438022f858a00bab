"""Wrong outputs are found, and rounding is not taken for one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from costhub.collector.arguments import Arguments
from costhub.collector.output_check import Expected, tolerance, unlike

SHAPES: Arguments = (("float32", (16, 32)), ("float32", (32, 8)), ("float32", (16, 8)))


def product(tensors: list[Any], change: Any = None) -> None:
    """A program: the last argument becomes the product of the others, or what `change` makes of it."""
    a, b, c = (tensor.numpy() for tensor in tensors)
    result = a @ b
    if change is not None:
        result = change(result, c)
    tensors[2].copyfrom(result)


@pytest.fixture
def expected() -> Expected:
    import tvm

    return Expected.of(product, SHAPES, tvm.cpu(), reduction=32)


def said(expected: Expected, call: Any) -> str | None:
    import tvm

    return expected.difference(call, SHAPES, None, tvm.cpu())


def test_what_a_program_changes_is_its_output(expected: Expected) -> None:
    assert set(expected.after) == {2}
    assert said(expected, product) is None


def test_rounding_is_no_difference(expected: Expected) -> None:
    assert said(expected, lambda t: product(t, lambda new, old: new * np.float32(1 + 1e-5))) is None


def poke(value: float) -> Any:
    def change(new: Any, old: Any) -> Any:
        new[3, 5] = value
        return new

    return change


@pytest.mark.parametrize("value", [0.0, math.nan, math.inf, -math.inf, 1e30])
def test_one_wrong_element_is_found(expected: Expected, value: float) -> None:
    assert "argument 2" in (said(expected, lambda t: product(t, poke(value))) or "")


def test_an_output_that_is_not_written_is_found(expected: Expected) -> None:
    # Another program has just left the right result there: it must not be mistaken for this one's.
    assert said(expected, product) is None
    assert said(expected, lambda tensors: None)
    assert said(expected, lambda t: product(t, lambda new, old: np.where(np.arange(8) < 4, new, old)))


def test_a_written_input_is_found(expected: Expected) -> None:
    def greedy(tensors: list[Any]) -> None:
        product(tensors)
        tensors[0].copyfrom(np.zeros((16, 32), np.float32))

    assert "is not an output" in (said(expected, greedy) or "")


def test_another_layout_without_its_description_cannot_be_compared(expected: Expected) -> None:
    import tvm

    other = (SHAPES[0], ("float32", (8, 32)), SHAPES[2])
    with pytest.raises(ValueError, match="layout"):
        expected.difference(product, other, None, tvm.cpu())


def test_infinities_that_belong_there_are_right() -> None:
    wanted = np.array([1.0, np.inf, -np.inf, np.nan])
    assert unlike(wanted.copy(), wanted, reduction=1, rounds=True) is None
    assert unlike(np.array([1.0, np.inf, np.inf, np.nan]), wanted, reduction=1, rounds=True)
    assert unlike(np.array([1.0, np.inf, -np.inf, 3.0]), wanted, reduction=1, rounds=True)


def test_where_terms_cancel_the_size_of_the_others_counts() -> None:
    wanted = np.array([1.0, 1.0, 1e-9], np.float32)
    assert unlike(np.array([1.0, 1.0, -1e-8], np.float32), wanted, reduction=1, rounds=True) is None


def test_integers_are_exact_unless_they_are_rounded() -> None:
    wanted = np.array([1, 2, 255], np.uint8)
    off = np.array([1, 3, 255], np.uint8)
    assert unlike(off, wanted, reduction=9, rounds=False)
    assert unlike(off, wanted, reduction=9, rounds=True) is None
    assert unlike(np.array([1, 4, 255], np.uint8), wanted, reduction=9, rounds=True)
    assert unlike(np.array([True]), np.array([False]), reduction=1, rounds=True)


def test_longer_sums_and_smaller_types_are_given_more_room() -> None:
    assert tolerance("float32", 1) < tolerance("float32", 10**6) < tolerance("float16", 10**4)
    assert tolerance("float16", 100) < tolerance("bfloat16", 100) <= 0.5
