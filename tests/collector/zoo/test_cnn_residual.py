"""The residual networks, layer by layer against the suite of a paper."""

from __future__ import annotations

import torch
from torch import nn

from costhub.collector.zoo.cnn_residual import Block, resnet50, resnext50


def convolutions(module: nn.Module) -> list[nn.Conv2d]:
    return [part for part in module.modules() if isinstance(part, nn.Conv2d)]


def test_a_block_adds_its_input() -> None:
    block, x = Block(nn.Identity(), nn.Identity()), torch.randn(1, 2, 3, 3)

    assert torch.equal(block(x), torch.relu(2 * x))


def test_resnext_differs_from_resnet_in_the_groups_of_its_windows() -> None:
    with torch.device("meta"):
        plain, grouped = convolutions(resnet50()), convolutions(resnext50())

    assert len(plain) == len(grouped) == 53
    assert {conv.groups for conv in plain} == {1}
    assert (
        sum(conv.groups == 32 for conv in grouped) == sum(conv.kernel_size == (3, 3) for conv in plain) == 16
    )
