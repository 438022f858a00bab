"""Provides networks for small devices: MobileNet v2 and v3, EfficientNet-B0, ShuffleNet v2.

(arXiv:1801.04381, 1905.02244, 1905.11946, 1807.11164.)
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from costhub.collector.zoo.layers import Classifier, ConvNorm, SqueezeExcite

Activation = Callable[[], nn.Module]


class InvertedResidual(nn.Module):
    """Pointwise to more channels, depthwise, pointwise to fewer; added to the input where the shapes agree.

    Args:
        inputs: Channels.
        expanded: Channels in between.
        outputs: Channels.
        kernel: The depthwise window.
        stride: Of the depthwise convolution.
        activation: Makes the activation after the first two convolutions.
        squeeze: Channel attention in between; none by default.
    """

    def __init__(
        self,
        inputs: int,
        expanded: int,
        outputs: int,
        *,
        kernel: int,
        stride: int,
        activation: Activation,
        squeeze: nn.Module | None = None,
    ) -> None:
        super().__init__()
        depthwise = ConvNorm(
            expanded, expanded, kernel, stride=stride, groups=expanded, activation=activation()
        )
        expand = [] if expanded == inputs else [ConvNorm(inputs, expanded, 1, activation=activation())]
        attention = [squeeze] if squeeze is not None else []
        self.body = nn.Sequential(*expand, depthwise, *attention, ConvNorm(expanded, outputs, 1))
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """(batch, inputs, height, width) to (batch, outputs, height / stride, width / stride)."""
        y: Tensor = self.body(x)
        return x + y if self.adds else y


def mobilenet_v2() -> nn.Module:
    """MobileNet v2 at width 1."""
    layers: list[nn.Module] = [ConvNorm(3, 32, 3, stride=2, activation=nn.ReLU6())]
    inputs = 32
    table = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2))
    for factor, outputs, repeats, stride in (*table, (6, 320, 1, 1)):
        for i in range(repeats):
            step = 1 if i else stride
            layers.append(
                InvertedResidual(inputs, inputs * factor, outputs, kernel=3, stride=step, activation=nn.ReLU6)
            )
            inputs = outputs
    return nn.Sequential(*layers, ConvNorm(320, 1280, 1, activation=nn.ReLU6()), Classifier(1280))


# kernel, expanded, outputs, squeeze and excite, hard-swish, stride: Table 2 of the paper.
_V3_SMALL = (
    (3, 16, 16, True, False, 2),
    (3, 72, 24, False, False, 2),
    (3, 88, 24, False, False, 1),
    (5, 96, 40, True, True, 2),
    (5, 240, 40, True, True, 1),
    (5, 240, 40, True, True, 1),
    (5, 120, 48, True, True, 1),
    (5, 144, 48, True, True, 1),
    (5, 288, 96, True, True, 2),
    (5, 576, 96, True, True, 1),
    (5, 576, 96, True, True, 1),
)


def mobilenet_v3_small() -> nn.Module:
    """MobileNet v3, small, at width 1."""
    layers: list[nn.Module] = [ConvNorm(3, 16, 3, stride=2, activation=nn.Hardswish())]
    inputs = 16
    for kernel, expanded, outputs, attends, swish, stride in _V3_SMALL:
        squeezed = max(8, (expanded // 4 + 4) // 8 * 8)
        attention = SqueezeExcite(expanded, squeezed, inner=nn.ReLU(), gate=nn.Hardsigmoid())
        layers.append(
            InvertedResidual(
                *(inputs, expanded, outputs),
                kernel=kernel,
                stride=stride,
                activation=nn.Hardswish if swish else nn.ReLU,
                squeeze=attention if attends else None,
            )
        )
        inputs = outputs
    last = (ConvNorm(96, 576, 1, activation=nn.Hardswish()), Classifier(576, 1024), nn.Hardswish())
    return nn.Sequential(*layers, *last, nn.Linear(1024, 1000))


# factor, outputs, repeats, stride, kernel: Table 1 of the paper.
_B0 = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)


def efficientnet_b0() -> nn.Module:
    """EfficientNet-B0."""
    layers: list[nn.Module] = [ConvNorm(3, 32, 3, stride=2, activation=nn.SiLU())]
    inputs = 32
    for factor, outputs, repeats, stride, kernel in _B0:
        for i in range(repeats):
            expanded = inputs * factor
            layers.append(
                InvertedResidual(
                    *(inputs, expanded, outputs),
                    kernel=kernel,
                    stride=1 if i else stride,
                    activation=nn.SiLU,
                    squeeze=SqueezeExcite(expanded, inputs // 4, inner=nn.SiLU(), gate=nn.Sigmoid()),
                )
            )
            inputs = outputs
    return nn.Sequential(*layers, ConvNorm(320, 1280, 1, activation=nn.SiLU()), Classifier(1280))


class ShuffleUnit(nn.Module):
    """ShuffleNet v2's unit: half of the channels pass by, then both halves are mixed."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.passes = stride == 1
        half = outputs // 2
        before = half if self.passes else inputs

        def depthwise(channels: int) -> nn.Module:
            return ConvNorm(channels, channels, 3, stride=stride, groups=channels)

        def pointwise(channels: int) -> nn.Module:
            return ConvNorm(channels, half, 1, activation=nn.ReLU())

        self.left = nn.Identity() if self.passes else nn.Sequential(depthwise(inputs), pointwise(inputs))
        self.right = nn.Sequential(pointwise(before), depthwise(half), pointwise(half))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, inputs, height, width) to (batch, outputs, height / stride, width / stride)."""
        left, right = x.chunk(2, 1) if self.passes else (x, x)
        y = torch.stack([self.left(left), self.right(right)], 2)
        return y.flatten(1, 2)


def shufflenet_v2() -> nn.Module:
    """ShuffleNet v2 at width 1."""
    layers: list[nn.Module] = [ConvNorm(3, 24, 3, stride=2, activation=nn.ReLU()), nn.MaxPool2d(3, 2, 1)]
    inputs = 24
    for repeats, outputs in ((4, 116), (8, 232), (4, 464)):
        layers += [
            ShuffleUnit(inputs, outputs, 2),
            *(ShuffleUnit(outputs, outputs, 1) for _ in range(repeats - 1)),
        ]
        inputs = outputs
    return nn.Sequential(*layers, ConvNorm(464, 1024, 1, activation=nn.ReLU()), Classifier(1024))
