"""Every operator of the suites builds, and belongs to a family."""

import pytest

from costhub.collector.operators import FAMILY, FROM_TVM, OWN, expression, family
from costhub.collector.suite import find_suites, suites

SMALL = {
    "softmax": (4, 8),
    "norm": (1, 4, 8),
    "matmul": (4, 8, 16),
    "float16_matmul": (4, 8, 16),
    "float16_conv2d": (1, 8, 8, 4, 4, 3, 1, 1),
}


@pytest.mark.parametrize("operator", sorted(SMALL))
def test_an_operator_has_one_dtype(operator: str) -> None:
    tensors = expression(operator)(*SMALL[operator])
    assert {str(t.dtype) for t in tensors} == {"float16" if operator.startswith("float16") else "float32"}


def test_every_operator_of_a_suite_has_a_family_and_an_expression() -> None:
    operators = {w.operator for w in find_suites(["all"])}
    assert operators == set(FAMILY) == {*OWN, *FROM_TVM}
    assert all(callable(expression(o)) for o in operators)


def test_a_window_of_one_pixel_is_pointwise_in_any_type() -> None:
    assert family("int8_conv2d", (1, 14, 14, 64, 64, 1, 1, 0)) == "pointwise"
    assert family("conv2d", (1, 14, 14, 64, 64, 3, 1, 1)) == "conv"


def test_the_suites_have_integers_and_half_precision_too() -> None:
    assert len(suites()["int8"]) >= 4
    assert all(w.operator.startswith("float16") for w in suites()["float16"])
