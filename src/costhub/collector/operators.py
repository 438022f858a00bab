"""Provides the operators that workload suites are made of: their tensor expressions and families."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from costhub.collector.expressions import (
    add_relu,
    avg_pool2d,
    gelu,
    int8_conv2d,
    int8_dense,
    layer_norm,
    matmul_bias_gelu,
    max_columns,
    max_pool2d,
    residual_layer_norm,
    rms_norm,
    sum_columns,
    sum_rows,
    swiglu,
)

Expression = Callable[..., Any]


def expression(operator: str) -> Expression:
    """The function that builds `operator`'s tensor expression from its sizes.

    Most come from TVM's own ``meta_schedule.testing.te_workload``, so that figures compare with the
    literature.

    Raises:
        KeyError: The operator is not known (suites are checked by a test).
    """
    if operator in OWN:
        return OWN[operator]
    from tvm.s_tir.meta_schedule.testing import te_workload

    name, dtype = FROM_TVM[operator]
    function: Expression = getattr(te_workload, name)
    # Omitted where it is the default: not all of TVM's functions take one.
    return partial(function, in_dtype=dtype, out_dtype=dtype) if dtype != "float32" else function


def family(operator: str, sizes: tuple[int, ...]) -> str:
    """The operator family of a workload, as `costhub.dataset.operator_class.classify` names it.

    Example:
        >>> family("conv2d", (1, 56, 56, 64, 64, 3, 1, 1)), family("conv2d", (1, 56, 56, 64, 64, 1, 1, 0))
        ('conv', 'pointwise')
    """
    # A 1 x 1 convolution is a matrix product over pixels, whatever its suite calls it.
    return "pointwise" if operator in CONV2D and sizes[KERNEL] == 1 else FAMILY[operator]


OWN: dict[str, Expression] = {
    function.__name__: function
    for function in (
        layer_norm,
        residual_layer_norm,
        rms_norm,
        gelu,
        swiglu,
        add_relu,
        matmul_bias_gelu,
        sum_columns,
        max_columns,
        sum_rows,
        max_pool2d,
        avg_pool2d,
        int8_dense,
        int8_conv2d,
    )
}

FROM_TVM = {
    "conv1d": ("conv1d_nlc", "float32"),
    "conv2d": ("conv2d_nhwc", "float32"),
    "pointwise_conv2d": ("conv2d_nhwc", "float32"),
    "conv3d": ("conv3d_ndhwc", "float32"),
    "depthwise_conv2d": ("depthwise_conv2d_nhwc", "float32"),
    "conv2d_transpose": ("conv2d_transpose_nhwc", "float32"),
    "conv2d_bn_relu": ("conv2d_nhwc_bn_relu", "float32"),
    "batch_matmul": ("batch_matmul_nkkm", "float32"),
    "transpose_batch_matmul": ("transpose_batch_matmul", "float32"),
    "matmul": ("matmul", "float32"),
    "softmax": ("softmax_mn", "float32"),
    "norm": ("norm_bmn", "float32"),
    "float16_matmul": ("matmul", "float16"),
    "float16_batch_matmul": ("batch_matmul_nkkm", "float16"),
    "float16_conv2d": ("conv2d_nhwc", "float16"),
}
"""TVM's name of each operator, and the dtype of all its tensors."""

FAMILY = {
    "conv1d": "conv",
    "conv2d": "conv",
    "conv3d": "conv",
    "conv2d_transpose": "conv",
    "conv2d_bn_relu": "conv",
    "int8_conv2d": "conv",
    "float16_conv2d": "conv",
    "depthwise_conv2d": "depthwise",
    "pointwise_conv2d": "pointwise",
    "batch_matmul": "batch_matmul",
    "transpose_batch_matmul": "batch_matmul",
    "float16_batch_matmul": "batch_matmul",
    "matmul": "matmul",
    "matmul_bias_gelu": "matmul",
    "int8_dense": "matmul",
    "float16_matmul": "matmul",
    "softmax": "softmax",
    "norm": "norm",
    "layer_norm": "norm",
    "residual_layer_norm": "norm",
    "rms_norm": "norm",
    "max_pool2d": "pool",
    "avg_pool2d": "pool",
    "sum_columns": "reduce",
    "max_columns": "reduce",
    "sum_rows": "reduce",
    "gelu": "elementwise",
    "swiglu": "elementwise",
    "add_relu": "elementwise",
}
"""The family of each operator, but for 1 x 1 convolutions; `family` has those as well."""

CONV2D = ("conv2d", "int8_conv2d", "float16_conv2d")
KERNEL = 5
"""Where these have the size of their window among their sizes."""
