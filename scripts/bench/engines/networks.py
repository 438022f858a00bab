"""Provides ENGINE_NETWORKS and build_network: networks with random weights, and GPT-2 with a cache among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from costhub.collector.workloads.zoo.networks import NETWORKS, find_network, with_statistics
from costhub.collector.workloads.zoo.transformers import convnext_tiny

SEED = 0
Network = tuple[nn.Module, tuple[Tensor, ...]]
"""A network in evaluation mode, and an example of its inputs."""


@dataclass(frozen=True)
class GptSize:
    """The sizes of a GPT-2; the defaults are those of the smallest one that was published."""

    depth: int = 12
    width: int = 768
    heads: int = 12
    words: int = 50257
    positions: int = 1024


class CachedAttention(nn.Module):
    """Causal attention whose keys and values are outputs, and may begin with those of earlier tokens."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.joined, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor, past: tuple[Tensor, ...]) -> tuple[Tensor, Tensor, Tensor]:
        """(batch, tokens, width) and none or two of (batch, heads, earlier, width / heads) to output and cache."""
        query, key, value = (
            part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in self.joined(x).chunk(3, dim=2)
        )
        if past:
            key, value = torch.cat([past[0], key], 2), torch.cat([past[1], value], 2)
        scores = query @ key.transpose(2, 3) / (query.shape[-1] ** 0.5)
        if x.shape[1] > 1:
            scores = scores + torch.full((x.shape[1], x.shape[1]), -1e9, device=x.device).triu(1)
        mixed = (torch.softmax(scores, -1) @ value).transpose(1, 2).flatten(2)
        return self.out(mixed), key, value


class CachedLayer(nn.Module):
    """GPT-2's layer: attention and two dense layers, each normalised before and added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = CachedAttention(width, heads)
        gelu = nn.GELU(approximate="tanh")
        self.dense = nn.Sequential(nn.Linear(width, 4 * width), gelu, nn.Linear(4 * width, width))

    def forward(self, x: Tensor, past: tuple[Tensor, ...]) -> tuple[Tensor, Tensor, Tensor]:
        """As `CachedAttention`."""
        attended, key, value = self.attention(self.first(x), past)
        x = x + attended
        return x + self.dense(self.second(x)), key, value


class CachedGpt(nn.Module):
    """GPT-2 as it is served: the cache of keys and values goes in and out, one tensor each for every layer.

    Args:
        size: Of the network.
        earlier: Tokens in the cache that goes in.
    """

    def __init__(self, size: GptSize, earlier: int) -> None:
        super().__init__()
        self.earlier = earlier
        self.words = nn.Embedding(size.words, size.width)
        self.positions = nn.Embedding(size.positions, size.width)
        self.layers = nn.ModuleList(CachedLayer(size.width, size.heads) for _ in range(size.depth))
        self.norm = nn.LayerNorm(size.width)

    def forward(self, tokens: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        """(batch, tokens) of int64 and the cache to the scores (batch, words) of the next token and the new cache."""
        end = self.earlier + tokens.shape[1]
        x = self.words(tokens) + self.positions.weight[self.earlier : end]
        cache: list[Tensor] = []
        for number, layer in enumerate(self.layers):
            x, key, value = layer(x, past[2 * number : 2 * number + 2])
            cache += [key, value]
        return F.linear(self.norm(x[:, -1]), self.words.weight), *cache


def gpt(size: GptSize, *, tokens: int, earlier: int) -> Network:
    """GPT-2 for so many tokens after so many earlier ones."""
    generator = torch.Generator().manual_seed(SEED)
    shape = (1, size.heads, earlier, size.width // size.heads)
    past = [torch.randn(shape, generator=generator) for _ in range(2 * size.depth)] if earlier else []
    given = torch.randint(min(1000, size.words), (1, tokens), generator=generator)
    return CachedGpt(size, earlier), (given, *past)


def _convnext() -> Network:
    return convnext_tiny(), (torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(SEED)),)


ADDED: Mapping[str, Callable[[], Network]] = {
    "convnext_tiny_224": _convnext,
    "gpt2_prefill": partial(gpt, GptSize(), tokens=128, earlier=0),
    "gpt2_decode": partial(gpt, GptSize(), tokens=1, earlier=128),
}
"""Networks that the zoo lacks, or has with smaller inputs."""

ENGINE_NETWORKS = (
    *("resnet18", "resnet50", "mobilenet_v2", "efficientnet_b0", "bert_base", "vit_s16"),
    *ADDED,
)
"""What the benchmark measures by default."""
_TITLES = {
    "resnet18": "ResNet-18",
    "resnet50": "ResNet-50",
    "mobilenet_v2": "MobileNet-V2",
    "efficientnet_b0": "EfficientNet-B0",
    "bert_base": "BERT-base, 128 tokens",
    "vit_s16": "ViT-S/16",
    "convnext_tiny_224": "ConvNeXt-T",
    "gpt2_prefill": "GPT-2, 128 tokens",
    "gpt2_decode": "GPT-2, 1 token after 128",
}


def title_of_network(name: str) -> str:
    """The name of a network in tables."""
    return _TITLES.get(name) or NETWORKS[name].label


def check_networks(names: tuple[str, ...]) -> None:
    """Refuses names that neither the zoo nor this file has.

    Raises:
        UnknownNameError: There is no such network.
    """
    for name in names:
        if name not in ADDED:
            find_network(name)


def build_network(name: str) -> Network:
    """A network by its name here or in the zoo, always with the same weights and inputs.

    Raises:
        UnknownNameError: There is no such network.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        if name in ADDED:
            network, inputs = ADDED[name]()
            return with_statistics(network, inputs), inputs
        return find_network(name).build(seed=SEED), find_network(name).examples(seed=SEED)
