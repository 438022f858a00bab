"""The zoo as a whole: every network builds, has its published size and takes its example."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from costhub.collector.workloads.zoo.convolutional import (
    Classifier,
    ConvNorm,
    DenseLayer,
    Fire,
    Inception,
    InvertedResidual,
    ResidualBlock,
    ShuffleUnit,
    SqueezeExcite,
    resnet50,
    resnext50,
)
from costhub.collector.workloads.zoo.networks import NETWORKS, find_network, with_statistics
from costhub.collector.workloads.zoo.other_tasks import Block3d, GruCell, LstmCell, SpeechBlock, UNet, dcgan, ssd, yolo
from costhub.collector.workloads.zoo.transformers import (
    ChannelNorm,
    ConvNextBlock,
    Gpt,
    MixerLayer,
    SentenceEmbedding,
    SpeechEncoder,
    TransformerLayer,
    minilm_l6,
    whisper_tiny_encoder,
)
from costhub.errors import UnknownNameError


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_has_its_parameters_and_answers_its_example(name: str) -> None:
    network = NETWORKS[name]
    module = network.build(device="meta")

    with torch.no_grad():
        answer = module(*network.examples(device="meta"))

    assert sum(parameter.numel() for parameter in module.parameters()) == network.parameters
    assert not module.training
    outputs = answer if isinstance(answer, tuple) else [answer]
    assert all(output.shape[0] == network.shape[0] for output in outputs)
    assert network.shape[0] == (8 if name == "minilm_l6_batch8" else 1)


def test_names_and_labels_are_unique_and_every_kind_of_network_is_there() -> None:
    assert len({network.label for network in NETWORKS.values()}) == len(NETWORKS) >= 16
    modules = {"convolutional", "transformers", "other_tasks", "language_models", "diffusion", "image_maps"}
    assert {network.module for network in NETWORKS.values()} == modules


def test_weights_and_examples_follow_their_seeds_and_leave_torch_alone() -> None:
    network = NETWORKS["bert_tiny"]
    state = torch.random.get_rng_state()

    first, again, other = (network.build(seed=seed).pooler.weight for seed in (1, 1, 2))

    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(network.examples(seed=3)[0], network.examples(seed=3)[0])
    assert torch.equal(torch.random.get_rng_state(), state)


def test_a_network_of_several_inputs_has_an_example_of_each() -> None:
    network = NETWORKS["stable_diffusion_block"]
    shapes = [(1, 320, 32, 32), (1, 1280), (1, 77, 768)]

    examples = network.examples()

    assert [tuple(value.shape) for value in examples] == shapes
    assert [tuple(value.shape) for value in network.examples(device="meta")] == shapes
    assert all(0.9 < float(value.std()) < 1.1 for value in examples)
    assert network.inputs == "1 x 320 x 32 x 32, 1 x 1280, 1 x 77 x 768"


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "efficientnet_b0"])
def test_outputs_follow_the_input(name: str) -> None:
    """A comparison of outputs that are the same for every input would say nothing about a library."""
    network, other = NETWORKS[name].build(), NETWORKS[name].examples(seed=1)

    with torch.no_grad():
        first, second = network(*NETWORKS[name].examples()), network(*other)

    assert float((first - second).std() / first.std()) > 0.1


def test_statistics_of_the_input_keep_activations_from_fading() -> None:
    torch.manual_seed(0)
    layers = [[torch.nn.Conv2d(4, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.ReLU()] for _ in range(8)]
    network = torch.nn.Sequential(*(layer for each in layers for layer in each))
    value = torch.randn(1, 4, 8, 8)

    def spread() -> float:
        with torch.no_grad():
            return float(network(value).std())

    faded = network.eval() and spread()
    with_statistics(network, (value,))

    assert not network.training
    assert spread() > 3 * faded


def test_networks_without_normalisation_are_left_alone() -> None:
    network = torch.nn.Linear(2, 2)
    before = network.weight.detach().numpy().copy()

    with_statistics(network, (torch.zeros(1, 2),))

    np.testing.assert_array_equal(network.weight.detach().numpy(), before)


def test_an_unknown_network_lists_the_close_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"network named 'resnet51'.*resnet50"):
        find_network("resnet51")


def test_the_names_are_listed_without_torch() -> None:
    code = (
        "import sys, costhub.collector.workloads.network_kernels; print('torch' in sys.modules, 'tvm' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["False", "False"]


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


def test_blocks_put_what_they_compute_beside_each_other() -> None:
    image = torch.randn(1, 8, 5, 5)

    assert Fire(8, 4, 6)(image).shape == (1, 12, 5, 5)
    assert Inception(8, 1, (2, 3), (4, 5), 6)(image).shape == (1, 1 + 3 + 5 + 6, 5, 5)


def test_a_dense_layer_keeps_its_input() -> None:
    layer, image = DenseLayer(8, 3).eval(), torch.randn(1, 8, 5, 5)

    found = layer(image)

    assert found.shape == (1, 11, 5, 5)
    assert torch.equal(found[:, :8], image)


def convolutions(module: nn.Module) -> list[nn.Conv2d]:
    return [part for part in module.modules() if isinstance(part, nn.Conv2d)]


def test_a_block_adds_its_input() -> None:
    block, x = ResidualBlock(nn.Identity(), nn.Identity()), torch.randn(1, 2, 3, 3)

    assert torch.equal(block(x), torch.relu(2 * x))


def test_resnext_differs_from_resnet_in_the_groups_of_its_windows() -> None:
    with torch.device("meta"):
        plain, grouped = convolutions(resnet50()), convolutions(resnext50())

    assert len(plain) == len(grouped) == 53
    assert {conv.groups for conv in plain} == {1}
    assert sum(conv.groups == 32 for conv in grouped) == sum(conv.kernel_size == (3, 3) for conv in plain) == 16


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


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_layer_computes_what_torchs_layer_does(norm_first: bool) -> None:
    reference = nn.TransformerEncoderLayer(
        8, 2, 32, dropout=0.0, activation="gelu", batch_first=True, norm_first=norm_first
    )
    layer = TransformerLayer(8, 2, causal=False, norm_first=norm_first)
    attention = reference.self_attn
    for part, weight, bias in zip(
        (layer.attention.query, layer.attention.key, layer.attention.value),
        attention.in_proj_weight.chunk(3),
        attention.in_proj_bias.chunk(3),
        strict=True,
    ):
        part.load_state_dict({"weight": weight, "bias": bias})
    layer.attention.out.load_state_dict(attention.out_proj.state_dict())
    layer.dense[0].load_state_dict(reference.linear1.state_dict())
    layer.dense[2].load_state_dict(reference.linear2.state_dict())
    x = torch.randn(2, 5, 8)

    assert torch.allclose(layer(x), reference(x), atol=1e-5)


def test_a_decoder_does_not_see_what_comes_later() -> None:
    decoder = Gpt(1, 8, 2).layers
    x = torch.randn(1, 4, 8)
    changed = x.clone()
    changed[:, 3] += 1

    assert torch.allclose(decoder(x)[:, :3], decoder(changed)[:, :3], atol=1e-6)
    assert not torch.allclose(decoder(x)[:, 3], decoder(changed)[:, 3])


def test_embeddings_have_length_one_and_the_direction_of_the_mean() -> None:
    network, tokens = SentenceEmbedding(1, 8, 2), torch.randint(1000, (3, 5))

    found = network(tokens)

    assert torch.allclose(found.norm(dim=1), torch.ones(3))
    assert torch.allclose(torch.cosine_similarity(found, network.encode(tokens).mean(1)), torch.ones(3))


def test_the_published_encoders_are_as_large() -> None:
    with torch.device("meta"):
        text, speech = (sum(p.numel() for p in each.parameters()) for each in (minilm_l6(), whisper_tiny_encoder()))

    width, inner = 384, 1536
    layer = 4 * width**2 + 2 * width * inner + inner + 5 * width + 2 * 2 * width
    # The published 22,713,216 count the pooler too.
    assert text == (30522 + 512 + 2) * width + 2 * width + 6 * layer == 22_713_216 - width * (width + 1)
    # Keys of speech have no bias.
    windows = 3 * width * (80 + width) + 2 * width
    assert speech == windows + 1500 * width + 4 * (layer - width) + 2 * width == 8_208_384


def test_speech_is_halved_in_time_and_each_place_has_waves_of_its_own() -> None:
    network = SpeechEncoder(1, 8, 2, bands=4, tokens=6)

    found = network(torch.randn(2, 4, 12))

    assert found.shape == (2, 6, 8)
    # The fastest wave and the slowest, which is 10,000 times slower.
    wanted = [math.sin(5), math.sin(5e-4), math.cos(5), math.cos(5e-4)]
    assert network.positions[5, [0, 3, 4, 7]].tolist() == pytest.approx(wanted, abs=1e-6)
    assert [part.bias is None for part in network.layers[0].attention.children()] == [False, True, False, False]


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


def test_detectors_answer_for_every_pixel_of_every_size() -> None:
    with torch.device("meta"):
        image = torch.empty(1, 3, 64, 64)
        boxes, (coarse, fine) = ssd().eval()(image), yolo().eval()(image)

    assert boxes.shape == (1, 6 * (16 * 16 + 8 * 8 + 4 * 4 + 2 * 2 + 1), 25)
    assert coarse.shape == (1, 255, 2, 2)
    assert fine.shape == (1, 255, 4, 4)


def test_segmentation_gives_each_pixel_a_class_with_chances() -> None:
    found = UNet(width=2, classes=5).eval()(torch.randn(1, 3, 32, 48))

    assert found.shape == (1, 5, 32, 48)
    assert torch.allclose(found.sum(1), torch.ones(1, 32, 48), atol=1e-5)


def test_the_generator_makes_an_image_of_each_code() -> None:
    with torch.device("meta"):
        assert dcgan()(torch.empty(2, 100, 1, 1)).shape == (2, 3, 64, 64)


@pytest.mark.parametrize(("ours", "theirs"), [(LstmCell, nn.LSTMCell), (GruCell, nn.GRUCell)])
def test_a_cell_computes_what_torchs_cell_does(
    ours: type[LstmCell | GruCell], theirs: type[nn.LSTMCell | nn.GRUCell]
) -> None:
    cell, reference = ours(3, 4), theirs(3, 4)
    cell.given.load_state_dict({"weight": reference.weight_ih, "bias": reference.bias_ih})
    cell.kept.load_state_dict({"weight": reference.weight_hh, "bias": reference.bias_hh})
    x, state = torch.randn(2, 3), (torch.randn(2, 4), torch.randn(2, 4))[: 2 if ours is LstmCell else 1]

    found = cell(x, state)

    expected = reference(x, state if ours is LstmCell else state[0])
    expected = expected if ours is LstmCell else (expected,)
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(found, expected, strict=True))


def test_blocks_keep_the_size_and_a_stride_halves_it() -> None:
    video = torch.randn(1, 4, 4, 6, 6)

    assert Block3d(4, 4, 1).eval()(video).shape == video.shape
    assert Block3d(4, 8, 2).eval()(video).shape == (1, 8, 2, 3, 3)
    assert SpeechBlock(4, 33).eval()(torch.randn(1, 4, 20)).shape == (1, 4, 20)
