"""Provides transformers and mixers: BERT, MiniLM, GPT-2, Whisper's encoder, ViT, MLP-Mixer and ConvNeXt.

(arXiv:1810.04805 and 1908.08962, 2002.10957, 2212.04356, 2010.11929, 2105.01601, 2201.03545.)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from costhub.collector.workloads.zoo.convolutional import Classifier


def attend(query: Tensor, key: Tensor, value: Tensor, heads: int, mask: Tensor | None = None) -> Tensor:
    """Multi-head attention without its dense layers.

    Args:
        query: (batch, tokens, width).
        key: (batch, others, width).
        value: (batch, others, width).
        heads: Number of heads, which share the width out.
        mask: (tokens, others), added to the scores of every head.

    Returns:
        (batch, tokens, width).
    """
    query, key, value = (torch.unflatten(x, 2, (heads, -1)).transpose(1, 2) for x in (query, key, value))
    scores = query @ key.transpose(2, 3) / (query.shape[-1] ** 0.5)
    if mask is not None:
        scores = scores + mask
    return (torch.softmax(scores, -1) @ value).transpose(1, 2).flatten(2)


class Attention(nn.Module):
    """Multi-head self-attention with one dense layer for queries, keys and values each."""

    def __init__(self, width: int, heads: int, *, causal: bool = False, key_bias: bool = True) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.query, self.key, self.value = (nn.Linear(width, width, bias=bias) for bias in (True, key_bias, True))
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, tokens, width) to the same."""
        tokens = x.shape[1]
        later = torch.full((tokens, tokens), -1e9, device=x.device).triu(1) if self.causal else None
        attended: Tensor = self.out(attend(self.query(x), self.key(x), self.value(x), self.heads, later))
        return attended


class TransformerLayer(nn.Module):
    """Attention and two dense layers, each added to its input; normalised before them, or after the sum."""

    def __init__(self, width: int, heads: int, *, causal: bool, norm_first: bool, key_bias: bool = True) -> None:
        super().__init__()
        self.attention = Attention(width, heads, causal=causal, key_bias=key_bias)
        self.dense = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.norm_first = norm_first

    def forward(self, x: Tensor) -> Tensor:
        """(batch, tokens, width) to the same."""
        if self.norm_first:
            x = x + self.attention(self.first(x))
            y: Tensor = x + self.dense(self.second(x))
        else:
            x = self.first(x + self.attention(x))
            y = self.second(x + self.dense(x))
        return y


class BertEncoder(nn.Module):
    """BERT's embeddings and its layers."""

    def __init__(self, depth: int, width: int, heads: int) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(30522, width), nn.Embedding(512, width)
        self.segments = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.Sequential(
            *(TransformerLayer(width, heads, causal=False, norm_first=False) for _ in range(depth))
        )

    def encode(self, tokens: Tensor) -> Tensor:
        """(batch, tokens) of int64 to (batch, tokens, width)."""
        embedded = self.words(tokens) + self.positions.weight[: tokens.shape[1]] + self.segments.weight[0]
        encoded: Tensor = self.layers(self.norm(embedded))
        return encoded


class Bert(BertEncoder):
    """BERT's encoder and its pooler."""

    def __init__(self, depth: int, width: int, heads: int) -> None:
        super().__init__(depth, width, heads)
        self.pooler = nn.Linear(width, width)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, tokens) of int64 to (batch, tokens, width) and, of the first token, (batch, width)."""
        encoded = self.encode(tokens)
        return encoded, torch.tanh(self.pooler(encoded[:, 0]))


def bert_base() -> nn.Module:
    """BERT-base: 12 layers, 768 wide."""
    return Bert(12, 768, 12)


def bert_small() -> nn.Module:
    """BERT-small: 4 layers, 512 wide."""
    return Bert(4, 512, 8)


def bert_tiny() -> nn.Module:
    """BERT-tiny: 2 layers, 128 wide."""
    return Bert(2, 128, 2)


class SentenceEmbedding(BertEncoder):
    """One vector of length 1 for each text: the mean of its tokens, of which none is padding."""

    def forward(self, tokens: Tensor) -> Tensor:
        """(batch, tokens) of int64 to (batch, width)."""
        return F.normalize(self.encode(tokens).mean(1), dim=1)


def minilm_l6() -> nn.Module:
    """MiniLM-L6, 384 wide, as all-MiniLM-L6-v2 uses it: without BERT's pooler, whose place the mean takes."""
    return SentenceEmbedding(6, 384, 12)


def minilm_l6_batch8() -> nn.Module:
    """`minilm_l6` for eight texts at once."""
    return minilm_l6()


class Gpt(nn.Module):
    """GPT-2's decoder; its output layer shares the weights of the embedding."""

    def __init__(self, depth: int, width: int, heads: int) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(50257, width), nn.Embedding(1024, width)
        self.layers = nn.Sequential(
            *(TransformerLayer(width, heads, causal=True, norm_first=True) for _ in range(depth))
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tensor) -> Tensor:
        """(batch, tokens) of int64 to (batch, vocabulary): the scores of the next token."""
        x = self.layers(self.words(tokens) + self.positions.weight[: tokens.shape[1]])
        return F.linear(self.norm(x[:, -1]), self.words.weight)


def gpt2() -> nn.Module:
    """GPT-2, the smallest: 12 layers, 768 wide."""
    return Gpt(12, 768, 12)


class SpeechEncoder(nn.Module):
    """Whisper's encoder: two convolutions over time, the second of which halves it, and layers on what they give."""

    def __init__(self, depth: int, width: int, heads: int, *, bands: int = 80, tokens: int = 1500) -> None:
        super().__init__()
        self.first, self.second = nn.Conv1d(bands, width, 3, 1, 1), nn.Conv1d(width, width, 3, 2, 1)
        self.positions = nn.Parameter(self._waves(tokens, width), requires_grad=False)
        self.layers = nn.Sequential(
            *(TransformerLayer(width, heads, causal=False, norm_first=True, key_bias=False) for _ in range(depth))
        )
        self.norm = nn.LayerNorm(width)

    @staticmethod
    def _waves(tokens: int, width: int) -> Tensor:
        """Sines and cosines of positions at speeds from 1 down to 1 / 10,000 (arXiv:1706.03762)."""
        speeds = 1e-4 ** (torch.arange(width // 2) / (width // 2 - 1))
        angles = torch.outer(torch.arange(tokens).float(), speeds)
        return torch.cat([angles.sin(), angles.cos()], 1)

    def forward(self, bands: Tensor) -> Tensor:
        """(batch, bands, 2 * tokens) to (batch, tokens, width)."""
        x = F.gelu(self.second(F.gelu(self.first(bands)))).transpose(1, 2)
        encoded: Tensor = self.norm(self.layers(x + self.positions))
        return encoded


def whisper_tiny_encoder() -> nn.Module:
    """The encoder of Whisper tiny: 4 layers, 384 wide, for 30 seconds of speech."""
    return SpeechEncoder(4, 384, 6)


class VisionTransformer(nn.Module):
    """ViT: an encoder of image patches; the classifier reads the token put before them."""

    def __init__(self, pixels: int, patch: int, *, depth: int, width: int, heads: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.zeros(1, (pixels // patch) ** 2 + 1, width))
        self.layers = nn.Sequential(
            *(TransformerLayer(width, heads, causal=False, norm_first=True) for _ in range(depth))
        )
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, image: Tensor) -> Tensor:
        """(batch, 3, pixels, pixels) to (batch, 1000)."""
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        scores: Tensor = self.head(self.norm(self.layers(x))[:, 0])
        return scores


def vit_b16() -> nn.Module:
    """ViT-B/16 for 224 x 224 pixels."""
    return VisionTransformer(224, 16, depth=12, width=768, heads=12)


def vit_s16() -> nn.Module:
    """ViT-S/16 for 224 x 224 pixels: as ViT-B/16, 384 wide (arXiv:2012.12877)."""
    return VisionTransformer(224, 16, depth=12, width=384, heads=6)


class MixerLayer(nn.Module):
    """Two dense layers over the patches, then two over the channels."""

    def __init__(self, patches: int, width: int, inner: tuple[int, int]) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens = nn.Sequential(nn.Linear(patches, inner[0]), nn.GELU(), nn.Linear(inner[0], patches))
        self.channels = nn.Sequential(nn.Linear(width, inner[1]), nn.GELU(), nn.Linear(inner[1], width))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, patches, width) to the same."""
        x = x + self.tokens(self.first(x).transpose(1, 2)).transpose(1, 2)
        mixed: Tensor = x + self.channels(self.second(x))
        return mixed


class Mixer(nn.Module):
    """MLP-Mixer on patches of 16 x 16 pixels."""

    def __init__(self, depth: int, width: int, inner: tuple[int, int]) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.layers = nn.Sequential(*(MixerLayer(196, width, inner) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, image: Tensor) -> Tensor:
        """(batch, 3, 224, 224) to (batch, 1000)."""
        x = self.layers(self.patches(image).flatten(2).transpose(1, 2))
        scores: Tensor = self.head(self.norm(x).mean(1))
        return scores


def mixer_s16() -> nn.Module:
    """MLP-Mixer S/16: 8 layers, 512 wide."""
    return Mixer(8, 512, (256, 2048))


class ChannelNorm(nn.LayerNorm):
    """Layer normalisation over the channels of each pixel."""

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, height, width) to the same."""
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNextBlock(nn.Module):
    """A depthwise 7 x 7 window, then two dense layers over the channels of each pixel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.window = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.dense = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, width, height, width) to the same."""
        y = self.dense(self.norm(self.window(x).permute(0, 2, 3, 1)))
        added: Tensor = x + (y * self.scale).permute(0, 3, 1, 2)
        return added


def convnext_tiny() -> nn.Module:
    """ConvNeXt-T."""
    layers: list[nn.Module] = [nn.Conv2d(3, 96, 4, 4), ChannelNorm(96, eps=1e-6)]
    for stage, depth in enumerate((3, 3, 9, 3)):
        width = 96 << stage
        if stage:
            layers += [ChannelNorm(width // 2, eps=1e-6), nn.Conv2d(width // 2, width, 2, 2)]
        layers += [ConvNextBlock(width) for _ in range(depth)]
    return nn.Sequential(*layers, ChannelNorm(768, eps=1e-6), Classifier(768))
