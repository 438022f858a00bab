"""Products with packed weights: the same outputs, which products are packed, and what is fused with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import tvm
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from costhub.collector.workloads.packed_products import packed_product, padded_rows
from tests.relax_networks import compiled


class Perceptron(nn.Module):
    """Dense layers that can be packed, and products that cannot: of activations, and of an odd number of outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow, self.odd = nn.Linear(16, 32), nn.Linear(32, 16), nn.Linear(16, 9)
        self.norm = nn.LayerNorm(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.narrow(functional.gelu(self.wide(self.norm(x))))
        return self.odd((x @ x.transpose(1, 2) @ x).mean(1))


class Heads(nn.Module):
    """A layer whose outputs are split, where rows do not stay whole."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.layer(x).reshape(2, 10, 4, 8)) * 2


class Attention(nn.Module):
    """Two products of activations around a softmax, and what torch.export puts between them."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = self.layer(x[:1]).reshape(1, 10, 4, 8).transpose(1, 2)
        return functional.softmax(heads @ heads.transpose(2, 3) / 8, dim=-1) @ heads


class Joint(nn.Module):
    """Queries, keys and values of one layer, and torch's own attention, as in ViT."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).reshape(2, 10, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
        return self.out(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(2, 10, 16))


class Broadcast(nn.Module):
    """Operands beside a dense layer that are neither of its shape nor the same for every row."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(16, 16), nn.LayerNorm((10, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.layer(x) * x[:, :1]) + self.layer(x) * 0.5 + x[:1, :, :1]


class Gate(nn.Module):
    """A column of numbers, one for each row, that a wider tensor is multiplied by."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(self.layer(x))


@pytest.mark.parametrize("network", [Perceptron, Heads, Attention, Joint, Broadcast, Gate])
@pytest.mark.parametrize("lanes", [4, 16])
def test_outputs_are_those_of_torch(network: type[nn.Module], lanes: int) -> None:
    torch.manual_seed(0)
    net, example = network(), torch.rand(2, 10, 16)

    found, _ = compiled(net, example, lanes)

    with torch.no_grad():
        np.testing.assert_allclose(found, net(example).numpy(), atol=1e-5)


def test_weights_are_packed_where_vectors_divide_their_outputs() -> None:
    _, called = compiled(Perceptron(), torch.rand(2, 10, 16))

    assert sum(times for name, times in called.items() if "matmul_packed" in name) == 2
    assert sum(times for name, times in called.items() if "matmul" in name and "packed" not in name) == 3
    assert not any("layout_transform" in name for name in called)


class Words(nn.Module):
    """Outputs that vectors divide but for a few."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 62)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x[:, -1])


def test_a_few_columns_are_added_where_vectors_nearly_divide_the_outputs() -> None:
    net, example = Words(), torch.rand(2, 10, 16)

    found, called = compiled(net, example)

    np.testing.assert_allclose(found, net(example).detach().numpy(), atol=1e-5)
    assert called["fused_matmul_packed_strided_slice_add"] == 1
    assert not any("pad" in name for name in called)


def test_what_follows_a_dense_layer_is_fused_with_it() -> None:
    _, called = compiled(Perceptron(), torch.rand(2, 10, 16))

    assert called["fused_matmul_packed_add_gelu"] == 1
    assert called["fused_matmul_packed_add_add"] == 1
    assert called["layer_norm"] == 1


def test_nothing_lies_between_the_products_of_attention_and_the_softmax() -> None:
    _, called = compiled(Attention(), torch.rand(2, 10, 16))

    assert called["fused_matmul_divide"] == 1
    assert called["softmax"] == 1
    assert not any("broadcast" in name for name in called)


@given(st.integers(1, 3000))
def test_few_rows_are_added_and_tiles_of_them_fit(rows: int) -> None:
    padded = padded_rows(rows)

    assert rows <= padded <= rows + 5
    assert rows <= 14 or any(padded % tile == 0 for tile in range(6, 15))


@pytest.mark.slow
@given(rows=st.integers(1, 40), depth=st.integers(1, 20), chunks=st.integers(1, 4), lanes=st.sampled_from([4, 8, 16]))
def test_the_kernel_multiplies(rows: int, depth: int, chunks: int, lanes: int) -> None:
    draw = np.random.default_rng(0)
    data, weights = (
        draw.standard_normal(shape).astype("float32") for shape in ((rows, depth), (depth, chunks * lanes))
    )
    packed = np.ascontiguousarray(weights.reshape(depth, chunks, lanes).transpose(1, 0, 2))
    kernel = packed_product(rows, depth, chunks * lanes, lanes).with_attr("global_symbol", "main")
    tensors: list[Any] = [
        tvm.runtime.tensor(value) for value in (data, packed, np.zeros((rows, chunks * lanes), "float32"))
    ]

    tvm.compile(tvm.IRModule({"main": kernel}), target=tvm.target.Target({"kind": "llvm", "num-cores": 1}))(*tensors)

    np.testing.assert_allclose(tensors[-1].numpy(), data @ weights, rtol=1e-4, atol=1e-5)
