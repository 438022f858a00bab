"""Provides networks with windows in one and in three dimensions: R3D-18, and a speech recogniser.

(arXiv:1711.11248; arXiv:1904.03288, QuartzNet's kind of layers.)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def _conv3d(inputs: int, outputs: int, kernel: int, stride: int) -> nn.Sequential:
    padding = (kernel - 1) // 2
    conv = nn.Conv3d(inputs, outputs, kernel, stride, padding, bias=False)
    return nn.Sequential(conv, nn.BatchNorm3d(outputs))


class Block3d(nn.Module):
    """Two 3 x 3 x 3 convolutions, added to their input."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = _conv3d(inputs, outputs, 3, stride), _conv3d(outputs, outputs, 3, 1)
        self.shortcut = nn.Identity() if inputs == outputs else _conv3d(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, frames, height, width), the last three divided by the stride."""
        return torch.relu(self.second(torch.relu(self.first(x))) + self.shortcut(x))


def r3d_18() -> nn.Module:
    """R3D-18: ResNet-18 with windows in three dimensions, 400 classes."""
    stem = nn.Conv3d(3, 64, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False)
    layers: list[nn.Module] = [stem, nn.BatchNorm3d(64), nn.ReLU()]
    for inputs, outputs in ((64, 64), (64, 128), (128, 256), (256, 512)):
        layers += [Block3d(inputs, outputs, 1 if inputs == outputs else 2), Block3d(outputs, outputs, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(512, 400))


class SpeechBlock(nn.Module):
    """Depthwise and pointwise windows in time, added to their input."""

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        window = nn.Conv1d(channels, channels, kernel, padding=kernel // 2, groups=channels, bias=False)
        self.body = nn.Sequential(
            window, nn.Conv1d(channels, channels, 1, bias=False), nn.BatchNorm1d(channels)
        )

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, time) to the same."""
        return torch.relu(x + self.body(x))


def speech() -> nn.Module:
    """A recogniser of 64 mel bands: a strided window, eight separable blocks, 29 letters."""
    stem = (nn.Conv1d(64, 256, 33, 2, 16, bias=False), nn.BatchNorm1d(256), nn.ReLU())
    blocks = [SpeechBlock(256, kernel) for kernel in (33, 33, 39, 39, 51, 51, 63, 63)]
    last = (nn.Conv1d(256, 512, 1), nn.ReLU(), nn.Conv1d(512, 29, 1), nn.LogSoftmax(1))
    return nn.Sequential(*stem, *blocks, *last)
