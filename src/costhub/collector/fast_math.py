"""Provides FAST_MATH: polynomials for exp, tanh, erf and what is built from them, for LegalizeOps.

TVM hands these functions to LLVM, which calls the C library for every element; no schedule changes that. From
TVM's own polynomials (`topi.fast_exp`, `fast_tanh`, `fast_erf`) LLVM makes vector instructions. The results
differ in the last digits of a float32; other types are computed as always.

`relax.transform.FastMathTransform` does the same to four operators, and leaves gelu, silu and sigmoid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tvm import tirx, topi

Legalize = Callable[[Any, Any], Any]
"""``(block builder, call) -> call``, as LegalizeOps takes it."""


def _sigmoid(x: Any) -> Any:
    one = tirx.const(1.0, x.dtype)
    return topi.divide(one, topi.add(one, topi.fast_exp(topi.negative(x))))


def _silu(x: Any) -> Any:
    return topi.multiply(x, _sigmoid(x))


def _gelu(x: Any) -> Any:
    half = tirx.const(0.5, x.dtype)
    erf = topi.fast_erf(topi.multiply(x, tirx.const(0.5**0.5, x.dtype)))
    return topi.multiply(x, topi.add(half, topi.multiply(half, erf)))


def _gelu_tanh(x: Any) -> Any:
    """Hendrycks and Gimpel 2016, section 2."""
    one, half, cubic, scale = (tirx.const(c, x.dtype) for c in (1.0, 0.5, 0.044715, (2.0 / math.pi) ** 0.5))
    inner = x * scale * (one + cubic * x * x)
    return topi.multiply(topi.multiply(half, x), topi.add(one, topi.fast_tanh(inner)))


def _elementwise(name: str, compute: Callable[[Any], Any]) -> Legalize:
    def legalize(builder: Any, call: Any) -> Any:
        return builder.call_te(compute, call.args[0], primfunc_name_hint=f"fast_{name}")

    return legalize


def _softmax(builder: Any, call: Any) -> Any:
    return builder.call_te(
        topi.nn.fast_softmax, call.args[0], call.attrs.axis, primfunc_name_hint="fast_softmax"
    )


FAST_MATH: dict[str, Legalize] = {
    "relax.exp": _elementwise("exp", topi.fast_exp),
    "relax.tanh": _elementwise("tanh", topi.fast_tanh),
    "relax.erf": _elementwise("erf", topi.fast_erf),
    "relax.sigmoid": _elementwise("sigmoid", _sigmoid),
    "relax.nn.silu": _elementwise("silu", _silu),
    "relax.nn.gelu": _elementwise("gelu", _gelu),
    "relax.nn.gelu_tanh": _elementwise("gelu_tanh", _gelu_tanh),
    "relax.nn.softmax": _softmax,
}
"""Relax operator -> how it is legalised."""
