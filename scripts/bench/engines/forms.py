"""Provides ENGINES: how each engine loads a network in its process, and what it is set to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

from costhub.collector.device.cpu_state import pick_cpus, tvm_threads, use_cpus
from costhub.search.whole_network.network_forms import Arrays, hold_form, load_library
from scripts.bench.engines.export import ExportedNetwork

Call = Callable[[], Any]
"""Runs the network once, with its inputs."""
FLOAT32 = "float32"


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


def onnxruntime_session(
    network: ExportedNetwork, threads: int, *, profile: str | None = None
) -> tuple[Any, dict[str, Any]]:
    """A session of ONNX Runtime on CPUs with all its graph optimisations, which are its default, and its inputs.

    Args:
        network: With an ONNX file.
        threads: Of each operator; operators run one after the other.
        profile: How the names of profiles begin; None for none.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3  # errors
    if profile is not None:
        options.enable_profiling, options.profile_file_prefix = True, profile
    session = onnxruntime.InferenceSession(str(network.onnx), options, providers=["CPUExecutionProvider"])
    return session, {each.name: value for each, value in zip(session.get_inputs(), network.inputs, strict=True)}


def onnxruntime_call(network: ExportedNetwork, threads: int) -> Call:
    """ONNX Runtime."""
    session, given = onnxruntime_session(network, threads)
    return partial(session.run, None, given)


def openvino_request(
    network: ExportedNetwork, threads: int, *, precision: str | None = None, profiled: bool = False
) -> tuple[Any, Any]:
    """A compiled model of OpenVINO for one request at a time, and the request, which holds its inputs.

    Args:
        network: With an ONNX file.
        threads: As for `onnxruntime_session`.
        precision: OpenVINO's name of a type, such as ``f32``; None for what it chooses on this CPU.
        profiled: Whether it notes the time of each operator.
    """
    import openvino

    settings: dict[str, Any] = {"PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1, "INFERENCE_NUM_THREADS": threads}
    if precision is not None:
        settings["INFERENCE_PRECISION_HINT"] = precision
    if profiled:
        settings["PERF_COUNT"] = True
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(network.onnx), "CPU", settings)
    request = compiled.create_infer_request()
    for number, value in enumerate(network.inputs):
        request.set_input_tensor(number, openvino.Tensor(value, shared_memory=True))
    return compiled, request


def openvino_call(network: ExportedNetwork, threads: int, *, precision: str | None = None) -> Call:
    """OpenVINO."""
    compiled, request = openvino_request(network, threads, precision=precision)
    count = len(compiled.outputs)

    def infer() -> Any:
        request.infer()
        return [request.get_output_tensor(number).data for number in range(count)]

    return infer


def openvino_precision(network: ExportedNetwork, threads: int) -> str:
    """What OpenVINO computes in by default on this CPU, as NumPy or torch name it."""
    compiled, _ = openvino_request(network, threads)
    chosen = str(compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name())
    return {"f32": FLOAT32, "bf16": "bfloat16", "f16": "float16"}.get(chosen, chosen)


TORCH = "torch"
OPENVINO = "openvino"
"""The one whose precision is its own choice."""
ENGINES: Mapping[str, Engine] = {
    TORCH: Engine("PyTorch", "torch", torch_call),
    "torch.compile": Engine("`torch.compile`", "torch", partial(torch_call, compiled=True)),
    "onnxruntime": Engine("ONNX Runtime", "onnxruntime", onnxruntime_call),
    "openvino-f32": Engine("OpenVINO, float32", "openvino", partial(openvino_call, precision="f32")),
    OPENVINO: Engine("OpenVINO, its default", "openvino", openvino_call, precision=None),
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
