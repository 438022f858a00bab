"""Provides networks for other tasks: detection, segmentation, generation, sequences, video and speech.

The detectors and U-Net are smaller than in their papers (arXiv:1512.02325, 1804.02767, 1505.04597; DCGAN: 1511.06434).
Recurrent cells (doi:10.1162/neco.1997.9.8.1735; arXiv:1406.1078 as torch computes it) are written out: TVM sees
a step as its dense layers, sigmoids and hyperbolic tangents. R3D-18 is that of arXiv:1711.11248, and the speech
recogniser has QuartzNet's kind of layers (arXiv:1904.03288).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from costhub.collector.workloads.zoo.convolutional import ConvNorm


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


class YoloBlock(nn.Module):
    """YOLO's block: half of the channels, a 3 x 3 window, the result added to the input."""

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
        self.stem = nn.Sequential(_conv(3, 16), _conv(16, 32, stride=2), _conv(32, 64, stride=2), YoloBlock(64))
        self.fine = nn.Sequential(_conv(64, 128, stride=2), YoloBlock(128), _conv(128, 256, stride=2))
        self.coarse = nn.Sequential(YoloBlock(256), _conv(256, 512, stride=2), YoloBlock(512), _conv(512, 256, 1))
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
        """(batch, 3, height, width) to (batch, classes, height, width); both divisible by 16."""
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


class LstmCell(nn.Module):
    """One step of a long short-term memory."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.given, self.kept = nn.Linear(inputs, 4 * width), nn.Linear(width, 4 * width)

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """(batch, inputs) and the state to the next state, the first part of which is the output."""
        hidden, cell = state
        enter, forget, new, leave = (self.given(x) + self.kept(hidden)).chunk(4, 1)
        cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(new)
        return torch.sigmoid(leave) * torch.tanh(cell), cell


class GruCell(nn.Module):
    """One step of a gated recurrent unit."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.width = width
        self.given, self.kept = nn.Linear(inputs, 3 * width), nn.Linear(width, 3 * width)

    def forward(self, x: Tensor, state: tuple[Tensor]) -> tuple[Tensor]:
        """(batch, inputs) and the state to the next state, which is also the output."""
        (hidden,) = state
        reset, update, new = self.given(x).chunk(3, 1)
        kept_reset, kept_update, kept_new = self.kept(hidden).chunk(3, 1)
        update = torch.sigmoid(update + kept_update)
        new = torch.tanh(new + torch.sigmoid(reset + kept_reset) * kept_new)
        return ((1 - update) * new + update * hidden,)


class Recurrent(nn.Module):
    """Layers of cells over the steps of a sequence, and a dense layer that reads the last output."""

    def __init__(self, cells: Sequence[LstmCell | GruCell], *, states: int, outputs: int) -> None:
        super().__init__()
        self.cells = nn.ModuleList(cells)
        self.width, self.states = cells[-1].width, states
        self.head = nn.Linear(self.width, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, steps, inputs) to (batch, outputs)."""
        sequence = list(x.unbind(1))
        for cell in self.cells:
            state = (x.new_zeros(x.shape[0], self.width),) * self.states
            for step, item in enumerate(sequence):
                state = cell(item, state)
                sequence[step] = state[0]
        scores: Tensor = self.head(sequence[-1])
        return scores


def lstm() -> nn.Module:
    """Two layers of 512 on 256 inputs, and a vocabulary of 10,000 words."""
    return Recurrent([LstmCell(256, 512), LstmCell(512, 512)], states=2, outputs=10_000)


def gru() -> nn.Module:
    """Two layers of 384 on 192 inputs, and 1,000 classes."""
    return Recurrent([GruCell(192, 384), GruCell(384, 384)], states=1, outputs=1000)


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
        self.body = nn.Sequential(window, nn.Conv1d(channels, channels, 1, bias=False), nn.BatchNorm1d(channels))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, channels, time) to the same."""
        return torch.relu(x + self.body(x))


def speech() -> nn.Module:
    """A recogniser of 64 mel bands: a strided window, eight separable blocks, 29 letters."""
    stem = (nn.Conv1d(64, 256, 33, 2, 16, bias=False), nn.BatchNorm1d(256), nn.ReLU())
    blocks = [SpeechBlock(256, kernel) for kernel in (33, 33, 39, 39, 51, 51, 63, 63)]
    last = (nn.Conv1d(256, 512, 1), nn.ReLU(), nn.Conv1d(512, 29, 1), nn.LogSoftmax(1))
    return nn.Sequential(*stem, *blocks, *last)
