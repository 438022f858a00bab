"""Provides the convolutional image classifiers, from VGG to ShuffleNet, and the layers they share.

(arXiv:1409.1556, 1602.07360 version 1.1, 1608.06993, 1409.4842 with batch normalisation, 1512.03385, 1611.05431,
1801.04381, 1905.02244, 1905.11946, 1807.11164.)
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


class ConvNorm(nn.Sequential):
    """Convolution without bias, batch normalisation and an activation; padded to keep the size at stride 1.

    Args:
        inputs: Channels.
        outputs: Channels.
        kernel: Window, in pixels, on each side.
        stride: Step of the window.
        groups: Number of channel groups; `inputs` groups make it depthwise.
        activation: Activation after the normalisation; none by default.
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
    """Scales each channel by the output of two dense layers on all channels' means (arXiv:1709.01507)."""

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
    """DenseNet's layer: concatenates its output with its input."""

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

    def __init__(self, inputs: int, one: int, three: tuple[int, int], five: tuple[int, int], pool: int) -> None:
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


class ResidualBlock(nn.Module):
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
    """ResNet-50 with the stride in the 3 x 3 convolution, as in most implementations."""
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


def _block(inputs: int, inner: int, outputs: int, stride: int, groups: int, *, bottleneck: bool) -> ResidualBlock:
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
    return ResidualBlock(body, nn.Identity() if same else ConvNorm(inputs, outputs, 1, stride=stride))


Activation = Callable[[], nn.Module]


class InvertedResidual(nn.Module):
    """Pointwise to more channels, depthwise, pointwise to fewer; added to the input where the shapes agree.

    Args:
        inputs: Channels.
        expanded: Channels in between.
        outputs: Channels.
        kernel: The depthwise window.
        stride: Stride of the depthwise convolution.
        activation: Factory of the activation after the first two convolutions.
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
        depthwise = ConvNorm(expanded, expanded, kernel, stride=stride, groups=expanded, activation=activation())
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
    """ShuffleNet v2's unit: half of the channels bypass the layers, then both halves are mixed."""

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
