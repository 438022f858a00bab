"""Provides the operators used by workload suites: their tensor expressions and families.

Each expression takes sizes and returns its arguments, the output last. They are float32 unless stated otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

# Operands of one AVX512-VNNI instruction: 4 inputs for each of 16 outputs.
VNNI_OUTPUTS, VNNI_INPUTS = 16, 4
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
"""TVM's name for each operator, and the dtype of all its tensors."""

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
"""The family of each operator, except 1 x 1 convolutions, which `family` handles."""

CONV2D = ("conv2d", "int8_conv2d", "float16_conv2d")
KERNEL = 5
"""Position of the window size among the sizes of these operators."""

Expression = Callable[..., Any]


def expression(operator: str) -> Expression:
    """The function that builds `operator`'s tensor expression from its sizes.

    Most come from TVM's own ``meta_schedule.testing.te_workload``, so that results are comparable with the
    literature.

    Raises:
        KeyError: The operator is not known (suites are checked by a test).
    """
    if operator in OWN:
        return OWN[operator]
    from tvm.s_tir.meta_schedule.testing import te_workload

    name, dtype = FROM_TVM[operator]
    function: Expression = getattr(te_workload, name)
    # Omitted if it is the default: not all of TVM's functions take one.
    return partial(function, in_dtype=dtype, out_dtype=dtype) if dtype != "float32" else function


def family(operator: str, sizes: tuple[int, ...]) -> str:
    """The operator family of a workload, as `costhub.dataset.operator_class.classify` names it.

    Example:
        >>> family("conv2d", (1, 56, 56, 64, 64, 3, 1, 1)), family("conv2d", (1, 56, 56, 64, 64, 1, 1, 0))
        ('conv', 'pointwise')
    """
    # A 1 x 1 convolution is a matrix product over pixels, whatever its suite calls it.
    return "pointwise" if operator in CONV2D and sizes[KERNEL] == 1 else FAMILY[operator]


def layer_norm(rows: int, columns: int) -> list[Any]:
    """Layer normalisation of a (rows, columns) tensor over its columns, with scale and shift."""
    from tvm import topi

    data = _data(rows, columns, name="A")
    scale, shift = _data(columns, name="G"), _data(columns, name="B")
    return [data, scale, shift, topi.nn.layer_norm(data, scale, shift, axis=[1])]


def residual_layer_norm(rows: int, columns: int) -> list[Any]:
    """The sum of two (rows, columns) tensors, layer-normalised: what ends half a transformer layer."""
    from tvm import topi

    data, residual = _data(rows, columns, name="A"), _data(rows, columns, name="R")
    scale, shift = _data(columns, name="G"), _data(columns, name="B")
    total = topi.add(data, residual)
    return [data, residual, scale, shift, topi.nn.layer_norm(total, scale, shift, axis=[1])]


def rms_norm(rows: int, columns: int) -> list[Any]:
    """Root-mean-square normalisation of a (rows, columns) tensor over its columns, with scale."""
    from tvm import topi

    data, scale = _data(rows, columns, name="A"), _data(columns, name="G")
    return [data, scale, topi.nn.rms_norm(data, scale, axis=[1])]


def gelu(rows: int, columns: int) -> list[Any]:
    """The Gaussian error linear unit, x (1 + erf(x / sqrt 2)) / 2, of a (rows, columns) tensor."""
    data = _data(rows, columns, name="A")
    return [data, _gelu(data)]


def swiglu(rows: int, columns: int) -> list[Any]:
    """The gate of decoders, a * sigmoid(a) * b, of each element of two (rows, columns) tensors."""
    from tvm import topi

    gate, data = _data(rows, columns, name="A"), _data(rows, columns, name="B")
    return [gate, data, topi.multiply(topi.multiply(gate, topi.sigmoid(gate)), data)]


def add_relu(rows: int, columns: int) -> list[Any]:
    """max(a + b, 0) of each element of two (rows, columns) tensors: the end of a residual block."""
    from tvm import topi

    data, residual = _data(rows, columns, name="A"), _data(rows, columns, name="R")
    return [data, residual, topi.nn.relu(topi.add(data, residual))]


def matmul_bias_gelu(rows: int, columns: int, summed: int) -> list[Any]:
    """(rows, summed) times (summed, columns), plus a bias, through GELU: a transformer's dense layer."""
    from tvm import te, topi
    from tvm.s_tir.meta_schedule.testing import te_workload

    data, weight, product = te_workload.matmul(rows, columns, summed)
    bias = te.placeholder((columns,), name="bias", dtype="float32")
    return [data, weight, bias, _gelu(topi.add(product, bias))]


def sum_columns(rows: int, columns: int) -> list[Any]:
    """The sum of each row of a (rows, columns) tensor."""
    from tvm import topi

    data = _data(rows, columns, name="A")
    return [data, topi.sum(data, axis=1)]


def max_columns(rows: int, columns: int) -> list[Any]:
    """The maximum of each row of a (rows, columns) tensor."""
    from tvm import topi

    data = _data(rows, columns, name="A")
    return [data, topi.max(data, axis=1)]


def sum_rows(rows: int, columns: int) -> list[Any]:
    """The sum of each column of a (rows, columns) tensor: a bias gradient, or the average over all pixels."""
    from tvm import topi

    data = _data(rows, columns, name="A")
    return [data, topi.sum(data, axis=0)]


def max_pool2d(n: int, h: int, w: int, c: int, window: int, stride: int, padding: int) -> list[Any]:
    """The maximum over a window of (n, h, w, c) pixels."""
    return _pool2d(n, h, w, c, window, stride, padding, "max")


def avg_pool2d(n: int, h: int, w: int, c: int, window: int, stride: int, padding: int) -> list[Any]:
    """The mean over a window of (n, h, w, c) pixels."""
    return _pool2d(n, h, w, c, window, stride, padding, "avg")


def int8_dense(rows: int, columns: int, summed: int) -> list[Any]:
    """uint8 (rows, summed) times int8 weights, summed in int32.

    The weights are packed as VNNI reads them, (columns / 16, summed / 4, 16, 4). TVM's rule takes any layout,
    and its programs are silently wrong if the 64 bytes are not contiguous.
    """
    from tvm import te

    data = te.placeholder((rows, summed), name="A", dtype="uint8")
    shape = (columns // VNNI_OUTPUTS, summed // VNNI_INPUTS, VNNI_OUTPUTS, VNNI_INPUTS)
    weight = te.placeholder(shape, name="W", dtype="int8")
    k = te.reduce_axis((0, summed), name="k")

    def product(i: Any, j: Any) -> Any:
        packed = weight[j // VNNI_OUTPUTS, k // VNNI_INPUTS, j % VNNI_OUTPUTS, k % VNNI_INPUTS]
        return te.sum(data[i, k].astype("int32") * packed.astype("int32"), axis=k)

    return [data, weight, te.compute((rows, columns), product, name="C")]


def int8_conv2d(n: int, h: int, w: int, c_in: int, c_out: int, kernel: int, stride: int, padding: int) -> list[Any]:
    """Convolution of uint8 (n, h, w, c_in) with packed int8 weights, as in `int8_dense`, summed in int32."""
    from tvm import te, topi

    data = te.placeholder((n, h, w, c_in), name="A", dtype="uint8")
    shape = (c_out // VNNI_OUTPUTS, kernel, kernel, c_in // VNNI_INPUTS, VNNI_OUTPUTS, VNNI_INPUTS)
    weight = te.placeholder(shape, name="W", dtype="int8")
    padded = topi.nn.pad(data, [0, padding, padding, 0])
    axes = [te.reduce_axis((0, size), name) for size, name in ((kernel, "rh"), (kernel, "rw"), (c_in, "rc"))]
    rh, rw, rc = axes

    def product(b: Any, y: Any, x: Any, c: Any) -> Any:
        packed = weight[c // VNNI_OUTPUTS, rh, rw, rc // VNNI_INPUTS, c % VNNI_OUTPUTS, rc % VNNI_INPUTS]
        pixel = padded[b, y * stride + rh, x * stride + rw, rc]
        return te.sum(pixel.astype("int32") * packed.astype("int32"), axis=axes)

    out_h, out_w = ((size + 2 * padding - kernel) // stride + 1 for size in (h, w))
    return [data, weight, te.compute((n, out_h, out_w, c_out), product, name="conv2d")]


def _pool2d(n: int, h: int, w: int, c: int, window: int, stride: int, padding: int, kind: str) -> list[Any]:
    from tvm import topi

    data = _data(n, h, w, c, name="A")
    pooled = topi.nn.pool2d(
        data, [window] * 2, [stride] * 2, [1, 1], [padding] * 4, kind, layout="NHWC", count_include_pad=False
    )
    return [data, pooled]


def _gelu(data: Any) -> Any:
    from tvm import topi

    half = topi.multiply(data, 0.5)
    return topi.multiply(half, topi.add(topi.erf(topi.multiply(data, 0.5**0.5)), 1.0))


def _data(*shape: int, name: str) -> Any:
    from tvm import te

    return te.placeholder(shape, name=name, dtype="float32")


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
