"""Products of attention that read heads where they lie: the same outputs, and no copies but that of the keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from costhub.collector.workloads.attention_products import _reshaped
from tests.relax_networks import compiled


class Separate(nn.Module):
    """Queries, keys and values of layers of their own, as in BERT."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(32, 32) for _ in range(4))

    def heads(self, layer: nn.Linear, x: torch.Tensor) -> torch.Tensor:
        return layer(x).reshape(1, 10, 4, 8).transpose(1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (self.heads(layer, x) for layer in (self.q, self.k, self.v))
        p = functional.softmax(q @ k.transpose(2, 3) / 8**0.5, dim=-1)
        return self.out((p @ v).transpose(1, 2).reshape(1, 10, 32))


class Joint(Separate):
    """One layer for all three, and torch's own attention, as in ViT."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(32, 96)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).reshape(1, 10, 3, 4, 8).permute(2, 0, 3, 1, 4).unbind(0)
        return self.out(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(1, 10, 32))


class Seen(Separate):
    """A product that is used in both orders."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k = self.heads(self.q, x), self.heads(self.k, x)
        p = q @ k.transpose(2, 3)
        return p.transpose(1, 2).sum(2) + p.sum(2).sum(1)


class Apart(Separate):
    """A result whose last axis does not stay the last one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.heads(self.q, x) @ self.heads(self.k, x).transpose(2, 3)).transpose(2, 3)


@pytest.mark.parametrize("network", [Separate, Joint, Seen, Apart])
def test_outputs_are_those_of_torch(network: type[nn.Module]) -> None:
    torch.manual_seed(0)
    net, example = network(), torch.rand(1, 10, 32)

    found, _ = compiled(net, example, lanes=8)

    with torch.no_grad():
        np.testing.assert_allclose(found, net(example).numpy(), atol=1e-5)


@pytest.mark.parametrize("network", [Separate, Joint])
def test_only_the_keys_are_copied(network: type[nn.Module]) -> None:
    _, called = compiled(network(), torch.rand(1, 10, 32), lanes=8)

    assert [name for name in called.elements() if "transpose" in name] == ["transpose_heads"]
    assert sum(times for name, times in called.items() if "matmul_heads" in name) == 2
    assert not any("reshape_reshape" in name for name in called)


@pytest.mark.parametrize("network", [Seen, Apart])
def test_what_is_read_in_another_order_too_is_computed_once(network: type[nn.Module]) -> None:
    _, called = compiled(network(), torch.rand(1, 10, 32), lanes=8)

    assert sum(times for name, times in called.items() if "matmul_heads" in name) == 1


SHAPES = st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4)


@given(SHAPES, st.data())
def test_an_index_of_a_reshaped_tensor_is_that_of_the_same_number(source: list[int], data: Any) -> None:
    total = int(np.prod(source))
    first = data.draw(st.sampled_from([n for n in range(1, total + 1) if total % n == 0]))
    target = data.draw(st.permutations([first, total // first, 1]))
    numbers = np.arange(total)

    at = _reshaped(source, target)

    for index in np.ndindex(*target):
        assert numbers.reshape(source)[tuple(at(index))] == numbers.reshape(target)[index]
