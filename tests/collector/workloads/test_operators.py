"""The operators of suites compute what torch computes, and their families are those of the classifier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from costhub.collector.workloads.operators import FAMILY, FROM_TVM, OWN, expression, family
from costhub.collector.workloads.suites import find_suites, suites

RNG = np.random.default_rng(0)


def run(operator: str, *sizes: int) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Inputs, and what the operator makes of them unscheduled."""
    import tvm
    from tvm import te

    tensors = list(expression(operator)(*sizes))
    shapes = [(tuple(int(n) for n in t.shape), str(t.dtype)) for t in tensors]
    inputs = [_values(shape, dtype) for shape, dtype in shapes[:-1]]
    out = tvm.runtime.tensor(np.zeros(*shapes[-1]))
    tvm.compile(te.create_prim_func(tensors), target="llvm")(*(tvm.runtime.tensor(a) for a in inputs), out)
    return [torch.from_numpy(a) for a in inputs], torch.from_numpy(out.numpy())


def _values(shape: tuple[int, ...], dtype: str) -> Any:
    if dtype == "float32":
        return RNG.normal(size=shape).astype(dtype)
    return RNG.integers(-100 if dtype == "int8" else 0, 100, shape).astype(dtype)


def nchw(x: torch.Tensor) -> torch.Tensor:
    return x.permute(0, 3, 1, 2)


def nhwc(x: torch.Tensor) -> torch.Tensor:
    return x.permute(0, 2, 3, 1)


def unpacked(weight: torch.Tensor) -> torch.Tensor:
    """(outputs, ..., inputs) of weights packed (outputs / 16, ..., inputs / 4, 16, 4)."""
    return weight.movedim(-2, 1).flatten(-2).flatten(0, 1)


Case = tuple[str, tuple[int, ...], Callable[..., torch.Tensor]]
CASES: list[Case] = [
    ("layer_norm", (4, 8), lambda a, g, b: F.layer_norm(a, (8,), g, b)),
    ("residual_layer_norm", (4, 8), lambda a, r, g, b: F.layer_norm(a + r, (8,), g, b)),
    ("rms_norm", (4, 8), lambda a, g: F.rms_norm(a, (8,), g, eps=1e-5)),
    ("gelu", (4, 8), F.gelu),
    ("swiglu", (4, 8), lambda a, b: F.silu(a) * b),
    ("add_relu", (4, 8), lambda a, r: F.relu(a + r)),
    ("matmul_bias_gelu", (4, 8, 16), lambda a, w, b: F.gelu(a @ w + b)),
    ("sum_columns", (4, 8), lambda a: a.sum(1)),
    ("max_columns", (4, 8), lambda a: a.amax(1)),
    ("sum_rows", (4, 8), lambda a: a.sum(0)),
    ("max_pool2d", (1, 9, 9, 4, 3, 2, 1), lambda a: nhwc(F.max_pool2d(nchw(a), 3, 2, 1))),
    (
        "avg_pool2d",
        (1, 9, 9, 4, 3, 1, 1),
        lambda a: nhwc(F.avg_pool2d(nchw(a), 3, 1, 1, count_include_pad=False)),
    ),
    ("int8_dense", (3, 32, 8), lambda a, w: a.int() @ unpacked(w).int().T),
    (
        "int8_conv2d",
        (1, 7, 7, 8, 32, 3, 2, 1),
        lambda a, w: nhwc(F.conv2d(nchw(a.double()), nchw(unpacked(w).double()), stride=2, padding=1)).int(),
    ),
]


@pytest.mark.parametrize(("operator", "sizes", "expected"), CASES, ids=[case[0] for case in CASES])
def test_an_operator_computes_what_torch_does(
    operator: str, sizes: tuple[int, ...], expected: Callable[..., torch.Tensor]
) -> None:
    inputs, out = run(operator, *sizes)
    torch.testing.assert_close(out, expected(*inputs), rtol=1e-4, atol=1e-4)


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
