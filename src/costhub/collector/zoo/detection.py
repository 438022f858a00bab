"""Provides networks that give images or boxes: SSD- and YOLO-style detectors, U-Net, DCGAN's generator.

(arXiv:1512.02325, 1804.02767, 1505.04597, 1511.06434; detectors and U-Net smaller than their papers'.)
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from costhub.collector.zoo.layers import ConvNorm


def _conv(inputs: int, outputs: int, kernel: int = 3, stride: int = 1) -> ConvNorm:
    return ConvNorm(inputs, outputs, kernel, stride=stride, activation=nn.LeakyReLU(0.1))


class Ssd(nn.Module):
    """Detector with heads at five sizes of a plain backbone, each giving boxes and classes per pixel."""

    def __init__(self, classes: int = 21, boxes: int = 6) -> None:
        super().__init__()
        self.stem = nn.Sequential(ConvNorm(3, 32, 3, stride=2, activation=nn.ReLU()))
        widths = (32, 64, 128, 256, 256, 256)
        self.stages = nn.ModuleList(
            nn.Sequential(
                ConvNorm(before, before, 3, stride=2, groups=before, activation=nn.ReLU()),
                ConvNorm(before, after, 1, activation=nn.ReLU()),
                ConvNorm(after, after, 3, activation=nn.ReLU()),
            )
            for before, after in pairwise(widths)
        )
        self.heads = nn.ModuleList(nn.Conv2d(w, boxes * (4 + classes), 3, padding=1) for w in widths[1:])
        self.values = 4 + classes

    def forward(self, image: Tensor) -> Tensor:
        """(batch, 3, height, width) to (batch, boxes of all sizes, 4 + classes)."""
        x, outputs = self.stem(image), []
        for stage, head in zip(self.stages, self.heads, strict=True):
            x = stage(x)
            outputs.append(head(x).permute(0, 2, 3, 1).reshape(x.shape[0], -1, self.values))
        return torch.cat(outputs, 1)


class Residual(nn.Module):
    """YOLO's block: half of the channels, a 3 x 3 window, added to the input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(_conv(width, width // 2, 1), _conv(width // 2, width))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, width, height, width) to the same."""
        y: Tensor = self.body(x)
        return x + y


class Yolo(nn.Module):
    """Detector with two heads; the finer one also sees the coarser one's features, enlarged."""

    def __init__(self, values: int = 3 * 85) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            _conv(3, 16), _conv(16, 32, stride=2), _conv(32, 64, stride=2), Residual(64)
        )
        self.fine = nn.Sequential(_conv(64, 128, stride=2), Residual(128), _conv(128, 256, stride=2))
        self.coarse = nn.Sequential(
            Residual(256), _conv(256, 512, stride=2), Residual(512), _conv(512, 256, 1)
        )
        self.coarse_head = nn.Sequential(_conv(256, 512), nn.Conv2d(512, values, 1))
        self.narrow = _conv(256, 128, 1)
        self.fine_head = nn.Sequential(_conv(128 + 256, 256), nn.Conv2d(256, values, 1))

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, 3, height, width) to (batch, values, height / 32, width / 32) and the same of / 16."""
        fine = self.fine(self.stem(image))
        coarse = self.coarse(fine)
        enlarged = F.interpolate(self.narrow(coarse), scale_factor=2.0, mode="nearest")
        return self.coarse_head(coarse), self.fine_head(torch.cat([enlarged, fine], 1))


class UNet(nn.Module):
    """Segmentation: down by pooling, up by transposed convolutions, with the finer features beside them."""

    def __init__(self, width: int = 16, classes: int = 21) -> None:
        super().__init__()
        widths = [width << i for i in range(5)]
        pairs = list(pairwise(widths))
        self.first = self._two(3, width)
        self.down = nn.ModuleList(self._two(a, b) for a, b in pairs)
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in reversed(pairs))
        self.join = nn.ModuleList(self._two(b, a) for a, b in reversed(pairs))
        self.head = nn.Conv2d(width, classes, 1)

    @staticmethod
    def _two(inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(*(ConvNorm(n, outputs, 3, activation=nn.ReLU()) for n in (inputs, outputs)))

    def forward(self, image: Tensor) -> Tensor:
        """(batch, 3, height, width) to (batch, classes, height, width); both divide by 16."""
        kept = [self.first(image)]
        for layer in self.down:
            kept.append(layer(F.max_pool2d(kept[-1], 2)))
        x = kept.pop()
        for enlarge, join in zip(self.up, self.join, strict=True):
            x = join(torch.cat([enlarge(x), kept.pop()], 1))
        return torch.softmax(self.head(x), 1)


def ssd() -> nn.Module:
    """The detector `Ssd` with 21 classes."""
    return Ssd()


def yolo() -> nn.Module:
    """The detector `Yolo` with 80 classes."""
    return Yolo()


def unet() -> nn.Module:
    """The segmentation network `UNet` with 21 classes."""
    return UNet()


def dcgan() -> nn.Module:
    """DCGAN's generator for 64 x 64 pixels: five transposed convolutions."""
    layers: list[nn.Module] = [nn.ConvTranspose2d(100, 512, 4, 1, 0, bias=False)]
    for before, after in ((512, 256), (256, 128), (128, 64)):
        norm = (nn.BatchNorm2d(before), nn.ReLU())
        layers += [*norm, nn.ConvTranspose2d(before, after, 4, 2, 1, bias=False)]
    last = nn.ConvTranspose2d(64, 3, 4, 2, 1, bias=False)
    return nn.Sequential(*layers, nn.BatchNorm2d(64), nn.ReLU(), last, nn.Tanh())
