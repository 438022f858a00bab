"""Provides draw_weights: the initial weights of a network, from a generator of its own."""

from __future__ import annotations

import math

import torch
from torch import nn


def draw_weights(network: nn.Module, generator: torch.Generator) -> None:
    """Gives a network that was made on the device "meta" its first weights, and nothing else its randomness.

    Linear layers, recurrent cells and tables of vectors: uniform within 1 / sqrt(inputs), biases included, as
    PyTorch itself chooses for linear layers. Normalisations begin by changing nothing.

    Args:
        network: Layers whose weights need no values yet; it has no buffers, which would be lost.
        generator: Draws the weights, layer by layer.

    Example:
        >>> with torch.device("meta"):
        ...     layer = nn.Linear(4, 2)
        >>> draw_weights(layer, torch.Generator().manual_seed(0))
        >>> bool(layer.weight.abs().max() <= 0.5), bool(layer.bias.abs().max() > 0)
        (True, True)
    """
    network.to_empty(device="cpu")
    for layer in network.modules():
        weights = list(layer.parameters(recurse=False))
        if isinstance(layer, nn.LayerNorm):
            layer.reset_parameters()
        elif weights:
            bound = 1.0 / math.sqrt(weights[0].shape[-1])
            for weight in weights:
                nn.init.uniform_(weight, -bound, bound, generator=generator)
