"""Provides load_engines: a network in ONNX Runtime and OpenVINO, beside the forms that TVM and torch run."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from costhub.collector.workloads.network_source import FLOAT32
from costhub.errors import (
    CosthubError,
    NetworkError,
    UnknownNameError,
    class_and_line,
    either,
    last_line,
)
from costhub.names import close_names, refuse_text

if TYPE_CHECKING:
    from costhub.search.whole_network.network_forms import Arrays
    from costhub.search.whole_network.network_timer import NetworkTimer

ONNX_RUNTIME, OPENVINO = "onnxruntime", "openvino"
ENGINES: Mapping[str, str] = {ONNX_RUNTIME: "ONNX Runtime", OPENVINO: "OpenVINO"}
"""Engine, by the name of its package -> its readable name."""
EXPORTERS = ("onnx", "onnxscript")
"""Packages that ``torch.onnx.export`` needs."""
PRECISIONS = {"f32": FLOAT32, "bf16": "bfloat16", "f16": "float16"}
"""OpenVINO's name of a type -> NumPy's or torch's."""
EXPORT_TIMEOUT_S = 1200.0
Call = Callable[[], Any]
"""Runs a network once, with its inputs."""


def check_engines(names: Collection[str]) -> None:
    """Refuses engines that are unknown or not installed; nothing is imported.

    Raises:
        UnknownNameError: There is no such engine.
        ArgumentError: They are one text.
        CosthubError: A package is missing.

    Example:
        >>> check_engines(["tflite"])
        Traceback (most recent call last):
        costhub.errors.UnknownNameError: There is no engine named 'tflite'. There are onnxruntime and openvino.
    """
    refuse_text(names, "The engines are")
    for name in names:
        if name not in ENGINES:
            raise UnknownNameError(
                "engine", name, close_names(name, list(ENGINES)), "`costhub tune --help`", [*ENGINES]
            )
    needed = dict.fromkeys([*names, *EXPORTERS] if names else [])
    missing = [package for package in needed if find_spec(package) is None]
    if missing:
        titles = either([ENGINES[name] for name in dict.fromkeys(names)], "and")
        raise CosthubError(
            f"{titles} cannot be timed without {either(missing, 'and')}, which {'is' if len(missing) == 1 else 'are'} "
            "not installed: `pip install 'costhub[engines]'`."
        )


def engine_versions(forms: Iterable[str]) -> dict[str, str]:
    """Package -> version, of the engines among forms that were timed.

    Example:
        >>> engine_versions(["tuned", "torch"])
        {}
    """
    found = {}
    for name in dict.fromkeys(form.partition("-")[0] for form in forms):
        if name in ENGINES:
            with contextlib.suppress(metadata.PackageNotFoundError):  # of a distribution of another name
                found[name] = metadata.version(name)
    return found


def load_engines(
    timer: NetworkTimer,
    engines: Collection[str],
    network: str,
    reference: Sequence[Any],
    *,
    folder: str,
    by_default: bool = False,
) -> tuple[str, ...]:
    """Adds a network as engines run it, on this machine's CPU, with as many threads as the other forms.

    A form is ``onnxruntime``, or ``openvino-float32`` with the precision in which OpenVINO computes. One whose outputs
    are not torch's is left out.

    Args:
        timer: Of the other forms.
        engines: Of `ENGINES`; their packages are installed.
        network: What `costhub.collector.workloads.network_source.read_torch` takes.
        reference: What torch computes.
        folder: Where the ONNX file goes.
        by_default: Whether OpenVINO computes in the precision that it chooses on this CPU, rather than in float32.

    Returns:
        A sentence for each engine that was left out, or that computes in another precision than float32.
    """
    from costhub.isolation.child import ChildDied, ChildError

    names, path = [name for name in ENGINES if name in engines], os.path.join(folder, "network.onnx")
    titles = either([ENGINES[name] for name in names], "and")
    try:
        _in_child(export_onnx, network, timer.inputs, path)
    except (CosthubError, ChildError) as error:
        were = "was" if len(names) == 1 else "were"
        why = error if isinstance(error, ChildDied) else last_line(error)
        return (f"{titles} {were} not timed, since torch cannot export the network to ONNX. {why}",)
    notes: list[str] = []
    for name in names:
        try:
            precision = FLOAT32
            if by_default and name == OPENVINO:
                precision = str(_in_child(openvino_precision, path, timer.inputs, timer.threads))
            notes += _load(timer, name, path, reference, precision, by_default=by_default)
        except (CosthubError, ChildError) as error:
            notes.append(f"{ENGINES[name]} was not timed. {last_line(error)}")
    return tuple(notes)


def _load(
    timer: NetworkTimer, name: str, path: str, reference: Sequence[Any], precision: str, *, by_default: bool
) -> Iterator[str]:
    """Adds the form of one engine; raises a MeasureError if it does not run."""
    from costhub.search.whole_network.network_outputs import (
        BF16_TOLERANCE,
        compare_outputs,
        rms_error,
        widest_tolerance,
    )

    form = f"{name}-{precision}" if name == OPENVINO else name
    load = partial(load_onnx, name, path, timer.inputs, timer.threads, by_default)
    outputs = timer.load_form(form, load, {"OMP_NUM_THREADS": str(timer.threads)})
    mismatch, error = compare_outputs(outputs, reference), rms_error(outputs, reference)
    limit = f"tolerance {widest_tolerance(reference):g} of their size"
    if precision != FLOAT32 and error is not None and error <= BF16_TOLERANCE:
        mismatch = None
        yield (
            f"{ENGINES[name]} computes in {precision}, as it does by default on this CPU: its outputs differ from "
            f"PyTorch's by {100 * error:.2g} % of their size (root mean square)."
        )
    if mismatch:
        timer.drop(form)
        yield f"{ENGINES[name]} was not timed: its outputs are not torch's, {mismatch} ({limit})."


def _in_child(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns in a process of its own, whose imports end with it."""
    from costhub.isolation.child import Child
    from costhub.isolation.limits import Limits

    with Child(limits=Limits.for_network(timeout_s=EXPORT_TIMEOUT_S), is_shared=False) as child:
        return child.call(function, *arguments, timeout_s=EXPORT_TIMEOUT_S)


def export_onnx(network: str, inputs: Arrays, path: str) -> None:
    """Writes a network as an ONNX file.

    Args:
        network: What `costhub.collector.workloads.network_source.read_torch` takes.
        inputs: An example of each input, as NumPy arrays.
        path: The file; its weights go into one beside it.

    Raises:
        NetworkError: torch cannot read or export the network.
    """
    try:
        import torch

        from costhub.collector.workloads.network_source import read_torch

        module, _ = read_torch(network)
        write_onnx(module, tuple(torch.from_numpy(value) for value in inputs), path)
    except Exception as error:
        raise NetworkError(class_and_line(_root(error))) from error


def _root(error: BaseException) -> BaseException:
    """The error that led to another one: the last line of the exporter's own says only where to look."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def write_onnx(network: Any, inputs: tuple[Any, ...], path: str) -> None:
    """Writes a ``torch.nn.Module`` as an ONNX file; raises whatever torch raises.

    Args:
        network: In evaluation mode.
        inputs: Tensors of torch.
        path: The file; its weights go into one beside it.
    """
    import torch

    with torch.no_grad(), quiet():
        torch.onnx.export(network, inputs, path, dynamo=True, external_data=True, verbose=False)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """The exporter of torch prints, and warns of torchvision, which is not needed, and of torch itself."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


def load_onnx(engine: str, path: str, inputs: Arrays, threads: int, by_default: bool) -> Arrays:
    """Loads an ONNX file in this process as one of the `ENGINES`, and calls it once.

    Args:
        engine: Its name.
        path: The file.
        inputs: Of the network, as NumPy arrays.
        threads: How many threads compute, each on a CPU of its own.
        by_default: As for `load_engines`.

    Raises:
        NetworkError: The engine fails.
    """
    from costhub.collector.device.cpu_state import pick_cpus, use_cpus
    from costhub.search.whole_network.network_forms import hold_form

    use_cpus(pick_cpus(threads))
    if engine == ONNX_RUNTIME:
        return hold_form(partial(onnxruntime_call, path, inputs, threads))
    return hold_form(partial(openvino_call, path, inputs, threads, precision=None if by_default else "f32"))


def onnxruntime_session(
    path: str, inputs: Arrays, threads: int, *, profile: str | None = None
) -> tuple[Any, dict[str, Any]]:
    """A session of ONNX Runtime on CPUs with all its graph optimisations, which are its default, and its inputs.

    Args:
        path: The ONNX file.
        inputs: Of the network, as NumPy arrays.
        threads: Of each operator; operators run one after the other.
        profile: How the names of profiles begin; None for none.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3  # errors
    if profile is not None:
        options.enable_profiling, options.profile_file_prefix = True, profile
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session, {each.name: value for each, value in zip(session.get_inputs(), inputs, strict=True)}


def onnxruntime_call(path: str, inputs: Arrays, threads: int) -> Call:
    """A network in ONNX Runtime; the arguments are as for `onnxruntime_session`."""
    session, given = onnxruntime_session(path, inputs, threads)
    return partial(session.run, None, given)


def openvino_request(
    path: str, inputs: Arrays, threads: int, *, precision: str | None = None, profiled: bool = False
) -> tuple[Any, Any]:
    """A compiled model of OpenVINO for one request at a time, and the request, which holds its inputs.

    Args:
        path: The ONNX file.
        inputs: Of the network, as NumPy arrays.
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
    compiled = core.compile_model(core.read_model(path), "CPU", settings)
    request = compiled.create_infer_request()
    for number, value in enumerate(inputs):
        request.set_input_tensor(number, openvino.Tensor(value, shared_memory=True))
    return compiled, request


def openvino_call(path: str, inputs: Arrays, threads: int, *, precision: str | None = None) -> Call:
    """A network in OpenVINO; the arguments are as for `openvino_request`."""
    compiled, request = openvino_request(path, inputs, threads, precision=precision)
    count = len(compiled.outputs)

    def infer() -> Any:
        request.infer()
        return [request.get_output_tensor(number).data for number in range(count)]

    return infer


def openvino_precision(path: str, inputs: Arrays, threads: int) -> str:
    """What OpenVINO computes in by default on this CPU, as NumPy or torch name it."""
    compiled, _ = openvino_request(path, inputs, threads)
    chosen = str(compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name())
    return PRECISIONS.get(chosen, chosen)
