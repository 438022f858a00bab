"""The blocks of the networks for small devices."""

from __future__ import annotations

import torch
from torch import nn

from costhub.collector.zoo.mobile import InvertedResidual, ShuffleUnit


def test_an_inverted_residual_adds_its_input_where_the_shapes_agree() -> None:
    image = torch.randn(1, 8, 6, 6)
    same = InvertedResidual(8, 16, 8, kernel=3, stride=1, activation=nn.ReLU6).eval()
    halved = InvertedResidual(8, 16, 12, kernel=5, stride=2, activation=nn.ReLU6).eval()

    assert torch.equal(same(image), image + same.body(image))
    assert halved(image).shape == (1, 12, 3, 3)


def test_a_shuffle_unit_passes_half_of_the_channels_by() -> None:
    unit, image = ShuffleUnit(8, 8, 1).eval(), torch.randn(1, 8, 6, 6)

    # Every second channel of the output is one of the first half, as it was.
    assert torch.equal(unit(image)[:, ::2], image[:, :4])
    assert ShuffleUnit(8, 12, 2).eval()(image).shape == (1, 12, 3, 3)
