"""Provides ENGINES: how each engine loads a network in its process, and what it is set to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

from costhub.collector.device.cpu_state import pick_cpus, tvm_threads, use_cpus
from costhub.collector.workloads.network_source import FLOAT32
from costhub.search.whole_network.engines import OPENVINO, Call, onnxruntime_call, openvino_call
from costhub.search.whole_network.network_forms import Arrays, hold_form, load_library
from scripts.bench.engines.export import ExportedNetwork

TORCH = "torch"


@dataclass(frozen=True)
class Engine:
    """One way to run a network."""

    title: str
    package: str
    """What has to be installed."""
    make: Callable[[ExportedNetwork, int], Call]
    """Loads the network with so many threads."""
    precision: str | None = FLOAT32
    """What it computes in; None where the engine chooses, see `openvino_precision`."""

    @property
    def is_installed(self) -> bool:
        """Whether its package is here."""
        return find_spec(self.package) is not None


def torch_call(network: ExportedNetwork, threads: int, *, compiled: bool = False) -> Call:
    """torch, eager or by ``torch.compile`` with its defaults."""
    import torch
    from safetensors.torch import load_model

    from scripts.bench.engines.networks import build_network

    torch.set_num_threads(threads)
    module, _ = build_network(network.name)
    load_model(module, network.weights)
    call = torch.compile(module) if compiled else module
    arguments = [torch.from_numpy(value) for value in network.inputs]

    def without_gradients() -> Any:
        with torch.inference_mode():
            return call(*arguments)

    return without_gradients


def onnx_call(network: ExportedNetwork, threads: int, *, make: Callable[..., Call]) -> Call:
    """An engine that reads the ONNX file, by its function of `costhub.search.whole_network.engines`."""
    return make(str(network.onnx), network.inputs, threads)


ENGINES: Mapping[str, Engine] = {
    TORCH: Engine("PyTorch", "torch", torch_call),
    "torch.compile": Engine("`torch.compile`", "torch", partial(torch_call, compiled=True)),
    "onnxruntime": Engine("ONNX Runtime", "onnxruntime", partial(onnx_call, make=onnxruntime_call)),
    "openvino-f32": Engine(
        "OpenVINO, float32", OPENVINO, partial(onnx_call, make=partial(openvino_call, precision="f32"))
    ),
    OPENVINO: Engine("OpenVINO, its default", OPENVINO, partial(onnx_call, make=openvino_call), precision=None),
}
"""Those that take a network as it is, without a search."""


def load_engine(engine: str, network: ExportedNetwork, threads: int) -> Arrays:
    """Loads a network in this process as one of the `ENGINES`, and calls it once.

    Raises:
        NetworkError: The engine fails.
    """
    use_cpus(pick_cpus(threads))
    return hold_form(partial(ENGINES[engine].make, network, threads))


def load_tuned(library: str, inputs: Arrays, threads: int) -> Arrays:
    """Loads a library of `compile_network` in this process, and calls it once; raises as `load_engine`."""
    return load_library(library, inputs, pick_cpus(threads))


def environment(threads: int) -> dict[str, str]:
    """Of the process of any engine: each has a pool of its own, of which all get the same size."""
    # Otherwise Inductor compiles in its own processes, which stay.
    return {**tvm_threads(threads), "OMP_NUM_THREADS": str(threads), "TORCHINDUCTOR_COMPILE_THREADS": "1"}


def relative_error(outputs: Sequence[Any], reference: Sequence[Any]) -> float:
    """The largest difference relative to the largest number of the same output, the worst over the outputs.

    Args:
        outputs: NumPy arrays.
        reference: Those of the other engine.

    Example:
        >>> import numpy as np
        >>> relative_error([np.array([1.0, 4.5]), np.zeros(1)], [np.array([1.0, 5.0]), np.zeros(1)])
        0.1
    """
    import numpy as np

    worst = 0.0
    for one, other in zip(outputs, reference, strict=True):
        size, gap = float(np.abs(other).max(initial=0.0)), float(np.abs(one - other).max(initial=0.0))
        if gap:
            worst = max(worst, gap / size if size else float("inf"))
    return worst
