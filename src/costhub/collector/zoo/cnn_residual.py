"""Provides the residual networks: ResNet-18 and -50, ResNeXt-50 (arXiv:1512.03385, 1611.05431)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from costhub.collector.zoo.layers import Classifier, ConvNorm


class Block(nn.Module):
    """A few convolutions, added to their input."""

    def __init__(self, body: nn.Module, shortcut: nn.Module) -> None:
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, height, width), the last two divided by the stride."""
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet18() -> nn.Module:
    """ResNet-18: two 3 x 3 convolutions in each block."""
    return _resnet((2, 2, 2, 2), expansion=1)


def resnet50() -> nn.Module:
    """ResNet-50 with the stride in the 3 x 3 convolution, as most implementations have it."""
    return _resnet((3, 4, 6, 3), expansion=4)


def resnext50() -> nn.Module:
    """ResNeXt-50 32x4d: ResNet-50 with 3 x 3 convolutions in 32 groups of 4 channels."""
    return _resnet((3, 4, 6, 3), expansion=4, groups=32, width=4)


def _resnet(depths: tuple[int, ...], *, expansion: int, groups: int = 1, width: int = 64) -> nn.Module:
    layers: list[nn.Module] = [ConvNorm(3, 64, 7, stride=2, activation=nn.ReLU()), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, depth in enumerate(depths):
        planes = 64 << stage
        for index in range(depth):
            stride = 2 if stage and not index else 1
            inner = planes * width // 64 * groups
            layers.append(_block(inputs, inner, planes * expansion, stride, groups, bottleneck=expansion > 1))
            inputs = planes * expansion
    return nn.Sequential(*layers, Classifier(inputs))


def _block(inputs: int, inner: int, outputs: int, stride: int, groups: int, *, bottleneck: bool) -> Block:
    if bottleneck:
        body = nn.Sequential(
            ConvNorm(inputs, inner, 1, activation=nn.ReLU()),
            ConvNorm(inner, inner, 3, stride=stride, groups=groups, activation=nn.ReLU()),
            ConvNorm(inner, outputs, 1),
        )
    else:
        body = nn.Sequential(
            ConvNorm(inputs, outputs, 3, stride=stride, activation=nn.ReLU()), ConvNorm(outputs, outputs, 3)
        )
    same = stride == 1 and inputs == outputs
    return Block(body, nn.Identity() if same else ConvNorm(inputs, outputs, 1, stride=stride))
