"""Provides the kernels of convolutions in bfloat16 where a row of places does not fill a tile of matrix units.

`FlatShape` is for images with short rows: all rows become one. `LineShape` is for the first convolution of a network,
of an image with at most three channels: its places and channels become one row of numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import te, tirx

from costhub.collector.workloads.bfloat16_pairs import (
    MOST_LANES,
    OPAQUE,
    PAIRS,
    filter_axes,
    pair,
    product_of_pairs,
    scheduled,
)
from costhub.collector.workloads.relax_calls import FUSABLE, kernel_of
from costhub.collector.workloads.row_norms import extent
from costhub.dataset.intrinsics import FLAT_CONVOLUTION, PAIR_CONVOLUTION

_TILE_ROWS = range(13, 17)
"""Rows of a tile that keep matrix units busy."""


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
        """Sums in a block of channels.

        If some are left out anyway, their number is rounded up so that tiles of 13 to 16 rows divide it.
        """
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
    down, along, spanned = filter_axes(rows, columns)

    def summed(n: Any, o: Any, place: Any, lane: Any) -> Any:
        read = place + down * (shape.dilation[0] * shape.width) + along * shape.dilation[1]
        a = data[n, channel // side_by_side, read, channel % side_by_side]
        b = weights[o, channel // side_by_side, down, along, channel % side_by_side, lane]
        return te.sum(product_of_pairs(a, b), axis=[channel, *spanned])

    flat = te.compute([extent(n) for n in (images, outputs, shape.places, lanes)], summed, name=FLAT_CONVOLUTION)
    out = te.compute(
        [extent(size) for size in shape.out],
        lambda n, o, y, x, lane: flat[n, o, y * shape.width + x, lane],
        name="rows",
    )
    return kernel_of([data, weights, out], FUSABLE)


@dataclass(frozen=True)
class LineShape:
    """A convolution of an image with few channels in one block, whose places and channels form one row of numbers.

    Two rows of the image are paired. A row of the filter and the next one then multiply a stretch of adjacent pairs.
    With zeros at its end, the stretch is a multiple of at most 16 pairs, as many as matrix units add at a time. The
    zeros also multiply numbers beside the filter, so an infinity spreads a little further than it should.

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
        parts = -(-numbers // MOST_LANES)
        return parts * -(-numbers // parts)

    @property
    def pairs(self) -> tuple[int, int, int]:
        """Extents of the image's pairs."""
        of_filter = -(-self.weights[2] // 2)
        first = of_filter if self.row_step == 2 else 2 * of_filter - 1
        rows = first + (self.out[2] - 1) * self.strides[0] // self.row_step
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
    return scheduled(kernel_of([data, pairs], OPAQUE), in_vectors=False)


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
    return kernel_of([weights, te.compute(out, paired, name=PAIRS)], OPAQUE)


def line_convolution(shape: LineShape) -> Any:
    """The kernel of a convolution of such pairs, in float32."""
    data = te.placeholder([extent(size) for size in shape.pairs], "float32", name="data")
    weights = te.placeholder([extent(size) for size in shape.filters], "float32", name="weights")
    place, step = te.reduce_axis((0, extent(shape.stretch)), name="ic"), 2 // shape.row_step
    down, _, spanned = filter_axes(shape.filters[1])
    across = shape.strides[1] * shape.image[4]

    def summed(n: Any, o: Any, y: Any, x: Any, lane: Any) -> Any:
        row = y * (shape.strides[0] // shape.row_step) + down * step
        return te.sum(
            product_of_pairs(data[n, row, x * across + place], weights[o, down, place, lane]),
            axis=[place, *spanned],
        )

    out = te.compute([extent(size) for size in shape.out], summed, name=PAIR_CONVOLUTION, tag="conv2d_NCHWc")
    return kernel_of([data, weights, out], FUSABLE)
