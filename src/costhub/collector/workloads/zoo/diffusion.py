"""Provides a block of Stable Diffusion 1.5's U-Net (arXiv:2112.10752): convolutions, and attention to a text.

It is the first of the blocks that go down, with 320 channels. Sizes are those of the published configuration, but for
the image: 32 x 32 latent pixels are 256 x 256 of an image, a quarter of what the network was trained for.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F

from costhub.collector.workloads.zoo.transformers import attend

CHANNELS, TIME, TEXT, HEADS = 320, 1280, 768, 8
"""Channels of the image, values of the time step and of a word of the text, and heads of the attention."""


def _norm(channels: int, epsilon: float) -> nn.GroupNorm:
    return nn.GroupNorm(32, channels, epsilon)


class TimedResidual(nn.Module):
    """Two convolutions, each after normalisation and SiLU, with the time step added in between, added to the input."""

    def __init__(self, channels: int, time: int) -> None:
        super().__init__()
        self.first_norm, self.second_norm = _norm(channels, 1e-5), _norm(channels, 1e-5)
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        self.time = nn.Linear(time, channels)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """(batch, channels, height, width) and (batch, time) to the first shape."""
        y = self.first(F.silu(self.first_norm(x))) + self.time(F.silu(time))[:, :, None, None]
        added: Tensor = x + self.second(F.silu(self.second_norm(y)))
        return added


class CrossAttention(nn.Module):
    """Attention of tokens to other ones, or to themselves."""

    def __init__(self, width: int, heads: int, source: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key, self.value = (nn.Linear(source, width, bias=False) for _ in range(2))
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, source: Tensor) -> Tensor:
        """(batch, tokens, width) and (batch, others, source) to the first shape."""
        attended: Tensor = self.out(attend(self.query(x), self.key(source), self.value(source), self.heads))
        return attended


class SpatialTransformer(nn.Module):
    """Pixels as tokens, which attend to one another and to a text, and dense layers gated by GELU."""

    def __init__(self, channels: int, heads: int, text: int) -> None:
        super().__init__()
        self.norm = _norm(channels, 1e-6)
        self.enter, self.leave = nn.Conv2d(channels, channels, 1), nn.Conv2d(channels, channels, 1)
        self.norms = nn.ModuleList(nn.LayerNorm(channels) for _ in range(3))
        self.own, self.cross = CrossAttention(channels, heads, channels), CrossAttention(channels, heads, text)
        self.up, self.down = nn.Linear(channels, 8 * channels), nn.Linear(4 * channels, channels)

    def forward(self, image: Tensor, text: Tensor) -> Tensor:
        """(batch, channels, height, width) and (batch, words, text) to the first shape."""
        x = self.enter(self.norm(image)).flatten(2).transpose(1, 2)
        normed = self.norms[0](x)
        x = x + self.own(normed, normed)
        x = x + self.cross(self.norms[1](x), text)
        values, gate = self.up(self.norms[2](x)).chunk(2, dim=2)
        x = x + self.down(values * F.gelu(gate))
        added: Tensor = image + self.leave(x.transpose(1, 2).unflatten(2, image.shape[2:]))
        return added


class DownBlock(nn.Module):
    """Two residual blocks, each followed by a transformer, and a convolution that halves the image."""

    def __init__(self, channels: int, heads: int, *, time: int, text: int) -> None:
        super().__init__()
        self.residuals = nn.ModuleList(TimedResidual(channels, time) for _ in range(2))
        self.transformers = nn.ModuleList(SpatialTransformer(channels, heads, text) for _ in range(2))
        self.halve = nn.Conv2d(channels, channels, 3, 2, 1)

    def forward(self, x: Tensor, time: Tensor, text: Tensor) -> tuple[Tensor, ...]:
        """(batch, channels, height, width), (batch, time) and (batch, words, text) to three images, the last halved."""
        outputs: list[Tensor] = []
        for residual, transformer in zip(self.residuals, self.transformers, strict=True):
            x = transformer(residual(x, time), text)
            outputs.append(x)
        return *outputs, self.halve(x)


def stable_diffusion_block() -> nn.Module:
    """The first block of Stable Diffusion 1.5's U-Net."""
    return DownBlock(CHANNELS, HEADS, time=TIME, text=TEXT)
