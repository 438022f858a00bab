"""The layers that several networks share."""

from __future__ import annotations

import torch
from torch import nn

from costhub.collector.zoo.layers import Classifier, ConvNorm, SqueezeExcite


def test_a_convolution_keeps_the_size_and_a_stride_halves_it() -> None:
    image = torch.randn(2, 4, 8, 8)

    assert ConvNorm(4, 6, 3)(image).shape == (2, 6, 8, 8)
    assert ConvNorm(4, 4, 5, stride=2, groups=4)(image).shape == (2, 4, 4, 4)
    assert ConvNorm(4, 6, 1, activation=nn.ReLU()).eval()(image).min() >= 0


def test_channel_attention_scales_each_channel_by_one_number() -> None:
    image = torch.rand(1, 4, 3, 3) + 1
    layer = SqueezeExcite(4, 2, inner=nn.ReLU(), gate=nn.Sigmoid())

    ratio = layer(image) / image

    assert torch.allclose(ratio, ratio[:, :, :1, :1].expand_as(ratio))
    assert 0 < ratio.min() < ratio.max() < 1


def test_the_classifier_reads_the_mean_of_all_pixels() -> None:
    classifier, image = Classifier(4, 5), torch.randn(2, 4, 3, 3)

    assert torch.allclose(classifier(image), classifier.dense(image.mean((2, 3))), atol=1e-6)
