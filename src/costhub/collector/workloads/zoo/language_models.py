"""Provides small language models as they are served: a prompt at once, then one token after those in a cache.

SmolLM2-135M (arXiv:2502.02737) and Qwen2.5-0.5B (arXiv:2412.15115), in the sizes of their published configurations:
rotary positions (arXiv:2104.09864), queries in groups that share a key and a value (2305.13245), root-mean-square
normalisation (1910.07467) and SwiGLU (2002.05202). The output layer shares the weights of the embedding. Of Qwen's 24
layers the zoo has 6, since all are alike and the weights of 24 take 2 GB; SmolLM2 has all 30.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

PROMPT = 128
"""Tokens of a prompt, and tokens that the next one attends to, itself among them."""


@dataclass(frozen=True)
class LanguageModelSize:
    """The sizes of a model, as its configuration gives them."""

    depth: int
    width: int
    heads: int
    """Heads of the queries."""
    shared: int
    """Heads of the keys and values."""
    inner: int
    """Values between the dense layers."""
    words: int
    base: float
    """Of the angles by which positions are turned."""
    epsilon: float
    biased: bool
    """Whether queries, keys and values have a bias."""

    @property
    def head_width(self) -> int:
        """Values of one head."""
        return self.width // self.heads


SMOLLM2_135M = LanguageModelSize(30, 576, 9, 3, 1536, 49152, base=1e5, epsilon=1e-5, biased=False)
QWEN25_05B = LanguageModelSize(24, 896, 14, 2, 4864, 151936, base=1e6, epsilon=1e-6, biased=True)


class RootMeanSquareNorm(nn.Module):
    """Divides by the root mean square, without subtracting the mean."""

    def __init__(self, width: int, epsilon: float) -> None:
        super().__init__()
        self.weight, self.epsilon = nn.Parameter(torch.ones(width)), epsilon

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) to the same."""
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon) * self.weight


class Places(nn.Module):
    """What attention knows of the places of tokens: the angles by which they are turned, and who may see whom.

    Args:
        size: Of the model.
        tokens: That go in.
        earlier: Tokens in the cache; every token sees them all.
    """

    cosine: Tensor
    sine: Tensor
    mask: Tensor

    def __init__(self, size: LanguageModelSize, *, tokens: int, earlier: int) -> None:
        super().__init__()
        speeds = size.base ** -(torch.arange(0, size.head_width, 2) / size.head_width)
        angles = torch.outer(torch.arange(earlier, earlier + tokens).float(), speeds).repeat(1, 2)
        later = torch.full((tokens, earlier + tokens), -1e9).triu(earlier + 1)
        # They follow from the sizes, so they are not parameters. The mask is repeated for each query of a group.
        values = {"cosine": angles.cos(), "sine": angles.sin(), "mask": later.repeat(size.heads // size.shared, 1)}
        for name, value in values.items():
            self.register_buffer(name, value, persistent=False)

    def turn(self, x: Tensor) -> Tensor:
        """(batch, heads, tokens, head width) to the same; a value and that half a head further on are turned as one."""
        first, second = x.chunk(2, dim=3)
        return x * self.cosine + torch.cat([-second, first], 3) * self.sine


class GroupedAttention(nn.Module):
    """Causal attention whose keys and values serve several queries each, and may begin with those of earlier tokens."""

    def __init__(self, size: LanguageModelSize) -> None:
        super().__init__()
        self.heads, self.shared = size.heads, size.shared
        narrow = size.shared * size.head_width
        self.query = nn.Linear(size.width, size.width, bias=size.biased)
        self.key, self.value = (nn.Linear(size.width, narrow, bias=size.biased) for _ in range(2))
        self.out = nn.Linear(size.width, size.width, bias=False)

    def forward(self, x: Tensor, places: Places, past: tuple[Tensor, ...]) -> tuple[Tensor, Tensor, Tensor]:
        """(batch, tokens, width) and none or two of (batch, shared, earlier, head width) to output and cache."""
        tokens = x.shape[1]
        query = places.turn(self.query(x).unflatten(2, (self.heads, -1)).transpose(1, 2))
        key, value = (layer(x).unflatten(2, (self.shared, -1)).transpose(1, 2) for layer in (self.key, self.value))
        key = places.turn(key)
        if past:
            key, value = torch.cat([past[0], key], 2), torch.cat([past[1], value], 2)
        # All queries of a group in one product with its keys, rather than a copy of the keys for each query.
        grouped = query.reshape(x.shape[0], self.shared, -1, query.shape[3])
        scores = grouped @ key.transpose(2, 3) / (query.shape[-1] ** 0.5)
        if tokens > 1:
            scores = scores + places.mask
        mixed = (torch.softmax(scores, -1) @ value).unflatten(2, (-1, tokens)).flatten(1, 2)
        return self.out(mixed.transpose(1, 2).flatten(2)), key, value


class GatedDense(nn.Module):
    """SwiGLU: two dense layers side by side, one of which scales the other, and a third."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, tokens, width) to the same."""
        narrowed: Tensor = self.down(F.silu(self.gate(x)) * self.up(x))
        return narrowed


class DecoderLayer(nn.Module):
    """Attention and dense layers, each normalised before and added to its input."""

    def __init__(self, size: LanguageModelSize) -> None:
        super().__init__()
        self.first, self.second = (RootMeanSquareNorm(size.width, size.epsilon) for _ in range(2))
        self.attention, self.dense = GroupedAttention(size), GatedDense(size.width, size.inner)

    def forward(self, x: Tensor, places: Places, past: tuple[Tensor, ...]) -> tuple[Tensor, Tensor, Tensor]:
        """As `GroupedAttention`."""
        attended, key, value = self.attention(self.first(x), places, past)
        x = x + attended
        return x + self.dense(self.second(x)), key, value


class LanguageModel(nn.Module):
    """A decoder with its cache: keys and values of every layer go in and out, one tensor each.

    Args:
        size: Of the model.
        tokens: That go in.
        earlier: Tokens in the cache that goes in.
    """

    def __init__(self, size: LanguageModelSize, *, tokens: int, earlier: int = 0) -> None:
        super().__init__()
        self.words = nn.Embedding(size.words, size.width)
        self.places = Places(size, tokens=tokens, earlier=earlier)
        self.layers = nn.ModuleList(DecoderLayer(size) for _ in range(size.depth))
        self.norm = RootMeanSquareNorm(size.width, size.epsilon)

    def forward(self, tokens: Tensor, *past: Tensor) -> tuple[Tensor, ...]:
        """(batch, tokens) of int64 and the cache to the scores (batch, words) of the next token and the new cache."""
        x = self.words(tokens)
        cache: list[Tensor] = []
        for number, layer in enumerate(self.layers):
            x, key, value = layer(x, self.places, past[2 * number : 2 * number + 2])
            cache += [key, value]
        return F.linear(self.norm(x[:, -1]), self.words.weight), *cache


def smollm2_prefill() -> nn.Module:
    """SmolLM2-135M for a prompt of 128 tokens."""
    return LanguageModel(SMOLLM2_135M, tokens=PROMPT)


def smollm2_decode() -> nn.Module:
    """SmolLM2-135M for one token after 127 others."""
    return LanguageModel(SMOLLM2_135M, tokens=1, earlier=PROMPT - 1)


def qwen25_prefill() -> nn.Module:
    """The first 6 layers of Qwen2.5-0.5B for a prompt of 128 tokens."""
    return LanguageModel(replace(QWEN25_05B, depth=6), tokens=PROMPT)


def qwen25_decode() -> nn.Module:
    """The first 6 layers of Qwen2.5-0.5B for one token after 127 others."""
    return LanguageModel(replace(QWEN25_05B, depth=6), tokens=1, earlier=PROMPT - 1)
