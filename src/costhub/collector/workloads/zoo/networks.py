"""Provides NETWORKS and find_network: the networks of the zoo by name, each with its inputs."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from costhub.errors import UnknownNameError
from costhub.names import close_names


@dataclass(frozen=True)
class ZooNetwork:
    """One network and the inputs for which its operators are measured, at batch 1 unless its name says otherwise."""

    name: str
    """Its name on the command line, and of the function that builds it."""
    label: str
    """Its name in the workloads table, in papers, and in the splits by network."""
    module: str
    """The module of the zoo that contains it."""
    shape: tuple[int, ...]
    """Shape of its first input."""
    parameters: int
    """Number of parameters: as published or, for our own networks, as built."""
    dtype: str = "float32"
    """Dtype of its first input."""
    further: tuple[tuple[int, ...], ...] = ()
    """Shapes of its other inputs, in float32, such as the keys and values of earlier tokens."""

    @property
    def inputs(self) -> str:
        """The shapes of its inputs, for people.

        Example:
            >>> find_network("smollm2_decode").inputs
            '1 x 1, 60 of 1 x 3 x 127 x 64'
        """
        runs = [(" x ".join(map(str, shape)), len(list(run))) for shape, run in groupby((self.shape, *self.further))]
        return ", ".join(f"{count} of {text}" if count > 1 else text for text, count in runs)

    def build(self, *, seed: int = 0, device: str = "cpu") -> Any:
        """The ``torch.nn.Module`` in evaluation mode.

        Its weights are random, so batch normalisation takes its statistics from `examples`: with those that it begins
        with, activations fade from layer to layer, and outputs would say little about what a library computes.

        Args:
            seed: Seed of its random weights.
            device: ``meta`` for a network with shapes but no weights, which takes no time and no memory.
        """
        import torch

        builder: Callable[[], torch.nn.Module] = getattr(
            importlib.import_module(f"{__package__}.{self.module}"), self.name
        )
        with torch.random.fork_rng(devices=[]), torch.device(device):
            torch.manual_seed(seed)
            network = builder().eval()
        return network if device == "meta" else with_statistics(network, self.examples(seed=seed))

    def examples(self, *, seed: int = 0, device: str = "cpu") -> tuple[Any, ...]:
        """Its inputs (``torch.Tensor``): normally distributed numbers, or word ids below 1,000."""
        import torch

        shapes = [(self.shape, self.dtype), *((shape, "float32") for shape in self.further)]
        if device == "meta":
            return tuple(torch.empty(shape, dtype=getattr(torch, dtype), device="meta") for shape, dtype in shapes)
        generator = torch.Generator().manual_seed(seed)

        def drawn(shape: tuple[int, ...], dtype: str) -> Any:
            words = dtype == "int64"
            return torch.randint(1000, shape, generator=generator) if words else torch.randn(shape, generator=generator)

        return tuple(drawn(shape, dtype) for shape, dtype in shapes)


def with_statistics(network: Any, inputs: tuple[Any, ...]) -> Any:
    """The network in evaluation mode, its batch normalisations with the statistics of these inputs.

    Args:
        network: A ``torch.nn.Module``.
        inputs: Inputs of its ``forward``, by position.
    """
    import torch

    norms = [each for each in network.modules() if isinstance(each, torch.nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # The mean over all inputs, which is one.
        norm.train()
    if norms:
        with torch.no_grad():
            network(*inputs)
    return network.eval()


_CONVOLUTIONAL, _TRANSFORMERS, _OTHER = "convolutional", "transformers", "other_tasks"
_LANGUAGE, _DIFFUSION, _MAPS = "language_models", "diffusion", "image_maps"
_IMAGE = (1, 3, 224, 224)
_PROMPT, _TOKEN = (1, 128), (1, 1)


def _cache(depth: int, heads: int) -> tuple[tuple[int, ...], ...]:
    """Keys and values of 127 tokens for each layer, in heads of 64."""
    return ((1, heads, 127, 64),) * (2 * depth)


# The papers' inputs, or smaller ones if a random schedule of some layer would take long.
_ALL = (
    ZooNetwork("resnet18", "resnet-18", _CONVOLUTIONAL, _IMAGE, 11_689_512),
    ZooNetwork("resnet50", "resnet-50", _CONVOLUTIONAL, _IMAGE, 25_557_032),
    ZooNetwork("resnext50", "resnext-50", _CONVOLUTIONAL, _IMAGE, 25_028_904),
    ZooNetwork("vgg16", "vgg-16", _CONVOLUTIONAL, (1, 3, 64, 64), 138_357_544),
    ZooNetwork("squeezenet", "squeezenet-v1.1", _CONVOLUTIONAL, _IMAGE, 1_235_496),
    ZooNetwork("densenet121", "densenet-121", _CONVOLUTIONAL, (1, 3, 128, 128), 7_978_856),
    ZooNetwork("googlenet", "googlenet", _CONVOLUTIONAL, (1, 3, 128, 128), 6_624_904),
    ZooNetwork("mobilenet_v2", "mobilenet-v2", _CONVOLUTIONAL, _IMAGE, 3_504_872),
    ZooNetwork("mobilenet_v3_small", "mobilenet-v3-small", _CONVOLUTIONAL, _IMAGE, 2_542_856),
    ZooNetwork("efficientnet_b0", "efficientnet-b0", _CONVOLUTIONAL, _IMAGE, 5_288_548),
    ZooNetwork("shufflenet_v2", "shufflenet-v2", _CONVOLUTIONAL, _IMAGE, 2_278_604),
    ZooNetwork("bert_base", "bert-base", _TRANSFORMERS, (1, 128), 109_482_240, "int64"),
    ZooNetwork("bert_small", "bert-small", _TRANSFORMERS, (1, 128), 28_763_648, "int64"),
    ZooNetwork("bert_tiny", "bert-tiny", _TRANSFORMERS, (1, 128), 4_385_920, "int64"),
    ZooNetwork("gpt2", "gpt-2", _TRANSFORMERS, (1, 96), 124_439_808, "int64"),
    ZooNetwork("vit_b16", "vit-b16", _TRANSFORMERS, _IMAGE, 86_567_656),
    ZooNetwork("vit_s16", "vit-s16", _TRANSFORMERS, _IMAGE, 22_050_664),
    ZooNetwork("mixer_s16", "mixer-s16", _TRANSFORMERS, _IMAGE, 18_528_264),
    ZooNetwork("convnext_tiny", "convnext-tiny", _TRANSFORMERS, (1, 3, 128, 128), 28_589_128),
    ZooNetwork("lstm", "lstm", _OTHER, (1, 4, 256), 8_808_208),
    ZooNetwork("gru", "gru", _OTHER, (1, 4, 192), 1_937_896),
    ZooNetwork("r3d_18", "r3d-18", _OTHER, (1, 3, 8, 40, 40), 33_371_472),
    ZooNetwork("speech", "speech", _OTHER, (1, 64, 200), 1_311_261),
    ZooNetwork("ssd", "ssd", _OTHER, (1, 3, 160, 160), 3_437_486),
    ZooNetwork("yolo", "yolo", _OTHER, (1, 3, 128, 128), 5_744_334),
    ZooNetwork("unet", "unet", _OTHER, (1, 3, 96, 96), 1_942_917),
    ZooNetwork("dcgan", "dcgan", _OTHER, (1, 100, 1, 1), 3_576_704),
    ZooNetwork("smollm2_prefill", "smollm2-135m-prefill", _LANGUAGE, _PROMPT, 134_515_008, "int64"),
    ZooNetwork("smollm2_decode", "smollm2-135m-decode", _LANGUAGE, _TOKEN, 134_515_008, "int64", _cache(30, 3)),
    ZooNetwork("qwen25_prefill", "qwen2.5-0.5b-prefill", _LANGUAGE, _PROMPT, 225_609_856, "int64"),
    ZooNetwork("qwen25_decode", "qwen2.5-0.5b-decode", _LANGUAGE, _TOKEN, 225_609_856, "int64", _cache(6, 2)),
    ZooNetwork("minilm_l6", "minilm-l6", _TRANSFORMERS, (1, 128), 22_565_376, "int64"),
    ZooNetwork("minilm_l6_batch8", "minilm-l6-batch-8", _TRANSFORMERS, (8, 128), 22_565_376, "int64"),
    ZooNetwork("whisper_tiny_encoder", "whisper-tiny-encoder", _TRANSFORMERS, (1, 80, 3000), 8_208_384),
    ZooNetwork(
        *("stable_diffusion_block", "stable-diffusion-1.5-block", _DIFFUSION, (1, 320, 32, 32), 10_524_480),
        further=((1, 1280), (1, 77, 768)),
    ),
    ZooNetwork("yolov8n", "yolov8n", _MAPS, (1, 3, 640, 640), 3_157_200),
    ZooNetwork("segformer_b0", "segformer-b0", _MAPS, (1, 3, 256, 256), 3_752_694),
)

NETWORKS: dict[str, ZooNetwork] = {network.name: network for network in _ALL}


def find_network(name: str) -> ZooNetwork:
    """Finds the network called `name`.

    Raises:
        UnknownNameError: No network has that name.

    Example:
        >>> find_network("resnet50").shape
        (1, 3, 224, 224)
    """
    if name in NETWORKS:
        return NETWORKS[name]
    raise UnknownNameError("network", name, close_names(name, list(NETWORKS)), "`costhub tune --list`")
