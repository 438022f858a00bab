"""Provides read_convolution, read_product and read_attention: the sizes of an operator from the shapes of its tensors.

Engines lay out tensors in their own ways, costhub in blocks of channels, so the shapes alone tell kernels apart badly.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

Shape = tuple[int, ...]
Shapes = tuple[Shape, ...]
BLOCKED = "NCHWc"
"""In the names of costhub's convolutions in blocked layouts (docs/adr/0020-blocked-layouts.md)."""
PAIRS = "_pairs"
"""In the names of costhub's kernels in bfloat16, whose numbers are pairs (docs/adr/0022-bfloat16-by-pairs.md)."""
_LINE_CHANNELS = (3, 2, 1)
"""Of the images whose places and channels are one row of numbers (docs/adr/0023-matrix-units.md)."""
_LINE_LANES = 16


@dataclass(frozen=True)
class Convolution:
    """The sizes of a convolution, whatever its layout."""

    window: Shape
    inputs: int
    """Channels."""
    outputs: int
    """Channels."""
    is_depthwise: bool
    terms: int
    """Products in the sum of an output, without those that only fill up a row of numbers with zeros."""


def read_convolution(name: str, shapes: Shapes) -> Convolution | None:
    """The sizes of a convolution from the shapes of its data and weights; None where they do not tell.

    Weights are (outputs, inputs / groups, window), and the window has as many axes as the data has besides images and
    channels; OpenVINO's grouped weights have the groups before that. In blocked layouts the inputs and outputs of a
    block follow the window. In bfloat16 two inputs are one number, and an image with few channels is a row of numbers,
    whose weights are (blocks of outputs, pairs of rows, a row, outputs).

    Args:
        name: Of the kernel.
        shapes: Of its arguments.

    Example:
        >>> read_convolution("conv2d_NCHWc", ((1, 4, 56, 56, 16), (8, 4, 3, 3, 16, 16)))
        Convolution(window=(3, 3), inputs=64, outputs=128, is_depthwise=False, terms=576)
        >>> read_convolution("conv2d_NCHWc_pairs", ((1, 2, 58, 58, 16), (8, 2, 3, 3, 16, 16))).inputs
        64
        >>> read_convolution("conv2d_NCHWc_pairs", ((1, 115, 691), (4, 4, 22, 16)))
        Convolution(window=(7, 7), inputs=3, outputs=64, is_depthwise=False, terms=147)
        >>> read_convolution("Convolution", ((1, 64, 8, 28, 28), (128, 64, 3, 3, 3))).window
        (3, 3, 3)
    """
    if len(shapes) < 2:
        return None
    data, weights = shapes[:2]
    if BLOCKED in name:
        if len(weights) == 6:
            in_number = 2 if PAIRS in name else 1
            inputs, terms = data[1] * data[-1] * in_number, prod(weights[1:5]) * in_number
            return Convolution(weights[2:4], inputs, weights[0] * weights[5], "depthwise" in name, terms)
        return _on_a_line(weights) if PAIRS in name and len(weights) == 4 else None
    axes = 3 if len(data) == 5 else 2
    if len(weights) - axes not in (2, 3) or len(data) < 2:
        return None
    *before, of_group = weights[:-axes]
    window, outputs = weights[-axes:], prod(before)
    return Convolution(window, data[1], outputs, of_group == 1 and weights[0] > 1, of_group * prod(window))


def _on_a_line(weights: Shape) -> Convolution | None:
    """With a square window: the weights hold pairs of rows, the last of which may be half empty."""
    chunks, pairs, stretch, lanes = weights
    for size in (2 * pairs - 1, 2 * pairs):
        for channels in _LINE_CHANNELS:
            parts = -(-size * channels // _LINE_LANES)
            if stretch == parts * -(-size * channels // parts):  # with the zeros at its end
                terms = channels * size * size
                return Convolution((size, size), channels, chunks * lanes, is_depthwise=False, terms=terms)
    return None


def read_product(name: str, shapes: Shapes, out: Shape | None) -> tuple[int, int, int] | None:
    """Rows, depth and columns of a product with a matrix of weights, in any layout; None where the shapes do not tell.

    ONNX Runtime names no shape of weights that it has packed; the output has their columns.

    Args:
        name: Of the kernel.
        shapes: Of its arguments.
        out: Of its output, which lacks rows and columns that only fill up a tile; None if it is unknown.

    Example:
        >>> read_product("fused_matmul_packed_add", ((128, 768), (192, 768, 16), (3072,)), (128, 3072))
        (128, 768, 3072)
        >>> read_product("matmul_pairs_strided_slice", ((1, 640), (63, 640, 16)), (1, 1000))
        (1, 1280, 1000)
        >>> read_product("aten::addmm", ((768,), (128, 3072), (3072, 768)), None)
        (128, 3072, 768)
        >>> read_product("Gemm", ((128, 768), (3072,)), (128, 3072))
        (128, 768, 3072)
    """
    matrices = [shape for shape in shapes if len(shape) > 1]
    if len(matrices) == 1 and out and prod(out[:-1]) == prod(matrices[0][:-1]):
        return prod(out[:-1]), matrices[0][-1], out[-1]
    if len(matrices) < 2 or prod(matrices[1]) % matrices[0][-1]:
        return None
    data, weights = matrices[:2]
    rows, depth, columns = prod(data[:-1]), data[-1], prod(weights) // data[-1]
    if out and rows * columns != prod(out):
        rows, columns = min(rows, prod(out[:-1])), min(columns, out[-1])
    return rows, depth * (2 if PAIRS in name else 1), columns


def read_attention(shapes: Shapes, out: Shape | None) -> tuple[int, int, int, int] | None:
    """Heads, rows, depth and columns of a product of attention; None where the shapes do not tell.

    In kernels of costhub's own, which older profiles have (``matmul_heads``), one factor has its heads side by side in
    its rows, and may have other columns behind them. In those of pairs of bfloat16, the second factor has its columns
    in blocks, and the depth includes the zeros at the end of a sum.

    Args:
        shapes: Of its arguments.
        out: Of its output; None if it is unknown.

    Example:
        >>> read_attention(((128, 768), (12, 64, 128)), (12, 128, 128))
        (12, 128, 64, 128)
        >>> read_attention(((12, 128, 128), (128, 2304)), (128, 12, 64))
        (12, 128, 128, 64)
        >>> read_attention(((1, 12, 128, 64), (1, 12, 64, 128)), None)
        (12, 128, 64, 128)
        >>> read_attention(((6, 208, 32), (6, 13, 32, 16)), (6, 197, 197))
        (6, 197, 64, 197)
    """
    if len(shapes) < 2 or min(len(shapes[0]), len(shapes[1])) < 2:
        return None
    one, other = shapes[:2]
    if out and 2 < len(one) == len(other) - 1:
        return prod(out[:-2]), out[-2], 2 * one[-1], out[-1]
    if len(one) > 2:
        heads, rows, depth = prod(one[:-2]), one[-2], one[-1]
        return heads, rows, depth, prod(out) // (heads * rows) if out else other[-1]
    if len(other) > 2:
        return prod(other[:-2]), one[0], other[-2], other[-1]
    return None
