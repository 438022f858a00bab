"""Kernels of images that do not fill the tiles of matrix units row by row: they compute the same convolutions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from costhub.collector.workloads.bfloat16_images import (
    FlatShape,
    LineShape,
    flat_convolution,
    line_convolution,
    paired_line_filters,
    paired_lines,
)
from costhub.collector.workloads.bfloat16_pairs import pair_extents, paired_filters, paired_image
from tests.collector.workloads.test_bfloat16_pairs import bf16, computed, draw


def as_torch(blocked: np.ndarray) -> torch.Tensor:
    """An image (n, c, h, w, b) as (n, c, h, w)."""
    images, chunks, height, width, block = blocked.shape
    return torch.from_numpy(blocked).permute(0, 1, 4, 2, 3).reshape(images, chunks * block, height, width)


def filters_as_torch(blocked: np.ndarray) -> torch.Tensor:
    """Weights (o / l, i / b, h, w, b, l) as (o, i, h, w)."""
    outputs, inputs, height, width, block, lanes = blocked.shape
    return torch.from_numpy(blocked).permute(0, 5, 1, 4, 2, 3).reshape(outputs * lanes, inputs * block, height, width)


@pytest.mark.parametrize(
    ("chunks", "size", "kernel", "padding", "dilation", "places"),
    [
        (2, (7, 7), (3, 3), (1, 1, 1, 1), (1, 1), 64),
        (3, (5, 6), (1, 1), (0, 0, 0, 0), (1, 1), 30),
        (2, (9, 8), (3, 2), (2, 0, 1, 3), (2, 1), 90),
        (1, (4, 14), (1, 3), (0, 1, 0, 1), (1, 1), 64),
    ],
)
def test_rows_in_one_give_the_same_convolution(
    chunks: int,
    size: tuple[int, int],
    kernel: tuple[int, int],
    padding: tuple[int, int, int, int],
    dilation: tuple[int, int],
    places: int,
) -> None:
    image, filters = draw(1, chunks, *size, 4), draw(2, chunks, *kernel, 4, 8)
    blocks, side_by_side = pair_extents(chunks, 4)
    shape = FlatShape(image.shape, (2, blocks, *kernel, side_by_side, 8), padding, dilation)

    pairs = computed(paired_image(image.shape, padding, shape.places_read), image)
    found = computed(flat_convolution(shape), pairs, computed(paired_filters(filters.shape), filters))

    top, left, bottom, right = padding
    padded = functional.pad(as_torch(bf16(image)), (left, right, top, bottom))
    expected = functional.conv2d(padded, filters_as_torch(bf16(filters)), dilation=dilation)
    np.testing.assert_allclose(as_torch(found), expected, rtol=1e-5, atol=1e-4)
    assert shape.places == places
    assert pairs.shape[2] == shape.places_read >= (size[0] + top + bottom) * shape.width


@pytest.mark.parametrize(
    ("channels", "size", "kernel", "strides", "padding"),
    [
        (3, (15, 17), (7, 7), (2, 2), (3, 3, 3, 3)),
        (3, (12, 12), (4, 4), (4, 4), (0, 0, 0, 0)),
        (1, (9, 11), (3, 3), (1, 1), (1, 1, 1, 1)),
        (2, (9, 11), (3, 2), (3, 1), (1, 0, 0, 2)),
        (3, (8, 8), (1, 5), (2, 2), (0, 2, 0, 2)),
        (3, (8, 8), (2, 7), (1, 3), (0, 0, 1, 0)),
    ],
)
def test_places_and_channels_in_one_row_give_the_same_convolution(
    channels: int,
    size: tuple[int, int],
    kernel: tuple[int, int],
    strides: tuple[int, int],
    padding: tuple[int, int, int, int],
) -> None:
    image, filters = draw(1, 1, *size, channels), draw(2, 1, *kernel, channels, 8)
    shape = LineShape(image.shape, filters.shape, strides, padding)

    pairs = computed(paired_lines(shape), image), computed(paired_line_filters(shape), filters)
    found = computed(line_convolution(shape), *pairs)

    assert pairs[0].shape == shape.pairs
    assert pairs[1].shape == shape.filters
    top, left, bottom, right = padding
    padded = functional.pad(as_torch(bf16(image)), (left, right, top, bottom))
    expected = functional.conv2d(padded, filters_as_torch(bf16(filters)), stride=strides)
    np.testing.assert_allclose(as_torch(found), expected, rtol=1e-5, atol=1e-4)
