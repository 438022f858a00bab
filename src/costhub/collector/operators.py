"""Provides the operators that workload suites are made of, as TVM tensor expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Expression = Callable[..., Any]


def layer_norm(rows: int, columns: int) -> list[Any]:
    """Layer normalisation of a (rows, columns) tensor over its columns, with scale and shift."""
    from tvm import te, topi

    data = te.placeholder((rows, columns), name="A", dtype="float32")
    scale = te.placeholder((columns,), name="G", dtype="float32")
    shift = te.placeholder((columns,), name="B", dtype="float32")
    return [data, scale, shift, topi.nn.layer_norm(data, scale, shift, axis=[1])]


def rms_norm(rows: int, columns: int) -> list[Any]:
    """Root-mean-square normalisation of a (rows, columns) tensor over its columns, with scale."""
    from tvm import te, topi

    data = te.placeholder((rows, columns), name="A", dtype="float32")
    scale = te.placeholder((columns,), name="G", dtype="float32")
    return [data, scale, topi.nn.rms_norm(data, scale, axis=[1])]


def expression(operator: str) -> Expression:
    """The function that builds `operator`'s tensor expression from its sizes.

    Most come from TVM's own ``meta_schedule.testing.te_workload``, so that figures compare with the
    literature.

    Raises:
        KeyError: the operator is not known (suites are checked by a test).
    """
    if operator in OWN:
        return OWN[operator]
    from tvm.s_tir.meta_schedule.testing import te_workload

    function: Expression = getattr(te_workload, FROM_TVM[operator])
    return function


OWN: dict[str, Expression] = {"layer_norm": layer_norm, "rms_norm": rms_norm}

FROM_TVM = {
    "conv1d": "conv1d_nlc",
    "conv2d": "conv2d_nhwc",
    "pointwise_conv2d": "conv2d_nhwc",
    "conv3d": "conv3d_ndhwc",
    "depthwise_conv2d": "depthwise_conv2d_nhwc",
    "conv2d_transpose": "conv2d_transpose_nhwc",
    "conv2d_bn_relu": "conv2d_nhwc_bn_relu",
    "batch_matmul": "batch_matmul_nkkm",
    "transpose_batch_matmul": "transpose_batch_matmul",
    "matmul": "matmul",
    "softmax": "softmax_mn",
    "norm": "norm_bmn",
}

FAMILY = {
    "conv1d": "conv",
    "conv2d": "conv",
    "conv3d": "conv",
    "conv2d_transpose": "conv",
    "conv2d_bn_relu": "conv",
    "depthwise_conv2d": "depthwise",
    "pointwise_conv2d": "pointwise",
    "batch_matmul": "batch_matmul",
    "transpose_batch_matmul": "batch_matmul",
    "matmul": "matmul",
    "softmax": "softmax",
    "norm": "norm",
    "layer_norm": "norm",
    "rms_norm": "norm",
}
"""The operator family of each operator: what the `operator` column of the workloads table holds."""

CONV2D_KERNEL = 5
"""Where conv2d has the size of its window among its sizes."""
