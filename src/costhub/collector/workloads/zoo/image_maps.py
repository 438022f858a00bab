"""Provides networks of today that answer for every place of an image: YOLOv8n and SegFormer-B0.

YOLOv8n (the configuration ``yolov8n.yaml`` of Ultralytics 8.0) ends where non-maximum suppression begins, with boxes
and classes as in its ONNX export. SegFormer-B0 (arXiv:2105.15203) has the 150 classes of ADE20K.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from costhub.collector.workloads.zoo.convolutional import ConvNorm
from costhub.collector.workloads.zoo.transformers import ChannelNorm, attend

_BINS = 16
"""Distances among which a side of a box is chosen, in steps of the stride."""
_STRIDES = (8, 16, 32)


def _conv(inputs: int, outputs: int, kernel: int = 1, stride: int = 1) -> ConvNorm:
    return ConvNorm(inputs, outputs, kernel, stride=stride, activation=nn.SiLU())


class Bottleneck(nn.Module):
    """Two windows of 3 x 3, in the backbone added to their input."""

    def __init__(self, width: int, *, adds: bool) -> None:
        super().__init__()
        self.body, self.adds = nn.Sequential(_conv(width, width, 3), _conv(width, width, 3)), adds

    def forward(self, x: Tensor) -> Tensor:
        """(batch, width, height, width) to the same."""
        y: Tensor = self.body(x)
        return x + y if self.adds else y


class SplitStage(nn.Module):
    """Half of the channels go through bottlenecks, and the output of each goes on beside the others (C2f)."""

    def __init__(self, inputs: int, outputs: int, depth: int = 1, *, adds: bool = False) -> None:
        super().__init__()
        half = outputs // 2
        self.enter, self.leave = _conv(inputs, outputs), _conv((2 + depth) * half, outputs)
        self.blocks = nn.ModuleList(Bottleneck(half, adds=adds) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        """(batch, inputs, height, width) to (batch, outputs, height, width)."""
        parts = list(self.enter(x).chunk(2, 1))
        for block in self.blocks:
            parts.append(block(parts[-1]))
        left: Tensor = self.leave(torch.cat(parts, 1))
        return left


class PooledPyramid(nn.Module):
    """The maxima of ever larger windows, beside one another (SPPF)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.enter, self.leave = _conv(width, width // 2), _conv(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """(batch, width, height, width) to the same."""
        parts = [self.enter(x)]
        for _ in range(3):
            parts.append(F.max_pool2d(parts[-1], 5, 1, 2))
        left: Tensor = self.leave(torch.cat(parts, 1))
        return left


class BoxHead(nn.Module):
    """Boxes and classes from images of three sizes; each side of a box is the mean of distances, by their chances."""

    def __init__(self, widths: Sequence[int], classes: int) -> None:
        super().__init__()
        box, named = max(16, widths[0] // 4, 4 * _BINS), max(widths[0], min(classes, 100))
        self.boxes = nn.ModuleList(self._branch(width, box, 4 * _BINS) for width in widths)
        self.classes = nn.ModuleList(self._branch(width, named, classes) for width in widths)
        self.mean = nn.Conv2d(_BINS, 1, 1, bias=False).requires_grad_(False)
        self.mean.weight.data = torch.arange(float(_BINS)).view(1, _BINS, 1, 1)

    @staticmethod
    def _branch(width: int, inner: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(_conv(width, inner, 3), _conv(inner, inner, 3), nn.Conv2d(inner, outputs, 1))

    def forward(self, images: Sequence[Tensor]) -> Tensor:
        """Three of (batch, width, height, width) to (batch, 4 + classes, pixels of all): centre, size and chances."""
        found = [branch(x).flatten(2) for branch, x in zip(self.boxes, images, strict=True)]
        chances = torch.cat([branch(x).flatten(2) for branch, x in zip(self.classes, images, strict=True)], 2).sigmoid()
        sides = torch.cat(found, 2).reshape(len(chances), 4, _BINS, -1).transpose(1, 2).softmax(1)
        before, after = self.mean(sides).squeeze(1).chunk(2, 1)
        places, strides = self._pixels(images)
        centre, size = places + (after - before) / 2, before + after
        return torch.cat([torch.cat([centre, size], 1) * strides, chances], 1)

    @staticmethod
    def _pixels(images: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """The middle of every pixel (2, pixels of all) in steps of its stride, and the strides (1, pixels of all)."""
        places, strides = [], []
        for stride, image in zip(_STRIDES, images, strict=True):
            height, width = image.shape[2:]
            # In floats from the start: TVM's importer rounds what is added to integers.
            rows, columns = (torch.arange(float(n), device=image.device) + 0.5 for n in (height, width))
            middles = [columns.repeat(height), rows.repeat_interleave(width)]
            places.append(torch.stack(middles))
            strides.append(torch.full((1, height * width), float(stride), device=image.device))
        return torch.cat(places, 1), torch.cat(strides, 1)


class YoloV8(nn.Module):
    """Detector without anchors: a backbone, features carried up and down again, and a head at three sizes."""

    def __init__(self, classes: int = 80) -> None:
        super().__init__()
        stem = (_conv(3, 16, 3, 2), _conv(16, 32, 3, 2), SplitStage(32, 32, adds=True))
        self.fine = nn.Sequential(*stem, _conv(32, 64, 3, 2), SplitStage(64, 64, 2, adds=True))
        self.middle = nn.Sequential(_conv(64, 128, 3, 2), SplitStage(128, 128, 2, adds=True))
        self.coarse = nn.Sequential(_conv(128, 256, 3, 2), SplitStage(256, 256, adds=True), PooledPyramid(256))
        self.up_middle, self.up_fine = SplitStage(256 + 128, 128), SplitStage(128 + 64, 64)
        self.down_middle, self.down_coarse = SplitStage(64 + 128, 128), SplitStage(128 + 256, 256)
        self.from_fine, self.from_middle = _conv(64, 64, 3, 2), _conv(128, 128, 3, 2)
        self.head = BoxHead((64, 128, 256), classes)

    def forward(self, image: Tensor) -> Tensor:
        """(batch, 3, height, width), both divisible by 32, to (batch, 4 + classes, boxes)."""
        fine = self.fine(image)
        middle = self.middle(fine)
        coarse = self.coarse(middle)
        up = self.up_middle(torch.cat([self._enlarged(coarse), middle], 1))
        first = self.up_fine(torch.cat([self._enlarged(up), fine], 1))
        second = self.down_middle(torch.cat([self.from_fine(first), up], 1))
        third = self.down_coarse(torch.cat([self.from_middle(second), coarse], 1))
        boxes: Tensor = self.head([first, second, third])
        return boxes

    @staticmethod
    def _enlarged(x: Tensor) -> Tensor:
        return F.interpolate(x, scale_factor=2.0, mode="nearest")


def yolov8n() -> nn.Module:
    """The detector `YoloV8` in its smallest size."""
    return YoloV8()


class ReducedAttention(nn.Module):
    """Self-attention of pixels to the pixels of an image that a strided convolution has made smaller."""

    def __init__(self, width: int, heads: int, reduction: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        smaller = (nn.Conv2d(width, width, reduction, reduction), ChannelNorm(width))
        self.reduce = nn.Sequential(*smaller) if reduction > 1 else nn.Identity()

    def forward(self, x: Tensor, size: Sequence[int]) -> Tensor:
        """(batch, pixels, width) of an image of this size to the same."""
        image = x.transpose(1, 2).reshape(*x.shape[::2], *size)
        fewer = self.reduce(image).flatten(2).transpose(1, 2)
        attended: Tensor = self.out(attend(self.query(x), self.key(fewer), self.value(fewer), self.heads))
        return attended


class PixelLayer(nn.Module):
    """SegFormer's layer: attention, and dense layers with a depthwise 3 x 3 window in between."""

    def __init__(self, width: int, heads: int, reduction: int) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = ReducedAttention(width, heads, reduction)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.window = nn.Conv2d(4 * width, 4 * width, 3, padding=1, groups=4 * width)

    def forward(self, x: Tensor, size: Sequence[int]) -> Tensor:
        """(batch, pixels, width) of an image of this size to the same."""
        x = x + self.attention(self.first(x), size)
        inner = self.up(self.second(x)).transpose(1, 2).unflatten(2, tuple(size))
        mixed: Tensor = x + self.down(F.gelu(self.window(inner).flatten(2).transpose(1, 2)))
        return mixed


class PixelStage(nn.Module):
    """Patches that overlap, two layers on them, and a normalisation."""

    def __init__(self, inputs: int, width: int, heads: int, *, kernel: int, stride: int, reduction: int) -> None:
        super().__init__()
        self.patches, self.norm = nn.Conv2d(inputs, width, kernel, stride, kernel // 2), nn.LayerNorm(width)
        self.layers = nn.ModuleList(PixelLayer(width, heads, reduction) for _ in range(2))
        self.last = nn.LayerNorm(width)

    def forward(self, image: Tensor) -> Tensor:
        """(batch, inputs, height, width) to (batch, width, height / stride, width / stride)."""
        patches = self.patches(image)
        size = patches.shape[2:]
        x = self.norm(patches.flatten(2).transpose(1, 2))
        for layer in self.layers:
            x = layer(x, size)
        normed: Tensor = self.last(x)
        return normed.transpose(1, 2).reshape(*normed.shape[::2], *size)


class SegFormer(nn.Module):
    """Four stages of a transformer; a dense layer on each, enlarged to the finest, tells the class of each pixel."""

    def __init__(self, classes: int = 150, decoded: int = 256) -> None:
        super().__init__()
        # channels, heads, window, stride, reduction of the attention: Table 6 of the paper.
        table = ((32, 1, 7, 4, 8), (64, 2, 3, 2, 4), (160, 5, 3, 2, 2), (256, 8, 3, 2, 1))
        inputs = (3, *(row[0] for row in table[:-1]))
        self.stages = nn.ModuleList(
            PixelStage(before, width, heads, kernel=kernel, stride=stride, reduction=reduction)
            for before, (width, heads, kernel, stride, reduction) in zip(inputs, table, strict=True)
        )
        self.decoders = nn.ModuleList(nn.Linear(row[0], decoded) for row in table)
        self.join = ConvNorm(4 * decoded, decoded, 1, activation=nn.ReLU())
        self.head = nn.Conv2d(decoded, classes, 1)

    def forward(self, image: Tensor) -> Tensor:
        """(batch, 3, height, width), both divisible by 32, to (batch, classes, height / 4, width / 4)."""
        x, found = image, []
        for stage, decoder in zip(self.stages, self.decoders, strict=True):
            x = stage(x)
            found.append(decoder(x.flatten(2).transpose(1, 2)).transpose(1, 2).unflatten(2, x.shape[2:]))
        size = found[0].shape[2:]
        enlarged = [F.interpolate(y, size=size, mode="bilinear", align_corners=False) for y in found[1:]]
        scores: Tensor = self.head(self.join(torch.cat([*reversed(enlarged), found[0]], 1)))
        return scores


def segformer_b0() -> nn.Module:
    """SegFormer-B0 with 150 classes."""
    return SegFormer()
