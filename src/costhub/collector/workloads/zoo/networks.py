"""Provides NETWORKS and find_network: the networks of the zoo by name, each with an input."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from costhub.errors import UnknownNameError
from costhub.names import close_names


@dataclass(frozen=True)
class ZooNetwork:
    """One network and the input for which its operators are measured, at batch 1."""

    name: str
    """Its name on the command line, and of the function that builds it."""
    label: str
    """Its name in the workloads table, in papers, and in the splits by network."""
    module: str
    """The module of the zoo that contains it."""
    shape: tuple[int, ...]
    """Shape of its only input."""
    parameters: int
    """Number of parameters: as published or, for our own networks, as built."""
    dtype: str = "float32"
    """Dtype of its input."""

    def build(self, *, seed: int = 0, device: str = "cpu") -> Any:
        """The ``torch.nn.Module`` in evaluation mode.

        Its weights are random, so batch normalisation takes its statistics from `example`: with those that it begins
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
        return network if device == "meta" else with_statistics(network, (self.example(seed=seed),))

    def example(self, *, seed: int = 0, device: str = "cpu") -> Any:
        """An input (``torch.Tensor``) for it: normally distributed numbers, or word ids below 1,000."""
        import torch

        if device == "meta":
            return torch.empty(self.shape, dtype=getattr(torch, self.dtype), device="meta")
        generator = torch.Generator().manual_seed(seed)
        if self.dtype == "int64":
            return torch.randint(1000, self.shape, generator=generator)
        return torch.randn(self.shape, generator=generator)


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
_IMAGE = (1, 3, 224, 224)

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
