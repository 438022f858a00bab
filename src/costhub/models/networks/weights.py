"""Reads, writes and draws the weights of networks; a file that does not hold what the code expects is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from costhub.errors import ModelError
from costhub.models.inputs import check_weights_file

_DTYPES = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64"}


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Writes tensors to a safetensors file.

    Args:
        path: The file.
        tensors: Name -> tensor.
    """
    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path)


def read_tensors(path: Path, expected: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Reads a safetensors file whose content is known beforehand.

    Args:
        path: The file.
        expected: Name -> a tensor of the right shape and dtype; its values, if any, are not looked at.

    Raises:
        ModelError: The file is missing, too large or damaged, or a tensor is missing, unknown, of another
            shape or dtype, or not finite.
    """
    check_weights_file(path, "the weights")
    try:
        with safe_open(path, framework="pt") as file:
            _check_names(path, set(file.keys()), set(expected))
            for name, tensor in expected.items():
                stored = file.get_slice(name)
                _check_form(path, name, tensor, stored.get_shape(), stored.get_dtype())
            tensors = {name: file.get_tensor(name) for name in expected}
    except (SafetensorError, OSError) as error:
        raise ModelError(
            f"{path} cannot be read as safetensors ({error}): it is damaged or cut short. Fetch it again."
        ) from error
    for name, tensor in tensors.items():
        if not bool(torch.isfinite(tensor).all()):
            raise ModelError(f"{path} holds NaN or infinity in {name}; its scores would be useless. Fetch it again.")
    return tensors


def with_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with the prefix, under the rest of their names.

    Example:
        >>> list(with_prefix("member_0.", {"member_0.score": torch.ones(1), "scaler.mean": torch.ones(1)}))
        ['score']
    """
    return {name[len(prefix) :]: tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _check_names(path: Path, present: set[str], expected: set[str]) -> None:
    if present != expected:
        missing, unknown = sorted(expected - present)[:3], sorted(present - expected)[:3]
        lists = (("lacks", missing), ("holds unknown", unknown))
        faults = [f"{fault} {', '.join(names)}" for fault, names in lists if names]
        raise ModelError(f"{path} {' and '.join(faults)}: its tensors are not those that config.json describes.")


def _check_form(path: Path, name: str, expected: Tensor, shape: list[int], dtype: str) -> None:
    if list(shape) != list(expected.shape):
        raise ModelError(
            f"{path} holds {name} of shape {tuple(shape)}, but config.json describes {tuple(expected.shape)}."
        )
    if dtype != _DTYPES[expected.dtype]:
        raise ModelError(f"{path} holds {name} as {dtype}, expected {_DTYPES[expected.dtype]}.")


def draw_weights(network: nn.Module, generator: torch.Generator) -> None:
    """Gives a network that was made on the device "meta" its first weights, all drawn from `generator`.

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
