"""Provides networks between convolutions and transformers: MLP-Mixer and ConvNeXt.

(arXiv:2105.01601, 2201.03545.)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from costhub.collector.zoo.layers import Classifier


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
