"""Reads, writes and draws the weights of networks; a file with unexpected content is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, deserialize
from safetensors.torch import save_file
from torch import Tensor, nn

from costhub.errors import ModelError
from costhub.models.inputs import MOST_FEATURE, MOST_WEIGHT, read_weights

_DTYPES = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64"}


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Writes tensors to a safetensors file.

    Args:
        path: The file.
        tensors: Name -> tensor.
    """
    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path)


def read_tensors(path: Path, expected: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Reads a safetensors file whose structure is known in advance.

    Args:
        path: The file.
        expected: Name -> a tensor of the right shape and dtype; its values, if any, are ignored.

    Raises:
        ModelError: The file is missing, not a regular file, too large or damaged, or a tensor is missing, unknown, of
            another shape or dtype, not finite, or larger than in any sound model.
    """
    data = read_weights(path, "the weights")
    try:
        stored = dict(deserialize(data))  # type: ignore[no-untyped-call]
    except SafetensorError as error:
        raise ModelError(
            f"{path} cannot be read as safetensors ({error}): it is damaged or cut short. Fetch it again."
        ) from error
    _check_names(path, set(stored), set(expected))
    tensors = {}
    for name, tensor in expected.items():
        _check_form(path, name, tensor, stored[name]["shape"], stored[name]["dtype"])
        tensors[name] = _as_tensor(stored[name]["data"], tensor)
        _check_size(path, name, tensors[name])
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


def _as_tensor(data: bytearray, form: Tensor) -> Tensor:
    """A tensor of the shape and dtype of another one, which may be on "meta"."""
    if not form.numel():  # torch makes no tensor from an empty buffer
        return torch.empty(form.shape, dtype=form.dtype)
    return torch.frombuffer(data, dtype=form.dtype).reshape(form.shape)


def _check_size(path: Path, name: str, tensor: Tensor) -> None:
    most = MOST_FEATURE if name.startswith("scaler") else MOST_WEIGHT
    if not bool(torch.isfinite(tensor).all()):
        raise ModelError(f"{path} holds NaN or infinity in {name}; its scores would be useless. Fetch it again.")
    if tensor.numel() and float(tensor.abs().max()) > most:
        raise ModelError(
            f"{path} holds {float(tensor.abs().max()):.3g} in {name}; in a sound model no number there is beyond "
            f"{most:g}. Fetch or train it again."
        )


def _check_form(path: Path, name: str, expected: Tensor, shape: list[int], dtype: str) -> None:
    if list(shape) != list(expected.shape):
        raise ModelError(
            f"{path} holds {name} of shape {tuple(shape)}, but config.json describes {tuple(expected.shape)}."
        )
    if dtype != _DTYPES[expected.dtype]:
        raise ModelError(f"{path} holds {name} as {dtype}, expected {_DTYPES[expected.dtype]}.")


def draw_weights(network: nn.Module, generator: torch.Generator) -> None:
    """Gives a network that was created on the device "meta" its initial weights, all drawn from `generator`.

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
