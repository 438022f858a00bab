"""Language models: the formulas of their papers, and a cache that changes nothing."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from costhub.collector.workloads.zoo.language_models import (
    QWEN25_05B,
    SMOLLM2_135M,
    GatedDense,
    GroupedAttention,
    LanguageModel,
    LanguageModelSize,
    Places,
    RootMeanSquareNorm,
)

SMALL = LanguageModelSize(2, 24, 6, 2, 20, 50, base=100.0, epsilon=1e-5, biased=True)


def places(first: int = 0, tokens: int = 5) -> Places:
    return Places(SMALL, tokens=tokens, earlier=first)


@pytest.mark.parametrize(("size", "published"), [(SMOLLM2_135M, 134_515_008), (QWEN25_05B, 494_032_768)])
def test_whole_models_have_the_parameters_of_the_published_ones(size: LanguageModelSize, published: int) -> None:
    with torch.device("meta"):
        model = LanguageModel(size, tokens=1)

    narrow = 64 * size.shared
    attention = 2 * size.width**2 + 2 * size.width * narrow + size.biased * (size.width + 2 * narrow)
    layer = attention + 3 * size.width * size.inner + 2 * size.width
    assert size.words * size.width + size.depth * layer + size.width == published
    assert sum(parameter.numel() for parameter in model.parameters()) == published


def test_the_norm_is_torchs() -> None:
    norm, reference, x = RootMeanSquareNorm(6, 1e-3), nn.RMSNorm(6, 1e-3), torch.randn(2, 3, 6)
    nn.init.uniform_(norm.weight)
    reference.load_state_dict(norm.state_dict())

    assert torch.allclose(norm(x), reference(x), atol=1e-6)


def test_positions_turn_pairs_of_values_as_complex_numbers() -> None:
    x = torch.randn(1, 2, 5, 4)
    speeds = torch.tensor([1.0, 100.0**-0.5])
    turns = torch.exp(1j * torch.arange(3, 8)[:, None] * speeds)

    wanted = torch.complex(x[..., :2], x[..., 2:]) * turns

    found = places(first=3).turn(x)
    assert torch.allclose(found, torch.cat([wanted.real, wanted.imag], 3), atol=1e-6)


def heads(values: torch.Tensor) -> torch.Tensor:
    return values.view(1, 5, -1, 4).transpose(1, 2)


@pytest.mark.parametrize("earlier", [0, 3])
def test_attention_in_groups_is_torchs(earlier: int) -> None:
    layer, x = GroupedAttention(SMALL), torch.randn(1, 5, 24)
    past = tuple(torch.randn(1, 2, earlier, 4) for _ in range(2)) if earlier else ()
    where = places(first=earlier)

    found, key, value = layer(x, where, past)

    query = where.turn(heads(layer.query(x)))
    seen = torch.ones(5, earlier + 5, dtype=torch.bool).tril(earlier)
    mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen, enable_gqa=True)
    assert torch.allclose(found, layer.out(mixed.transpose(1, 2).reshape(1, 5, 24)), atol=1e-5)
    for new, own in ((key, where.turn(heads(layer.key(x)))), (value, heads(layer.value(x)))):
        assert torch.allclose(new[:, :, earlier:], own, atol=1e-6)
    assert key.shape == value.shape == (1, 2, earlier + 5, 4)
    assert all(torch.equal(new[:, :, :earlier], old) for new, old in zip((key, value), past, strict=False))


def test_dense_layers_are_gated() -> None:
    layer, x = GatedDense(3, 5), torch.randn(1, 2, 3)
    gate = x @ layer.gate.weight.T

    wanted = (gate / (1 + torch.exp(-gate)) * (x @ layer.up.weight.T)) @ layer.down.weight.T

    assert torch.allclose(layer(x), wanted, atol=1e-6)


def test_a_token_after_a_cache_gets_the_scores_of_the_whole_text() -> None:
    torch.manual_seed(0)
    whole, tokens = LanguageModel(SMALL, tokens=6), torch.randint(50, (1, 6))
    first, next_one = LanguageModel(SMALL, tokens=5), LanguageModel(SMALL, tokens=1, earlier=5)
    for part in (first, next_one):
        part.load_state_dict(whole.state_dict())

    _, *cache = first(tokens[:, :5])
    found, *longer = next_one(tokens[:, 5:], *cache)

    wanted, *wanted_cache = whole(tokens)
    assert torch.allclose(found, wanted, atol=1e-5)
    assert len(longer) == len(wanted_cache) == 2 * SMALL.depth
    for one, other in zip(longer, wanted_cache, strict=True):
        assert torch.allclose(one, other, atol=1e-5)
    assert not torch.allclose(whole(tokens.flip(1))[0], wanted, atol=math.sqrt(1e-5))
