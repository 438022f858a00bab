"""Provides export_network: a network in the files from which the engines load it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from costhub.errors import NetworkError, class_and_line
from costhub.isolation.child import Child, ChildDied, ChildTimeout
from costhub.isolation.limits import Limits
from costhub.search.whole_network.engines import ENGINES, quiet, write_onnx
from costhub.search.whole_network.network_forms import Arrays

_TIMEOUT_S = 1200.0


@dataclass(frozen=True)
class ExportedNetwork:
    """A network in files."""

    name: str
    folder: Path
    inputs: Arrays
    """An example of each, as NumPy arrays."""

    @property
    def program(self) -> Path:
        """What ``torch.export.save`` wrote, for costhub and stock TVM."""
        return self.folder / f"{self.name}.pt2"

    @property
    def weights(self) -> Path:
        """For torch, which runs the network's own code."""
        return self.folder / "weights.safetensors"

    @property
    def onnx(self) -> Path:
        """What ``torch.onnx.export`` wrote; missing where no engine that reads it is installed."""
        return self.folder / "network.onnx"


def export_network(name: str, folder: Path) -> ExportedNetwork:
    """Writes a network's files, in a child process that ends.

    Args:
        name: As for `build_network`.
        folder: Where the files go; it is made.

    Raises:
        NetworkError: torch cannot export the network.
    """
    folder.mkdir(parents=True)
    with Child(limits=Limits.for_network(timeout_s=_TIMEOUT_S), is_shared=False) as child:
        try:
            inputs = child.call(write_files, name, folder, timeout_s=_TIMEOUT_S)
        except (NetworkError, ChildDied, ChildTimeout) as error:
            raise NetworkError(f"The network {name} cannot be exported: {str(error).rstrip('.')}.") from error
    return ExportedNetwork(name, folder, inputs)


def write_files(name: str, folder: Path) -> Arrays:
    """Writes the files of an `ExportedNetwork`, and returns its inputs; raises as `export_network`."""
    import torch
    from safetensors.torch import save_model

    # Only here: processes that load other engines import this file, and would wait for torch.
    from scripts.bench.engines.networks import build_network

    try:
        network, inputs = build_network(name)
        exported = ExportedNetwork(name, folder, tuple(each.numpy() for each in inputs))
        save_model(network, str(exported.weights))
        with torch.no_grad(), quiet():
            torch.export.save(torch.export.export(network, inputs), exported.program)
        if any(find_spec(package) for package in ENGINES):
            write_onnx(network, inputs, str(exported.onnx))
    except Exception as error:
        raise NetworkError(class_and_line(error)) from error
    return exported.inputs
