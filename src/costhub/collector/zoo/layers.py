"""Provides the layers that several networks of the zoo share."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class ConvNorm(nn.Sequential):
    """Convolution without bias, batch normalisation and an activation; padded to keep the size at stride 1.

    Args:
        inputs: Channels.
        outputs: Channels.
        kernel: Window, in pixels, on each side.
        stride: Step of the window.
        groups: Of channels; `inputs` of them make it depthwise.
        activation: After the normalisation; none by default.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        *,
        stride: int = 1,
        groups: int = 1,
        activation: nn.Module | None = None,
    ) -> None:
        padding = (kernel - 1) // 2
        layers: list[nn.Module] = [
            nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=False),
            nn.BatchNorm2d(outputs),
        ]
        super().__init__(*layers, *([activation] if activation is not None else []))


class SqueezeExcite(nn.Module):
    """Scales each channel by what two dense layers make of all channels' means (arXiv:1709.01507)."""

    def __init__(self, channels: int, squeezed: int, *, inner: nn.Module, gate: nn.Module) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(channels, squeezed, 1)
        self.expand = nn.Conv2d(squeezed, channels, 1)
        self.inner, self.gate = inner, gate

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, height, width) to the same."""
        scale = self.inner(self.reduce(x.mean((2, 3), keepdim=True)))
        scaled: Tensor = x * self.gate(self.expand(scale))
        return scaled


class Classifier(nn.Module):
    """The mean over all pixels, then a dense layer to 1,000 classes."""

    def __init__(self, channels: int, classes: int = 1000) -> None:
        super().__init__()
        self.dense = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, ...) to (batch, classes)."""
        scores: Tensor = self.dense(torch.flatten(x, 2).mean(2))
        return scores
