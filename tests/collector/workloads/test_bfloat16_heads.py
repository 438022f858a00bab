"""Products of two activations in pairs of bfloat16: all terms of a sum, in any order of axes, and which get them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from tvm import relax

from costhub.collector.workloads.bfloat16_heads import Factor, paired_head_columns, paired_head_rows
from costhub.collector.workloads.bfloat16_pairs import pair_product
from costhub.collector.workloads.packed_products import pack_products
from costhub.dataset.tile_intrinsics import MATRICES, VECTORS
from tests.collector.workloads.test_bfloat16_pairs import beside_torch, bf16, computed, draw

LANES = 16


@pytest.mark.parametrize(
    ("rows", "depth", "columns", "stored", "most"),
    [
        (8, 64, 32, 32, (8, 32)),
        (37, 37, 21, 32, (48, 32)),  # more pairs than it takes, and sums that are left out
        (3, 33, 16, 32, (3, 16)),  # nearly every number is a first one
        (5, 32, 7, 16, (16, 16)),
    ],
)
@pytest.mark.parametrize("moved", [False, True])
def test_a_product_for_each_head_is_that_of_the_rounded_numbers(
    rows: int, depth: int, columns: int, stored: int, most: tuple[int, int], *, moved: bool
) -> None:
    heads = (1, 3)
    if moved:  # heads side by side in each row of memory, as torch leaves them
        first, second = Factor((1, rows, 3, depth), (0, 2, 1, 3)), Factor((1, columns, 3, depth), (0, 2, 3, 1))
    else:
        first, second = Factor((*heads, rows, depth), (0, 1, 2, 3)), Factor((*heads, depth, columns), (0, 1, 2, 3))
    data, other = draw(*first.shape), draw(*second.shape)

    pairs = (
        computed(paired_head_rows(first, most[0], stored), data),
        computed(paired_head_columns(second, most[1], stored, LANES), other),
    )
    found = computed(pair_product((*heads, rows, columns), most, stored, LANES), *pairs)

    expected = bf16(data).transpose(first.axes) @ bf16(other).transpose(second.axes)
    assert found.shape == (*heads, rows, columns)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


class Attention(nn.Module):
    """Self-attention of two heads over rows of 64 numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs, self.out = nn.Linear(64, 192), nn.Linear(64, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.inputs(x).chunk(3, -1)
        query, key, value = (torch.unflatten(part, 2, (2, -1)).transpose(1, 2) for part in parts)
        shares = torch.softmax(query @ key.transpose(2, 3) / 32**0.5, -1)
        return self.out((shares @ value).transpose(1, 2).flatten(2))


@pytest.mark.parametrize(("images", "rows"), [(1, 32), (1, 37), (2, 32)])
def test_matrix_units_multiply_both_products_of_attention(images: int, rows: int) -> None:
    found, expected, called = beside_torch(Attention, torch.rand(images, rows, 64), MATRICES)

    error = np.abs(found - expected).max() / np.abs(expected).max()
    assert 1e-5 < error < 0.02
    assert sum(count for name, count in called.items() if "matmul_pairs" in name) == 4
    assert called["column_pairs"] == 2
    assert not any("matmul" in name and "pairs" not in name for name in called)
    if images == 1:  # the way back from heads to rows is a copy, the way to the heads is none
        assert sum(count for name, count in called.items() if "transpose" in name) == 1


@pytest.mark.parametrize(("rows", "unit"), [(32, VECTORS), (4, MATRICES)])
def test_other_products_of_attention_stay_float32(rows: int, unit: str) -> None:
    found, expected, called = beside_torch(Attention, torch.rand(1, rows, 64), unit)

    np.testing.assert_allclose(found, expected, atol=0.02)
    assert not called["column_pairs"]
    assert sum(count for name, count in called.items() if "matmul" in name and "pairs" not in name) == 2


class Shared(nn.Module):
    """A product whose second factor is returned as well, and one with a matrix."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = torch.unflatten(x, 2, (2, -1)).transpose(1, 2)
        return torch.cat([heads @ heads.transpose(2, 3), heads], -1) + heads @ torch.ones(32, 1)


def test_a_factor_may_be_read_by_others() -> None:
    found, expected, called = beside_torch(Shared, torch.rand(1, 48, 64), MATRICES)

    np.testing.assert_allclose(found, expected, rtol=0.02)
    assert called["column_pairs"] == 1


@pytest.mark.parametrize(
    ("shapes", "is_paired"),
    [
        (((2, 32, 16), (2, 16, 32)), True),
        (((2, 8, 64), (2, 64, 8)), True),
        (((2, 32, 15), (2, 15, 32)), False),
        (((2, 7, 64), (2, 64, 32)), False),
        (((2, 32, 64), (2, 64, 7)), False),
        (((2, 3, 32, 64), (3, 64, 32)), False),  # the same second factors for both of the first
        (((32, 64), (64, 32)), False),
    ],
)
def test_products_that_tiles_would_mostly_waste_and_those_without_heads_stay_float32(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], *, is_paired: bool
) -> None:
    given = [relax.Var(name, relax.TensorType(shape, "float32")) for name, shape in zip("ab", shapes, strict=True)]
    builder = relax.BlockBuilder()
    with builder.function("main", given, {"num_input": 2}):
        with builder.dataflow():
            out = builder.emit_output(relax.op.matmul(*given))
        builder.emit_func_output(out)

    packed = pack_products(builder.get(), LANES, bf16_unit=MATRICES)

    assert any("column_pairs" in each.name_hint for each in packed.get_global_vars()) == is_paired
