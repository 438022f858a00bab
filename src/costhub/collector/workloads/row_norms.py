"""Provides row_norm and row_softmax: layer normalisation and softmax whose sums run in vectors.

The sum of a row is a chain of additions, which LLVM may not reorder, so TVM's kernel adds one number at a time. Here
each lane of a vector sums its own numbers of the row, and the lanes are added at the end. Maxima are taken
in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tvm import te, tirx, topi

NORM = "layer_norm_rows"
"""Name of the block that writes the result."""
SOFTMAX = "softmax_rows"
"""The same of a softmax."""
LANES = "_lanes"
"""Name suffix of the blocks whose sums run over lanes; the others add up the lanes."""


def row_norm(rows: int, columns: int, lanes: int, epsilon: float) -> Any:
    """The kernel (``tirx.PrimFunc``) of layer normalisation over the last of two dimensions, in float32.

    The variance is the mean square of the differences from the mean (two passes over the row, which is in a cache),
    since the square of a large mean would otherwise swamp it.

    Args:
        rows: Rows of the tensor.
        columns: Elements of a row; `lanes` divides them.
        lanes: Elements of a vector.
        epsilon: Added to the variance.
    """
    wide, long = extent(columns), extent(rows)
    data = te.placeholder((long, wide), "float32", name="data")
    gamma, beta = (te.placeholder((wide,), "float32", name=name) for name in ("gamma", "beta"))
    share = tirx.const(1.0 / columns, "float32")

    def summed(value: Callable[..., Any], name: str) -> Any:
        return _in_lanes(value, [long], (columns // lanes, lanes), (te.sum, name))

    total = summed(lambda m, n: data[m, n], "total")

    def difference(m: Any, n: Any) -> Any:
        return data[m, n] - total[m] * share

    spread = summed(lambda m, n: difference(m, n) * difference(m, n), "spread")
    result = te.compute(
        (long, wide),
        lambda m, n: (
            difference(m, n) * tirx.rsqrt(spread[m] * share + tirx.const(epsilon, "float32")) * gamma[n] + beta[n]
        ),
        name=NORM,
    )
    function = te.create_prim_func([data, gamma, beta, result]).without_attr("global_symbol")
    return function.with_attr("tirx.noalias", True)


def row_softmax(shape: Sequence[int], lanes: int, *, fast: bool) -> Any:
    """The kernel (``tirx.PrimFunc``) of softmax over the last dimension, in float32.

    A row that `lanes` does not divide is copied, with a few of minus infinity behind it.

    Args:
        shape: Of the tensor.
        lanes: Elements of a vector.
        fast: Whether exp is TVM's polynomial.
    """
    *outer, columns = shape
    long, chunks = [extent(n) for n in outer], -(-columns // lanes)
    data = te.placeholder((*long, extent(columns)), "float32", name="data")
    full, read = (*long, extent(chunks * lanes)), data
    if columns % lanes:
        least = tirx.const(-math.inf, "float32")
        read = te.compute(full, lambda *m: tirx.if_then_else(m[-1] < columns, data[m], least), name="padded")
    top = _in_lanes(lambda *m: read[m], long, (chunks, lanes), (te.max, "top"))
    below = te.compute(full, lambda *m: read[m] - top[m[:-1]], name="below")
    power = topi.fast_exp(below) if fast else te.compute(full, lambda *m: tirx.exp(below[m]), name="power")
    total = _in_lanes(lambda *m: power[m], long, (chunks, lanes), (te.sum, "total"))
    share = te.compute(long, lambda *m: tirx.const(1.0, "float32") / total[m], name="share")
    result = te.compute(data.shape, lambda *m: power[m] * share[m[:-1]], name=SOFTMAX)
    function = te.create_prim_func([data, result]).without_attr("global_symbol")
    return function.with_attr("tirx.noalias", True)


def _in_lanes(
    value: Callable[..., Any], long: Sequence[Any], row: tuple[int, int], reduction: tuple[Callable[..., Any], str]
) -> Any:
    """A sum or a maximum over rows, first by lanes and then over them.

    Args:
        value: Index of an element -> the element.
        long: Extents of the other dimensions.
        row: Vectors in a row, and elements of a vector.
        reduction: What combines elements, and a name for the blocks.
    """
    (chunks, lanes), (combine, name) = row, reduction
    k, lane = te.reduce_axis((0, extent(chunks)), name="k"), te.reduce_axis((0, extent(lanes)), name="l")
    partial = te.compute(
        (*long, extent(lanes)), lambda *m: combine(value(*m[:-1], k * lanes + m[-1]), axis=k), name=name + LANES
    )
    return te.compute(long, lambda *m: combine(partial[(*m, lane)], axis=lane), name=name)


def extent(value: int) -> Any:
    """An extent in the type that relax gives its shapes; TVM fuses no kernels whose types differ."""
    return tirx.const(value, "int64")
