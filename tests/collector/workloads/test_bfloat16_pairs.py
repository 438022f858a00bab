"""Kernels of pairs of bfloat16: rounding as in torch, sums of all terms, and which kernels of a network get them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import tvm
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from costhub.collector.workloads.bfloat16_pairs import (
    pair_convolution,
    pair_product,
    paired_columns,
    paired_filters,
    paired_image,
    paired_rows,
)
from costhub.collector.workloads.packed_products import padded_rows
from costhub.dataset.tile_intrinsics import MATRICES, VECTORS
from costhub.dataset.workload import argument_shapes
from tests.relax_networks import compiled


def computed(function: Any, *inputs: np.ndarray) -> np.ndarray:
    """The last argument of a kernel after a call."""
    mod = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    (*_, (_, shape)) = argument_shapes(mod)
    tensors = [tvm.runtime.tensor(value) for value in (*inputs, np.full(shape, np.nan, np.float32))]
    tvm.compile(mod, target="llvm")(*tensors)
    return tensors[-1].numpy()


def bf16(values: np.ndarray) -> np.ndarray:
    return torch.from_numpy(values).to(torch.bfloat16).float().numpy()


def halves(pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both numbers of each pair, as float32."""
    bits = pairs.view(np.uint32)
    return (bits << 16).view(np.float32), (bits & 0xFFFF0000).view(np.float32)


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.slow
@given(st.lists(st.floats(-(2.0**127), 2.0**127, width=32, allow_subnormal=False), min_size=8, max_size=8))
def test_numbers_are_rounded_as_torch_rounds(numbers: list[float]) -> None:
    data = np.array([numbers], np.float32)

    low, high = halves(computed(ROWS, data))

    np.testing.assert_array_equal(np.concatenate([low, high], axis=1), bf16(data))


ROWS = paired_rows(1, 8)


def test_ties_go_to_the_even_number_and_infinities_stay() -> None:
    bits = np.array([[0x3F808000, 0x3F818000, 0x3F808001, 0x3F807FFF, 0x7F800000, 0xFF800000, 0x80000000, 0x00000001]])
    data = bits.astype(np.uint32).view(np.float32)

    low, high = halves(computed(ROWS, data))

    found = np.concatenate([low, high], axis=1).view(np.uint32) >> 16
    assert found.tolist() == [[0x3F80, 0x3F82, 0x3F81, 0x3F80, 0x7F80, 0xFF80, 0x8000, 0x0000]]
    assert np.isnan(halves(computed(ROWS, np.full((1, 8), np.nan, np.float32)))[0]).all()


@pytest.mark.parametrize(("rows", "depth", "columns", "lanes"), [(7, 10, 32, 16), (1, 64, 16, 8), (37, 6, 8, 4)])
def test_a_product_of_pairs_is_that_of_the_rounded_numbers(rows: int, depth: int, columns: int, lanes: int) -> None:
    data, weights = draw(rows, depth), draw(depth, columns)

    pairs = (
        computed(paired_rows(rows, depth, (padded_rows(rows), depth // 2)), data),
        computed(paired_columns(depth, columns, lanes), weights),
    )
    found = computed(pair_product((rows, columns), (padded_rows(rows), columns), depth // 2, lanes), *pairs)

    np.testing.assert_allclose(found, bf16(data) @ bf16(weights), rtol=1e-5, atol=1e-5)


def test_zeros_at_the_end_of_a_row_add_nothing() -> None:
    data, weights = draw(5, 34), draw(34, 32)

    pairs = computed(paired_rows(5, 34, (5, 32)), data), computed(paired_columns(34, 32, 16, 32), weights)

    assert [value.shape for value in pairs] == [(5, 32), (2, 32, 16)]
    found = computed(pair_product((5, 32), (5, 32), 32, 16), *pairs)
    np.testing.assert_allclose(found, bf16(data) @ bf16(weights), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("kernel", "stride", "dilation", "padding"),
    [
        ((3, 3), 1, 1, (1, 1, 1, 1)),
        ((1, 1), 2, 1, (0, 0, 0, 0)),
        ((1, 3), 1, 2, (0, 2, 1, 3)),
        ((5, 1), 2, 1, (2, 0, 0, 0)),
    ],
)
def test_a_convolution_of_pairs_is_that_of_the_rounded_numbers(
    kernel: tuple[int, int], stride: int, dilation: int, padding: tuple[int, ...]
) -> None:
    image, filters = draw(1, 2, 9, 11, 4), draw(2, 2, *kernel, 4, 8)
    top, left, bottom, right = padding

    pairs = computed(paired_image(image.shape, padding), image), computed(paired_filters(filters.shape), filters)
    convolution = pair_convolution(pairs[0].shape, pairs[1].shape, (stride,) * 2, (dilation,) * 2)
    found = computed(convolution, *pairs)

    plain = torch.from_numpy(bf16(image)).permute(0, 1, 4, 2, 3).reshape(1, 8, 9, 11)
    padded = functional.pad(plain, (left, right, top, bottom))
    weights = torch.from_numpy(bf16(filters)).permute(0, 5, 1, 4, 2, 3).reshape(16, 8, *kernel)
    expected = functional.conv2d(padded, weights, stride=stride, dilation=dilation)
    own = torch.from_numpy(found).permute(0, 1, 4, 2, 3).reshape(expected.shape)
    np.testing.assert_allclose(own, expected, rtol=1e-5, atol=1e-5)


def beside_torch(
    made: Callable[[], nn.Module], example: torch.Tensor, unit: str
) -> tuple[np.ndarray, np.ndarray, Counter[str]]:
    """What a network computes in bfloat16 and in torch, and how often it calls each kernel."""
    torch.manual_seed(0)
    network = made()
    found, called = compiled(network, example, bf16_unit=unit)
    with torch.no_grad():
        return found, network.eval()(example).numpy(), called


class Mixed(nn.Module):
    """Convolutions and dense layers with pairs, and some without: depthwise, ten outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.wide = nn.Conv2d(3, 16, 3, 2, 1), nn.Conv2d(16, 32, 3, padding=1)
        self.branch, self.depthwise = nn.Conv2d(16, 32, 1), nn.Conv2d(32, 32, 3, padding=1, groups=32)
        self.norm, self.dense, self.again = nn.BatchNorm2d(32), nn.Linear(32, 48), nn.Linear(32, 48)
        self.odd = nn.Linear(48, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.first(x))
        x = self.depthwise(functional.relu(self.norm(self.wide(x)))) + self.branch(x)
        x = x.mean((2, 3))
        return self.odd(functional.gelu(self.dense(x)) * self.again(x))


@pytest.mark.parametrize("unit", [VECTORS, MATRICES])
def test_a_network_rounds_what_its_kernels_multiply_and_nothing_else(unit: str) -> None:
    found, expected, called = beside_torch(Mixed, torch.rand(1, 3, 20, 22), unit)

    error = np.abs(found - expected).max() / np.abs(expected).max()
    assert 1e-5 < error < 0.02
    products = {name: count for name, count in called.items() if "pairs" in name}
    # The first image, and one for two convolutions whose zeros differ; the rows of both dense layers are rounded once.
    assert products.pop("image_pairs") == 3
    assert products.pop("row_pairs") == 1
    assert sum(products.values()) == 5
    assert any("convd_NCHWc_pairs_add" in name and "relu" in name for name in products)
    assert sum(count for name, count in called.items() if "depthwise" in name) == 1
    assert not any("convd_NCHWc" in name and "pairs" not in name and "depthwise" not in name for name in called)


class Branches(nn.Module):
    """Two convolutions of one image whose zeros are as many, at other sides."""

    def __init__(self) -> None:
        super().__init__()
        self.along, self.down = nn.Conv2d(32, 16, (1, 3), padding=(0, 1)), nn.Conv2d(32, 16, (3, 1), padding=(1, 0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.along(x) + self.down(x)


@pytest.mark.parametrize("unit", [VECTORS, MATRICES])
def test_each_layout_of_an_image_is_rounded_for_itself(unit: str) -> None:
    found, expected, _ = beside_torch(Branches, torch.rand(1, 32, 8, 8), unit)

    np.testing.assert_allclose(found, expected, atol=0.02)


@pytest.mark.parametrize(("depth", "pairs"), [(34, 32), (64, 32), (100, 50)])
def test_rows_are_filled_up_where_matrix_units_could_add_a_few_pairs_only(depth: int, pairs: int) -> None:
    from costhub.collector.workloads.relax_import import import_network

    mod, _ = import_network(nn.Linear(depth, 32), (torch.rand(4, depth),), lanes=16, bf16_unit=MATRICES)

    (kernel,) = (f for g, f in mod.functions.items() if g.name_hint.startswith("matmul_pairs"))
    (_, rows), *_ = argument_shapes(tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")}))
    assert list(rows) == [4, pairs]


@pytest.mark.slow
def test_without_the_precision_no_kernel_has_pairs() -> None:
    _, called = compiled(Mixed(), torch.rand(1, 3, 20, 22))

    assert not any("pairs" in name for name in called)


def test_an_odd_number_of_terms_stays_float32() -> None:
    _, called = compiled(nn.Linear(15, 32), torch.rand(4, 15), bf16_unit="vectors")

    assert not any("pairs" in name for name in called)
