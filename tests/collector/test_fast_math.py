"""Polynomials for exp, tanh and erf: near the right values everywhere, and without calls of the C library."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import tvm
from torch.nn import functional
from tvm import relax

from costhub.collector.fast_math import FAST_MATH
from costhub.collector.relax_import import fuse

LLVM = tvm.target.Target({"kind": "llvm", "num-cores": 1})
VALUES = np.concatenate(
    [
        np.linspace(-12.0, 12.0, 4801),
        np.random.default_rng(0).normal(0.0, 1e-3, 200),
        [0.0, -0.0, -50.0, 50.0, -88.0, 88.0],
    ]
)
TORCH: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "relax.exp": (relax.op.exp, torch.exp),
    "relax.tanh": (relax.op.tanh, torch.tanh),
    "relax.erf": (relax.op.erf, torch.erf),
    "relax.sigmoid": (relax.op.sigmoid, torch.sigmoid),
    "relax.nn.silu": (relax.op.nn.silu, functional.silu),
    "relax.nn.gelu": (relax.op.nn.gelu, functional.gelu),
    "relax.nn.gelu_tanh": (relax.op.nn.gelu_tanh, lambda x: functional.gelu(x, approximate="tanh")),
    "relax.nn.softmax": (lambda x: relax.op.nn.softmax(x, -1), lambda x: torch.softmax(x, -1)),
}


def module(operator: Callable[[Any], Any], shape: tuple[int, ...], dtype: str = "float32") -> Any:
    """A relax module of one operator."""
    builder, x = relax.BlockBuilder(), relax.Var("x", relax.TensorType(shape, dtype))
    with builder.function("main", [x]):
        with builder.dataflow():
            output = builder.emit_output(operator(x))
        builder.emit_func_output(output)
    return builder.get()


def run(mod: Any, values: np.ndarray) -> np.ndarray:
    machine = relax.VirtualMachine(tvm.compile(mod, LLVM), tvm.cpu())
    return np.asarray(machine["main"](tvm.runtime.tensor(values)).numpy())


def test_every_operator_is_looked_at() -> None:
    assert TORCH.keys() == FAST_MATH.keys()


@pytest.mark.parametrize("name", sorted(FAST_MATH))
def test_values_are_those_of_torch(name: str) -> None:
    operator, of_torch = TORCH[name]
    values = VALUES.astype(np.float32).reshape(1, -1)
    wanted = of_torch(torch.from_numpy(values.astype(np.float64))).numpy()

    found = run(fuse(module(operator, values.shape), LLVM, fast_math=True), values)

    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("name", sorted(FAST_MATH))
def test_no_element_is_a_call_of_the_c_library(name: str) -> None:
    operator, _ = TORCH[name]

    def calls(*, fast_math: bool) -> set[str]:
        mod = fuse(module(operator, (8, 64)), LLVM, fast_math=fast_math)
        (kernel,) = (f for f in mod.functions.values() if not isinstance(f, relax.Function))
        alone = tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")})
        assembly = tvm.compile(alone, LLVM).mod.inspect_source("asm")
        return {word for word in ("expf", "erff", "tanhf") if word in assembly}

    assert calls(fast_math=True) == set()
    assert calls(fast_math=False) != set()


def test_numbers_without_end_stay_what_they_are() -> None:
    values = np.array([[math.inf, 200.0, -200.0, -math.inf]], np.float32)

    found = run(fuse(module(relax.op.exp, values.shape), LLVM, fast_math=True), values)[0]

    np.testing.assert_array_equal(found, [math.inf, math.inf, 0.0, 0.0])


def test_masked_places_of_a_softmax_get_no_share() -> None:
    values = np.array([[1.0, -math.inf, 2.0, -1e9]], np.float32)

    found = run(fuse(module(TORCH["relax.nn.softmax"][0], values.shape), LLVM, fast_math=True), values)

    np.testing.assert_allclose(found, torch.softmax(torch.from_numpy(values), -1).numpy(), atol=1e-7)


@pytest.mark.parametrize("name", sorted(FAST_MATH))
def test_other_types_are_computed_as_always(name: str) -> None:
    operator, _ = TORCH[name]
    values = np.linspace(-3.0, 3.0, 64).reshape(1, -1)

    fast, plain = (
        run(fuse(module(operator, values.shape, "float64"), LLVM, fast_math=on), values)
        for on in (True, False)
    )

    np.testing.assert_allclose(fast, plain, rtol=1e-14)
