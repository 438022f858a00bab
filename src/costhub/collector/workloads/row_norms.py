"""Provides row_norm: layer normalisation whose sums run in vectors.

The sum of a row is a chain of additions, which LLVM may not reorder, so TVM's kernel adds one number at a time. Here
each lane of a vector sums its own numbers of the row, and the lanes are added at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import te, tirx

NORM = "layer_norm_rows"
"""Name of the block that writes the result."""
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

    def summed(value: Callable[[Any, Any], Any], name: str) -> Any:
        k, lane = (
            te.reduce_axis((0, extent(columns // lanes)), name="k"),
            te.reduce_axis((0, extent(lanes)), name="l"),
        )
        partial = te.compute(
            (long, extent(lanes)), lambda m, at: te.sum(value(m, k * lanes + at), axis=k), name=name + LANES
        )
        return te.compute((long,), lambda m: te.sum(partial[m, lane], axis=lane), name=name)

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


def extent(value: int) -> Any:
    """An extent in the type that relax gives its shapes; TVM fuses no kernels whose types differ."""
    return tirx.const(value, "int64")
