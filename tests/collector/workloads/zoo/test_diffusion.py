"""A block of a diffusion network: its published size, attention as torch's, and what each input does."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import silu

from costhub.collector.workloads.zoo.diffusion import (
    CrossAttention,
    DownBlock,
    SpatialTransformer,
    TimedResidual,
    stable_diffusion_block,
)


def test_the_block_has_the_parameters_of_the_published_one() -> None:
    with torch.device("meta"):
        block = stable_diffusion_block()

    c, time, text = 320, 1280, 768
    convolution = 9 * c * c + c
    residual = 2 * (2 * c + convolution) + time * c + c
    own, cross = 4 * c * c + c, 2 * c * c + 2 * text * c + c
    dense = (c * 8 * c + 8 * c) + (4 * c * c + c)
    transformer = 2 * c + 2 * (c * c + c) + 3 * 2 * c + own + cross + dense
    assert sum(p.numel() for p in block.parameters()) == 2 * (residual + transformer) + convolution == 10_524_480


def test_attention_to_a_text_is_torchs() -> None:
    layer = CrossAttention(8, 2, 6)
    reference = nn.MultiheadAttention(8, 2, kdim=6, vdim=6, batch_first=True)
    for ours, theirs in ((layer.query, "q"), (layer.key, "k"), (layer.value, "v")):
        getattr(reference, f"{theirs}_proj_weight").data = ours.weight.data
    reference.out_proj.load_state_dict(layer.out.state_dict())
    x, text = torch.randn(2, 5, 8), torch.randn(2, 3, 6)

    wanted, _ = reference(x, text, text)

    assert torch.allclose(layer(x, text), wanted, atol=1e-5)


def test_the_time_step_shifts_each_channel_between_the_convolutions() -> None:
    # Two channels to a group; the normalisation of a single one would undo the shift.
    layer, x, time = TimedResidual(64, 4), torch.randn(1, 64, 4, 4), torch.randn(1, 4)
    nn.init.dirac_(layer.second.weight)
    nn.init.zeros_(layer.second.bias)
    inner = layer.first(silu(layer.first_norm(x)))

    shifted = inner + (silu(time) @ layer.time.weight.T + layer.time.bias).view(1, 64, 1, 1)

    assert torch.allclose(layer(x, time) - x, silu(layer.second_norm(shifted)), atol=1e-5)


def test_pixels_see_one_another_then_the_text_then_gated_dense_layers() -> None:
    layer, image, text = SpatialTransformer(32, 2, 6), torch.randn(1, 32, 3, 4), torch.randn(1, 5, 6)
    nn.init.dirac_(layer.leave.weight)
    nn.init.zeros_(layer.leave.bias)
    first, second, third = layer.norms
    for norm in layer.norms:
        nn.init.uniform_(norm.weight)

    x = layer.enter(layer.norm(image)).view(1, 32, 12).mT
    x = x + layer.own(first(x), first(x))
    x = x + layer.cross(second(x), text)
    values, gate = layer.up(third(x)).split(4 * 32, dim=2)
    x = x + layer.down(values * gate * (1 + torch.erf(gate / 2**0.5)) / 2)

    assert torch.allclose(layer(image, text), image + x.mT.reshape(1, 32, 3, 4), atol=1e-5)


def test_the_block_gives_two_images_and_one_of_half_the_size() -> None:
    block = DownBlock(32, 2, time=8, text=6)

    outputs = block(torch.randn(2, 32, 8, 6), torch.randn(2, 8), torch.randn(2, 5, 6))

    assert [tuple(each.shape) for each in outputs] == [(2, 32, 8, 6), (2, 32, 8, 6), (2, 32, 4, 3)]
    assert torch.allclose(block.halve(outputs[1]), outputs[2])
