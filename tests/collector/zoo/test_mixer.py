"""The networks between convolutions and transformers."""

from __future__ import annotations

import torch

from costhub.collector.zoo.mixer import ChannelNorm, ConvNextBlock, MixerLayer


def test_channels_are_normalised_pixel_by_pixel() -> None:
    found = ChannelNorm(6, eps=1e-6)(torch.randn(2, 6, 3, 3) * 4 + 2)

    assert torch.allclose(found.mean(1), torch.zeros(2, 3, 3), atol=1e-5)
    assert torch.allclose(found.var(1, unbiased=False), torch.ones(2, 3, 3), atol=1e-4)


def test_a_block_with_a_scale_of_zero_gives_back_its_input() -> None:
    block, image = ConvNextBlock(4), torch.randn(1, 4, 8, 8)
    torch.nn.init.zeros_(block.scale)

    assert torch.equal(block(image), image)


def test_a_mixer_layer_mixes_patches_and_channels() -> None:
    layer, x = MixerLayer(5, 4, (6, 7)), torch.randn(1, 5, 4)
    changed = x.clone()
    changed[0, 0, 0] += 1

    assert bool((layer(x) != layer(changed)).all())
