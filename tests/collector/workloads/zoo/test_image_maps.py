"""YOLOv8n and SegFormer-B0: their published sizes, and boxes and classes in their places."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from costhub.collector.workloads.zoo.image_maps import (
    BoxHead,
    PixelLayer,
    PooledPyramid,
    ReducedAttention,
    SegFormer,
    SplitStage,
    YoloV8,
)


def parameters(network: nn.Module) -> int:
    return sum(each.numel() for each in network.parameters())


def test_the_detector_has_the_parameters_of_the_published_one() -> None:
    def conv(inputs: int, outputs: int, kernel: int = 1) -> int:
        return inputs * outputs * kernel**2 + 2 * outputs  # and the scale and shift of the normalisation

    def stage(inputs: int, outputs: int, depth: int) -> int:
        half = outputs // 2
        return conv(inputs, outputs) + depth * 2 * conv(half, half, 3) + conv((2 + depth) * half, outputs)

    def branch(width: int, inner: int, outputs: int) -> int:
        return conv(width, inner, 3) + conv(inner, inner, 3) + inner * outputs + outputs

    backbone = sum(conv(*pair, 3) for pair in ((3, 16), (16, 32), (32, 64), (64, 128), (128, 256)))
    backbone += sum(stage(width, width, depth) for width, depth in ((32, 1), (64, 2), (128, 2), (256, 1)))
    backbone += conv(256, 128) + conv(512, 256)
    neck = stage(384, 128, 1) + stage(192, 64, 1) + stage(192, 128, 1) + stage(384, 256, 1)
    neck += conv(64, 64, 3) + conv(128, 128, 3)
    head = sum(branch(width, 64, 64) + branch(width, 80, 80) for width in (64, 128, 256)) + 16
    with torch.device("meta"):
        found = parameters(YoloV8())
    assert backbone + neck + head == found == 3_157_200


def test_the_segmenter_has_the_parameters_of_the_published_one() -> None:
    total, inputs = 0, 3
    for width, kernel, reduction in ((32, 7, 8), (64, 3, 4), (160, 3, 2), (256, 3, 1)):
        reducing = width**2 * reduction**2 + 3 * width if reduction > 1 else 0
        attention = 4 * (width**2 + width) + reducing
        dense = (4 * width**2 + 4 * width) + (9 * 4 * width + 4 * width) + (4 * width**2 + width)
        total += inputs * width * kernel**2 + 3 * width + 2 * (attention + dense + 4 * width) + 2 * width
        total += width * 256 + 256
        inputs = width
    total += 4 * 256 * 256 + 2 * 256 + 256 * 150 + 150
    with torch.device("meta"):
        found = parameters(SegFormer())
    assert total == found == 3_752_694


def test_every_output_of_a_stage_is_read_by_its_last_layer() -> None:
    stage, image = SplitStage(4, 8, 2, adds=True).eval(), torch.randn(1, 4, 5, 5)
    read: list[torch.Tensor] = []
    stage.leave.register_forward_hook(lambda _, inputs, __: read.append(inputs[0]))

    stage(image)

    halves = stage.enter(image)
    first = halves[:, 4:] + stage.blocks[0].body(halves[:, 4:])
    second = first + stage.blocks[1].body(first)
    assert torch.allclose(read[0], torch.cat([halves, first, second], 1), atol=1e-6)


def test_a_pyramid_reads_the_maxima_of_larger_and_larger_windows() -> None:
    layer, image = PooledPyramid(4).eval(), torch.randn(1, 4, 16, 16)
    read: list[torch.Tensor] = []
    layer.leave.register_forward_hook(lambda _, inputs, __: read.append(inputs[0]))

    layer(image)

    before = layer.enter(image)
    wanted = [before, *(functional.max_pool2d(before, 4 * n + 1, 1, 2 * n) for n in (1, 2, 3))]
    assert torch.equal(read[0], torch.cat(wanted, 1))


def test_a_box_reaches_from_its_pixel_as_far_as_the_likeliest_distances() -> None:
    head = BoxHead((4, 4, 4), classes=3).eval()
    images = [torch.randn(1, 4, 4, 6), torch.randn(1, 4, 2, 3), torch.randn(1, 4, 1, 2)]
    for branch in head.boxes:
        nn.init.zeros_(branch[2].weight)
        # left 1, top 2, right 3 and bottom 4 steps, with near certainty
        certain = functional.one_hot(torch.tensor([1, 2, 3, 4]), 16).float() * 50
        branch[2].bias.data = certain.flatten()

    found = head(images)

    assert found.shape == (1, 4 + 3, 24 + 6 + 2)
    x, y, width, height = found[0, :4].detach()
    assert torch.allclose(width[:24], torch.tensor(8.0 * (1 + 3)))
    assert torch.allclose(height[24:30], torch.tensor(16.0 * (2 + 4)))
    # The second pixel of the second row of the first image, and the last pixel of the last.
    assert (float(x[7]), float(y[7])) == pytest.approx((8 * (1.5 + 1), 8 * (1.5 + 1)))
    assert (float(x[-1]), float(y[-1])) == pytest.approx((32 * (1.5 + 1), 32 * (0.5 + 1)))
    assert 0 < found[0, 4:].min() < found[0, 4:].max() < 1


def test_a_detector_answers_for_every_pixel_of_three_sizes() -> None:
    with torch.device("meta"):
        assert YoloV8().eval()(torch.empty(2, 3, 96, 64)).shape == (2, 84, 12 * 8 + 6 * 4 + 3 * 2)


@pytest.mark.parametrize("reduction", [1, 2])
def test_pixels_attend_to_a_smaller_image(reduction: int) -> None:
    layer, x = ReducedAttention(8, 2, reduction), torch.randn(2, 4 * 6, 8)
    reference = nn.MultiheadAttention(8, 2, batch_first=True)
    parts = (layer.query, layer.key, layer.value)
    reference.in_proj_weight.data = torch.cat([part.weight.data for part in parts])
    reference.in_proj_bias.data = torch.cat([part.bias.data for part in parts])
    reference.out_proj.load_state_dict(layer.out.state_dict())
    fewer = layer.reduce(x.transpose(1, 2).reshape(2, 8, 4, 6)).flatten(2).transpose(1, 2)

    wanted, _ = reference(x, fewer, fewer)

    assert fewer.shape[1] == 24 // reduction**2
    assert torch.allclose(layer(x, (4, 6)), wanted, atol=1e-5)


def test_a_layer_mixes_neighbours_of_the_image_and_not_of_the_row_of_tokens() -> None:
    layer, x = PixelLayer(4, 2, 1), torch.randn(1, 3 * 5, 4)
    nn.init.zeros_(layer.attention.out.weight)
    changed = x.clone()
    changed[0, 5] = torch.randn(4)  # The first pixel of the second row.

    differs = (layer(x, (3, 5)) != layer(changed, (3, 5))).any(2)[0].view(3, 5)

    assert torch.equal(differs, torch.tensor([[True, True, False, False, False]] * 3))


def test_scores_come_for_every_fourth_pixel() -> None:
    found = SegFormer(classes=5, decoded=8).eval()(torch.randn(1, 3, 64, 96))

    assert found.shape == (1, 5, 16, 24)
    assert float(found.detach().std((2, 3)).min()) > 0
