"""Provides convolutional networks without additions: VGG-16, SqueezeNet, DenseNet-121, GoogLeNet.

(arXiv:1409.1556, 1602.07360 version 1.1, 1608.06993, 1409.4842 with batch normalisation.)
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from costhub.collector.zoo.layers import Classifier, ConvNorm


def vgg16() -> nn.Module:
    """VGG-16, configuration D, without dropout (which does nothing in inference)."""
    layers: list[nn.Module] = []
    inputs = 3
    for depth, outputs in ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)):
        for _ in range(depth):
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU()]
            inputs = outputs
        layers.append(nn.MaxPool2d(2))
    head = (nn.Linear(512 * 7 * 7, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(7), nn.Flatten(), *head)


class Fire(nn.Module):
    """SqueezeNet's block: few channels, then windows of 1 x 1 and 3 x 3 side by side."""

    def __init__(self, inputs: int, squeezed: int, expanded: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeezed, 1)
        self.small = nn.Conv2d(squeezed, expanded, 1)
        self.large = nn.Conv2d(squeezed, expanded, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, inputs, height, width) to (batch, 2 * expanded, height, width)."""
        x = torch.relu(self.squeeze(x))
        return torch.cat([torch.relu(self.small(x)), torch.relu(self.large(x))], 1)


def squeezenet() -> nn.Module:
    """SqueezeNet 1.1."""

    def pool() -> nn.Module:
        return nn.MaxPool2d(3, 2, ceil_mode=True)

    return nn.Sequential(
        *(nn.Conv2d(3, 64, 3, stride=2), nn.ReLU(), pool()),
        *(Fire(64, 16, 64), Fire(128, 16, 64), pool()),
        *(Fire(128, 32, 128), Fire(256, 32, 128), pool()),
        *(Fire(256, 48, 192), Fire(384, 48, 192), Fire(384, 64, 256), Fire(512, 64, 256)),
        *(nn.Conv2d(512, 1000, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    )


class DenseLayer(nn.Module):
    """DenseNet's layer: what it computes is put beside what it was given."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            *(nn.BatchNorm2d(inputs), nn.ReLU(), ConvNorm(inputs, 4 * growth, 1, activation=nn.ReLU())),
            nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        """(batch, inputs, height, width) to (batch, inputs + growth, height, width)."""
        return torch.cat([x, self.body(x)], 1)


def densenet121() -> nn.Module:
    """DenseNet-121 with a growth of 32 channels."""
    growth, channels = 32, 64
    layers: list[nn.Module] = [ConvNorm(3, 64, 7, stride=2, activation=nn.ReLU()), nn.MaxPool2d(3, 2, 1)]
    for index, depth in enumerate((6, 12, 24, 16)):
        if index:
            norm = (nn.BatchNorm2d(channels), nn.ReLU())
            layers += [*norm, nn.Conv2d(channels, channels // 2, 1, bias=False), nn.AvgPool2d(2)]
            channels //= 2
        layers += [DenseLayer(channels + growth * i, growth) for i in range(depth)]
        channels += growth * depth
    return nn.Sequential(*layers, nn.BatchNorm2d(channels), nn.ReLU(), Classifier(channels))


class Inception(nn.Module):
    """GoogLeNet's block: four branches side by side; the third has windows of 3 x 3 for the paper's 5 x 5."""

    def __init__(
        self, inputs: int, one: int, three: tuple[int, int], five: tuple[int, int], pool: int
    ) -> None:
        super().__init__()

        def conv(before: int, after: int, kernel: int) -> nn.Module:
            return ConvNorm(before, after, kernel, activation=nn.ReLU())

        self.branches = nn.ModuleList(
            [
                conv(inputs, one, 1),
                nn.Sequential(conv(inputs, three[0], 1), conv(*three, 3)),
                nn.Sequential(conv(inputs, five[0], 1), conv(*five, 3)),
                nn.Sequential(nn.MaxPool2d(3, 1, 1), conv(inputs, pool, 1)),
            ]
        )

    def forward(self, x: Tensor) -> Tensor:
        """(batch, inputs, height, width) to the branches' channels, one after the other."""
        return torch.cat([branch(x) for branch in self.branches], 1)


def googlenet() -> nn.Module:
    """GoogLeNet without its auxiliary classifiers, which do nothing in inference."""

    def pool() -> nn.Module:
        return nn.MaxPool2d(3, 2, ceil_mode=True)

    return nn.Sequential(
        *(ConvNorm(3, 64, 7, stride=2, activation=nn.ReLU()), pool()),
        *(ConvNorm(64, 64, 1, activation=nn.ReLU()), ConvNorm(64, 192, 3, activation=nn.ReLU()), pool()),
        *(Inception(192, 64, (96, 128), (16, 32), 32), Inception(256, 128, (128, 192), (32, 96), 64), pool()),
        Inception(480, 192, (96, 208), (16, 48), 64),
        Inception(512, 160, (112, 224), (24, 64), 64),
        Inception(512, 128, (128, 256), (24, 64), 64),
        Inception(512, 112, (144, 288), (32, 64), 64),
        *(Inception(528, 256, (160, 320), (32, 128), 128), nn.MaxPool2d(2, 2, ceil_mode=True)),
        Inception(832, 256, (160, 320), (32, 128), 128),
        Inception(832, 384, (192, 384), (48, 128), 128),
        Classifier(1024),
    )
