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
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import IRModule, te, tirx
from tvm.s_tir import Schedule

from costhub.collector.workloads.relax_calls import FUSABLE
from costhub.collector.workloads.row_norms import extent

PAIRS = "bfloat16_pairs"
"""Name of the block that rounds and pairs."""
PAIR_CONVOLUTION, FLAT_CONVOLUTION = "conv2d_NCHWc_pairs", "conv2d_flat_pairs"
_OPAQUE = 8
"""TVM's ``kOpaque``: such a kernel is never fused. Inside a product, rounding would be done again for every sum."""
_HIGH = 0xFFFF0000
_MOST_LANES = 16
_TILE_ROWS = range(13, 17)
"""Rows of a tile that keep matrix units busy."""
_LARGE = 1 << 13
"""Pairs that are rounded on all cores."""
_Block = Sequence[int]


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


def paired_rows(rows: int, depth: int, padded: int | None = None) -> Any:
    """The kernel (``tirx.PrimFunc``) from (rows, depth) float32 to (padded, depth / 2) pairs.

    Args:
        rows: Rows of numbers.
        depth: Numbers in a row.
        padded: Rows of pairs; those beyond `rows` repeat the last one.
    """
    half, computed = depth // 2, padded or rows
    data = te.placeholder([extent(rows), extent(depth)], "float32", name="data")

    def paired(m: Any, k: Any) -> Any:
        row = m if computed == rows else tirx.min(m, rows - 1)
        return pair(data[row, k], data[row, k + half])

    pairs = te.compute([extent(computed), extent(half)], paired, name=PAIRS)
    return _scheduled(_function([data, pairs], _OPAQUE))


def paired_columns(depth: int, columns: int, lanes: int) -> Any:
    """The kernel from weights (depth, columns) to pairs (columns / lanes, depth / 2, lanes)."""
    half = depth // 2
    weights = te.placeholder([extent(depth), extent(columns)], "float32", name="weights")

    def packed(chunk: Any, k: Any, lane: Any) -> Any:
        column = chunk * lanes + lane
        return pair(weights[k, column], weights[k + half, column])

    pairs = te.compute([extent(columns // lanes), extent(half), extent(lanes)], packed, name=PAIRS)
    return _function([weights, pairs], _OPAQUE)


def pair_extents(chunks: int, block: int) -> tuple[int, int]:
    """How many blocks of pairs so many blocks of channels become, and the pairs in each.

    Example:
        >>> pair_extents(4, 16), pair_extents(3, 16)
        ((2, 16), (3, 8))
    """
    return (chunks // 2, block) if chunks % 2 == 0 else (chunks, block // 2)


def paired_image(shape: _Block, padding: _Block, places: int | None = None) -> Any:
    """The kernel from an image (n, c, h, w, b) to pairs (n, c', h + zeros, w + zeros, b') of `pair_extents`.

    Args:
        shape: The five extents.
        padding: Zeros above, to the left, below and to the right.
        places: If given, the two axes of places become one of this extent, with zeros at its end.
    """
    images, chunks, height, width, block = shape
    top, left, bottom, right = padding
    blocks, pairs_of_block = pair_extents(chunks, block)
    data = te.placeholder([extent(size) for size in shape], "float32", name="data")

    def padded(n: Any, c: Any, y: Any, x: Any, b: Any) -> Any:
        row, column = y - top, x - left
        if blocks == chunks:
            found = pair(data[n, c, row, column, b], data[n, c, row, column, b + pairs_of_block])
        else:
            found = pair(data[n, 2 * c, row, column, b], data[n, 2 * c + 1, row, column, b])
        inside = [row >= 0] * (top > 0) + [row < height] * (bottom > 0)
        inside += [column >= 0] * (left > 0) + [column < width] * (right > 0)
        return tirx.if_then_else(tirx.all(*inside), found, tirx.const(0.0, "float32")) if inside else found

    rows, columns = height + top + bottom, width + left + right
    out = [images, blocks, rows, columns, pairs_of_block]
    if places is not None:
        out = [images, blocks, places, pairs_of_block]

        def flat(n: Any, c: Any, place: Any, b: Any) -> Any:
            found = padded(n, c, place // columns, place % columns, b)
            inside = tirx.all(place < rows * columns)
            return tirx.if_then_else(inside, found, tirx.const(0.0, "float32")) if places > rows * columns else found

        pairs = te.compute([extent(size) for size in out], flat, name=PAIRS)
        return _scheduled(_function([data, pairs], _OPAQUE))
    pairs = te.compute([extent(size) for size in out], padded, name=PAIRS)
    return _scheduled(_function([data, pairs], _OPAQUE))


def paired_filters(shape: _Block) -> Any:
    """The kernel from weights (o / l, c, h, w, b, l) to pairs (o / l, c', h, w, b', l) of `pair_extents`."""
    blocks, pairs_of_block = pair_extents(shape[1], shape[4])
    weights = te.placeholder([extent(size) for size in shape], "float32", name="weights")

    def packed(o: Any, i: Any, h: Any, w: Any, b: Any, lane: Any) -> Any:
        if blocks == shape[1]:
            return pair(weights[o, i, h, w, b, lane], weights[o, i, h, w, b + pairs_of_block, lane])
        return pair(weights[o, 2 * i, h, w, b, lane], weights[o, 2 * i + 1, h, w, b, lane])

    out = [extent(size) for size in (shape[0], blocks, *shape[2:4], pairs_of_block, shape[5])]
    return _function([weights, te.compute(out, packed, name=PAIRS)], _OPAQUE)


def pair_convolution(image: _Block, filters: _Block, strides: _Block, dilation: _Block) -> Any:
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
    # No axis of a single step: TVM makes a loop of it whose type its own primitive `blockize` refuses.
    spanned = [te.reduce_axis((0, extent(n)), name=name) for n, name in ((rows, "kh"), (columns, "kw")) if n > 1]
    down, along = (spanned.pop(0) if n > 1 else extent(0) for n in (rows, columns))
    axes = [channel, *(axis for axis, n in ((down, rows), (along, columns)) if n > 1)]

    def summed(n: Any, o: Any, y: Any, x: Any, lane: Any) -> Any:
        row, column = y * strides[0] + down * dilation[0], x * strides[1] + along * dilation[1]
        a = data[n, channel // half, row, column, channel % half]
        b = weights[o, channel // half, down, along, channel % half, lane]
        return te.sum(product_of_pairs(a, b), axis=axes)

    out = te.compute([extent(size) for size in shape], summed, name=PAIR_CONVOLUTION, tag="conv2d_NCHWc")
    return _function([data, weights, out], FUSABLE)


@dataclass(frozen=True)
class FlatShape:
    """A convolution whose output rows are so short that matrix units multiply places of several rows at once.

    With the zeros at both ends, all rows of the image are one row of places, and so are those of the sums. Sums whose
    filter would reach over the end of a row are computed, and left out.

    Example:
        >>> shape = FlatShape((1, 32, 7, 7, 16), (32, 16, 3, 3, 16, 16), (1, 1, 1, 1), (1, 1))
        >>> shape.width, shape.places, shape.places_read
        (9, 64, 84)
    """

    image: tuple[int, ...]
    """Extents (n, c, h, w, b) of the image."""
    filters: tuple[int, ...]
    """Extents (o / l, blocks of pairs, kh, kw, pairs, l) of the weights' pairs."""
    padding: tuple[int, int, int, int]
    """Zeros above, to the left, below and to the right."""
    dilation: tuple[int, int]

    @property
    def width(self) -> int:
        """Places of a row, with zeros."""
        return self.image[3] + self.padding[1] + self.padding[3]

    @property
    def out(self) -> tuple[int, ...]:
        """Extents of the outputs, (n, o / l, h, w, l)."""
        height = self.image[2] + self.padding[0] + self.padding[2]
        spans = [1 + step * (n - 1) for step, n in zip(self.dilation, self.filters[2:4], strict=True)]
        return self.image[0], self.filters[0], height - spans[0] + 1, self.width - spans[1] + 1, self.filters[5]

    @property
    def places(self) -> int:
        """Sums of a block of channels: if some are left out anyway, so many that tiles of some size fit."""
        least = (self.out[2] - 1) * self.width + self.out[3]
        if self.width == self.out[3]:
            return least
        return next(n for n in range(least, least + _TILE_ROWS[-1]) if any(n % rows == 0 for rows in _TILE_ROWS))

    @property
    def places_read(self) -> int:
        """Places of the image, with zeros at the end."""
        down, along = (step * (n - 1) for step, n in zip(self.dilation, self.filters[2:4], strict=True))
        return self.places + down * self.width + along


def flat_convolution(shape: FlatShape) -> Any:
    """The kernel of such a convolution of pairs, in float32."""
    images, chunks = shape.image[0], shape.filters[1]
    outputs, _, rows, columns, side_by_side, lanes = shape.filters
    data = te.placeholder(
        [extent(n) for n in (images, chunks, shape.places_read, side_by_side)], "float32", name="data"
    )
    weights = te.placeholder([extent(size) for size in shape.filters], "float32", name="weights")
    channel = te.reduce_axis((0, extent(chunks * side_by_side)), name="ic")
    spanned = [te.reduce_axis((0, extent(n)), name=name) for n, name in ((rows, "kh"), (columns, "kw")) if n > 1]
    axes = [channel, *spanned]
    down, along = (spanned.pop(0) if n > 1 else extent(0) for n in (rows, columns))

    def summed(n: Any, o: Any, place: Any, lane: Any) -> Any:
        read = place + down * (shape.dilation[0] * shape.width) + along * shape.dilation[1]
        a = data[n, channel // side_by_side, read, channel % side_by_side]
        b = weights[o, channel // side_by_side, down, along, channel % side_by_side, lane]
        return te.sum(product_of_pairs(a, b), axis=axes)

    flat = te.compute([extent(n) for n in (images, outputs, shape.places, lanes)], summed, name=FLAT_CONVOLUTION)
    out = te.compute(
        [extent(size) for size in shape.out],
        lambda n, o, y, x, lane: flat[n, o, y * shape.width + x, lane],
        name="rows",
    )
    return _function([data, weights, out], FUSABLE)


@dataclass(frozen=True)
class LineShape:
    """A convolution of an image with few channels in one block, whose places and channels form one row of numbers.

    Two rows of the image are paired. A row of the filter and the next one then multiply a stretch of adjacent pairs.
    With zeros at its end, the stretch is a multiple of at most 16 pairs, as many as matrix units add at a time.

    Example:
        >>> shape = LineShape((1, 1, 224, 224, 3), (4, 1, 7, 7, 3, 16), (2, 2), (3, 3, 3, 3))
        >>> shape.pairs, shape.filters, shape.out
        ((1, 115, 691), (4, 4, 22, 16), (1, 4, 112, 112, 16))
    """

    image: tuple[int, ...]
    """Extents (n, 1, h, w, c)."""
    weights: tuple[int, ...]
    """Extents (o / l, 1, kh, kw, c, l)."""
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]
    """Zeros above, to the left, below and to the right."""

    @property
    def padded(self) -> tuple[int, int]:
        """Height and width with zeros."""
        top, left, bottom, right = self.padding
        return self.image[2] + top + bottom, self.image[3] + left + right

    @property
    def row_step(self) -> int:
        """Rows of the image from one row of pairs to the next: 1 if an odd stride needs every row first in a pair."""
        return 1 if self.strides[0] % 2 else 2

    @property
    def stretch(self) -> int:
        """Pairs that a filter multiplies at a time."""
        numbers = self.weights[3] * self.image[4]
        parts = -(-numbers // _MOST_LANES)
        return parts * -(-numbers // parts)

    @property
    def pairs(self) -> tuple[int, int, int]:
        """Extents of the image's pairs."""
        rows = -(-self.weights[2] // 2) + (self.out[2] - 1) * self.strides[0] // self.row_step
        rows = rows if self.row_step != 1 else 2 * -(-self.weights[2] // 2) - 1 + (self.out[2] - 1) * self.strides[0]
        added = self.stretch - self.weights[3] * self.image[4]
        return self.image[0], rows, self.padded[1] * self.image[4] + added

    @property
    def filters(self) -> tuple[int, int, int, int]:
        """Extents of the weights' pairs."""
        return self.weights[0], -(-self.weights[2] // 2), self.stretch, self.weights[5]

    @property
    def out(self) -> tuple[int, ...]:
        """Extents of the outputs, (n, o / l, h, w, l)."""
        sizes = zip(self.padded, self.weights[2:4], self.strides, strict=True)
        height, width = ((size - window) // step + 1 for size, window, step in sizes)
        return self.image[0], self.weights[0], height, width, self.weights[5]


def paired_lines(shape: LineShape) -> Any:
    """The kernel from an image to pairs: each of a number, and the one below it."""
    (_, _, height, width, channels), (top, left, _, _) = shape.image, shape.padding
    data = te.placeholder([extent(size) for size in shape.image], "float32", name="data")

    def number(n: Any, row: Any, place: Any) -> Any:
        x, channel = place // channels, place % channels
        inside = tirx.all(row >= top, row < top + height, x >= left, x < left + width)
        return tirx.if_then_else(inside, data[n, 0, row - top, x - left, channel], tirx.const(0.0, "float32"))

    def paired(n: Any, row: Any, place: Any) -> Any:
        first = row * shape.row_step
        return pair(number(n, first, place), number(n, first + 1, place))

    pairs = te.compute([extent(size) for size in shape.pairs], paired, name=PAIRS)
    return _function([data, pairs], _OPAQUE).with_attr("tirx.is_scheduled", True)  # LLVM makes vectors of it


def paired_line_filters(shape: LineShape) -> Any:
    """The kernel from weights to pairs (o / l, pairs of rows, stretch, l), of each number and the one below it."""
    channels, (_, _, rows, columns, _, _) = shape.image[4], shape.weights
    weights = te.placeholder([extent(size) for size in shape.weights], "float32", name="weights")

    def number(o: Any, row: Any, place: Any, lane: Any) -> Any:
        found = weights[o, 0, row, place // channels, place % channels, lane]
        inside = tirx.all(row < rows, place < columns * channels)
        return tirx.if_then_else(inside, found, tirx.const(0.0, "float32"))

    def paired(o: Any, row: Any, place: Any, lane: Any) -> Any:
        return pair(number(o, 2 * row, place, lane), number(o, 2 * row + 1, place, lane))

    out = [extent(size) for size in shape.filters]
    return _function([weights, te.compute(out, paired, name=PAIRS)], _OPAQUE)


def line_convolution(shape: LineShape) -> Any:
    """The kernel of a convolution of such pairs, in float32."""
    data = te.placeholder([extent(size) for size in shape.pairs], "float32", name="data")
    weights = te.placeholder([extent(size) for size in shape.filters], "float32", name="weights")
    place, step = te.reduce_axis((0, extent(shape.stretch)), name="ic"), 2 // shape.row_step
    rows = shape.filters[1]
    down = te.reduce_axis((0, extent(rows)), name="kh") if rows > 1 else extent(0)
    across = shape.strides[1] * shape.image[4]

    def summed(n: Any, o: Any, y: Any, x: Any, lane: Any) -> Any:
        row = y * (shape.strides[0] // shape.row_step) + down * step
        return te.sum(
            product_of_pairs(data[n, row, x * across + place], weights[o, down, place, lane]),
            axis=[place, down] if rows > 1 else [place],
        )

    out = te.compute([extent(size) for size in shape.out], summed, name=PAIR_CONVOLUTION, tag="conv2d_NCHWc")
    return _function([data, weights, out], FUSABLE)


def _scheduled(function: Any) -> Any:
    """The kernel in vectors, on all cores unless it is small: each then rounds what is in its own cache."""
    schedule = Schedule(IRModule({"main": function}))
    *outer, last = schedule.get_loops(schedule.get_sblock(PAIRS))
    extents = [int(schedule.get(loop).extent) for loop in (*outer, last)]
    if math.prod(extents) >= _LARGE:
        schedule.parallel(schedule.fuse(*outer))
    lanes = math.gcd(extents[-1], _MOST_LANES)
    if lanes > 1:
        schedule.vectorize(schedule.split(last, [None, lanes])[1])
    return schedule.mod["main"].with_attr("tirx.is_scheduled", True)


def _function(arguments: Sequence[Any], pattern: int) -> Any:
    function = te.create_prim_func(list(arguments)).without_attr("global_symbol")
    return function.with_attrs({"op_pattern": pattern, "tirx.noalias": True})
