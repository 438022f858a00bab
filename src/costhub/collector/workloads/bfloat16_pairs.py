"""Provides the kernels of products and convolutions in bfloat16: rounding, pairs of numbers, products of pairs.

CPUs that compute in bfloat16 add two products at a time to a float32 (``vdpbf16ps`` of AVX512-BF16), so two terms of a
sum lie side by side, in 32 bits. TVM turns bfloat16 into float32 before it generates code; in these kernels a pair is
a float32 whose bits are never used as such a number. Sums stay float32, and so does everything between the kernels.

Which two terms form a pair makes no difference to a sum. A row's first half is paired with its second half, and a block
of channels with the next one, so that vectors are read and written whole and 16 pairs lie side by side, as matrix units
read them. With an odd number of blocks, the halves of each block are paired.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tvm import IRModule, te, tirx
from tvm.s_tir import Schedule

from costhub.collector.workloads.relax_calls import FUSABLE, kernel_of
from costhub.collector.workloads.row_norms import extent
from costhub.dataset.intrinsics import PAIR_CONVOLUTION, PAIR_PRODUCT

PAIRS = "bfloat16_pairs"
"""Name of the block that rounds and pairs."""
OPAQUE = 8
"""TVM's ``kOpaque``: such a kernel is never fused. Inside a product, rounding would be done again for every sum."""
_HIGH = 0xFFFF0000
MOST_LANES = 16
_LARGE = 1 << 13
"""From this many pairs on, all cores share the rounding."""
Extents = Sequence[int]


def pair(low: Any, high: Any) -> Any:
    """Two float32, rounded to bfloat16, as the bits of one float32."""
    return tirx.reinterpret("float32", _rounded(low) | (_rounded(high) << tirx.const(16, "uint32")))


def _rounded(x: Any) -> Any:
    """The upper half of a float32, rounded to the nearest, ties to even, as torch and the CPU round."""
    bits = tirx.reinterpret("uint32", x)
    half = tirx.const(0x7FFF, "uint32") + ((bits >> tirx.const(16, "uint32")) & tirx.const(1, "uint32"))
    return (bits + half) >> tirx.const(16, "uint32")


def product_of_pairs(a: Any, b: Any) -> Any:
    """The two products of two pairs, added, as float32.

    `costhub.dataset.intrinsics.register_pairs` describes the CPU's instruction by this very expression.
    """
    return _low(a) * _low(b) + _high(a) * _high(b)


def _low(x: Any) -> Any:
    return tirx.reinterpret("float32", tirx.reinterpret("uint32", x) << tirx.const(16, "uint32"))


def _high(x: Any) -> Any:
    return tirx.reinterpret("float32", tirx.reinterpret("uint32", x) & tirx.const(_HIGH, "uint32"))


def paired_rows(rows: int, depth: int, shape: tuple[int, int] | None = None) -> Any:
    """The kernel (``tirx.PrimFunc``) from (rows, depth) float32 to pairs.

    Args:
        rows: Rows of numbers.
        depth: Numbers in a row.
        shape: Rows of pairs, and pairs in each; by default, as many as it takes. Rows beyond the last repeat it, and
            pairs beyond the last are zeros.
    """
    half = depth // 2
    computed, stored = shape or (rows, half)
    data = te.placeholder([extent(rows), extent(depth)], "float32", name="data")

    def paired(m: Any, k: Any) -> Any:
        row = m if computed == rows else tirx.min(m, rows - 1)
        return _or_zeros(k, half, stored, lambda: pair(data[row, k], data[row, k + half]))

    pairs = te.compute([extent(computed), extent(stored)], paired, name=PAIRS)
    return scheduled(kernel_of([data, pairs], OPAQUE))


def _or_zeros(k: Any, known: int, stored: int, found: Callable[[], Any]) -> Any:
    """A pair, or zeros behind the last of those that are known."""
    return found() if stored == known else tirx.if_then_else(k < known, found(), tirx.const(0.0, "float32"))


def paired_columns(depth: int, columns: int, lanes: int, stored: int | None = None) -> Any:
    """The kernel from weights (depth, columns) to pairs (columns / lanes, stored, lanes), by default depth / 2."""
    half = depth // 2
    stored = stored or half
    weights = te.placeholder([extent(depth), extent(columns)], "float32", name="weights")

    def packed(chunk: Any, k: Any, lane: Any) -> Any:
        column = chunk * lanes + lane
        return _or_zeros(k, half, stored, lambda: pair(weights[k, column], weights[k + half, column]))

    pairs = te.compute([extent(columns // lanes), extent(stored), extent(lanes)], packed, name=PAIRS)
    return kernel_of([weights, pairs], OPAQUE)


def pair_extents(chunks: int, block: int) -> tuple[int, int]:
    """How many blocks of pairs so many blocks of channels become, and the pairs in each.

    Example:
        >>> pair_extents(4, 16), pair_extents(3, 16)
        ((2, 16), (3, 8))
    """
    return (chunks // 2, block) if chunks % 2 == 0 else (chunks, block // 2)


def paired_image(shape: Extents, padding: Extents, places: int | None = None) -> Any:
    """The kernel from an image (n, c, h, w, b) to pairs (n, c', h + zeros, w + zeros, b') of `pair_extents`.

    Args:
        shape: The five extents.
        padding: Zeros above, to the left, below and to the right.
        places: If given, the two axes of places become one of this extent, with zeros at its end.
    """
    images, chunks, height, width, block = shape
    top, left, bottom, right = padding
    blocks, pairs_of_block = pair_extents(chunks, block)
    rows, columns = height + top + bottom, width + left + right
    data = te.placeholder([extent(size) for size in shape], "float32", name="data")

    def padded(n: Any, c: Any, y: Any, x: Any, b: Any) -> Any:
        row, column = y - top, x - left
        found = pair(*(data[n, chunk, row, column, place] for chunk, place in _paired_channels(chunks, block, c, b)))
        inside = [row >= 0] * (top > 0) + [row < height] * (bottom > 0)
        inside += [column >= 0] * (left > 0) + [column < width] * (right > 0)
        return tirx.if_then_else(tirx.all(*inside), found, tirx.const(0.0, "float32")) if inside else found

    def flat(n: Any, c: Any, place: Any, b: Any) -> Any:
        return _or_zeros(place, rows * columns, places or 0, lambda: padded(n, c, place // columns, place % columns, b))

    extents = [rows, columns] if places is None else [places]
    out = [extent(size) for size in (images, blocks, *extents, pairs_of_block)]
    pairs = te.compute(out, padded if places is None else flat, name=PAIRS)
    return scheduled(kernel_of([data, pairs], OPAQUE))


def _paired_channels(chunks: int, block: int, c: Any, b: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """The block and the place in it of both channels of a pair, given those of the pair (`pair_extents`)."""
    blocks, pairs_of_block = pair_extents(chunks, block)
    return ((c, b), (c, b + pairs_of_block)) if blocks == chunks else ((2 * c, b), (2 * c + 1, b))


def paired_filters(shape: Extents) -> Any:
    """The kernel from weights (o / l, c, h, w, b, l) to pairs (o / l, c', h, w, b', l) of `pair_extents`."""
    blocks, pairs_of_block = pair_extents(shape[1], shape[4])
    weights = te.placeholder([extent(size) for size in shape], "float32", name="weights")

    def packed(o: Any, i: Any, h: Any, w: Any, b: Any, lane: Any) -> Any:
        channels = _paired_channels(shape[1], shape[4], i, b)
        return pair(*(weights[o, chunk, h, w, place, lane] for chunk, place in channels))

    out = [extent(size) for size in (shape[0], blocks, *shape[2:4], pairs_of_block, shape[5])]
    return kernel_of([weights, te.compute(out, packed, name=PAIRS)], OPAQUE)


def pair_convolution(image: Extents, filters: Extents, strides: Extents, dilation: Extents) -> Any:
    """The kernel of a convolution of pairs, in float32.

    Args:
        image: Extents of the padded image's pairs, (n, blocks of pairs, h, w, pairs).
        filters: Extents of the weights' pairs, (o / l, blocks of pairs, kh, kw, pairs, l).
        strides: Down and along.
        dilation: Down and along.
    """
    images, chunks, height, width, half = image
    outputs, _, rows, columns, _, lanes = filters
    data = te.placeholder([extent(size) for size in image], "float32", name="data")
    weights = te.placeholder([extent(size) for size in filters], "float32", name="weights")
    spans = [1 + step * (size - 1) for size, step in zip((rows, columns), dilation, strict=True)]
    shape = (
        images,
        outputs,
        (height - spans[0]) // strides[0] + 1,
        (width - spans[1]) // strides[1] + 1,
        lanes,
    )
    channel = te.reduce_axis((0, extent(chunks * half)), name="ic")
    down, along, spanned = filter_axes(rows, columns)

    def summed(n: Any, o: Any, y: Any, x: Any, lane: Any) -> Any:
        row, column = y * strides[0] + down * dilation[0], x * strides[1] + along * dilation[1]
        a = data[n, channel // half, row, column, channel % half]
        b = weights[o, channel // half, down, along, channel % half, lane]
        return te.sum(product_of_pairs(a, b), axis=[channel, *spanned])

    out = te.compute([extent(size) for size in shape], summed, name=PAIR_CONVOLUTION, tag="conv2d_NCHWc")
    return kernel_of([data, weights, out], FUSABLE)


def pair_product(shape: Extents, computed: tuple[int, int], stored: int, lanes: int) -> Any:
    """The kernel of a product of pairs, (rows, stored) by (columns / lanes, stored, lanes), in float32.

    Matrix units read whole tiles, so there may be pairs of more rows and columns than the result has.

    Args:
        shape: Of the result: rows and columns, after the extents of the heads if there is a product for each of them.
        computed: Rows and columns of the pairs; those beyond the result's are not written to it.
        stored: Pairs of a sum.
        lanes: Columns stored side by side.
    """
    heads, (rows, columns) = [extent(size) for size in shape[:-2]], computed
    data = te.placeholder([*heads, extent(rows), extent(stored)], "float32", name="data")
    packed = [*heads, extent(columns // lanes), extent(stored), extent(lanes)]
    weights = te.placeholder(packed, "float32", name="weights")
    k = te.reduce_axis((0, extent(stored)), name="k")

    def summed(*index: Any) -> Any:
        *head, m, n = index
        a, b = data[(*head, m, k)], weights[(*head, n // lanes, k, n % lanes)]
        return te.sum(product_of_pairs(a, b), axis=k)

    product = te.compute([*heads, extent(rows), extent(columns)], summed, name=PAIR_PRODUCT, tag="matmul")
    out = product
    if computed != tuple(shape[-2:]):
        out = te.compute([extent(size) for size in shape], lambda *index: product[index], name="rows")
    return kernel_of([data, weights, out], FUSABLE)


def filter_axes(rows: int, columns: int = 1) -> tuple[Any, Any, list[Any]]:
    """The indices of a filter down and along, and those of them that are reduction axes.

    None is an axis of a single step: TVM makes a loop of it whose type its own primitive `blockize` refuses.
    """
    names = ((rows, "kh"), (columns, "kw"))
    down, along = (te.reduce_axis((0, extent(n)), name=name) if n > 1 else extent(0) for n, name in names)
    return down, along, [axis for axis, (n, _) in zip((down, along), names, strict=True) if n > 1]


def scheduled(function: Any, *, in_vectors: bool = True) -> Any:
    """The kernel that rounds, shared by all cores unless it is small: each then rounds what is in its own cache.

    Args:
        function: The kernel.
        in_vectors: Whether to vectorise it, rather than leave that to LLVM.
    """
    schedule = Schedule(IRModule({"main": function}))
    *outer, last = schedule.get_loops(schedule.get_sblock(PAIRS))
    extents = [int(schedule.get(loop).extent) for loop in (*outer, last)]
    if math.prod(extents) >= _LARGE:
        schedule.parallel(schedule.fuse(*outer))
    lanes = math.gcd(extents[-1], MOST_LANES) if in_vectors else 1
    if lanes > 1:
        schedule.vectorize(schedule.split(last, [None, lanes])[1])
    return schedule.mod["main"].with_attr("tirx.is_scheduled", True)
