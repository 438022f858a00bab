"""Provides profile_engine and profile_tuned: the time of each kernel of a network, by each engine's own profiler."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from costhub.collector.device.cpu_state import pick_cpus, use_cpus
from costhub.collector.run.runner import wake
from costhub.errors import NetworkError, class_and_line
from costhub.isolation.child import Child, ChildDied, ChildTimeout
from costhub.isolation.limits import Limits
from costhub.search.whole_network.engines import Call, onnxruntime_session, openvino_request
from costhub.search.whole_network.network_forms import REST_S, Arrays
from costhub.search.whole_network.network_timer import KEEP_FREED_MEMORY
from scripts.bench.engines.export import ExportedNetwork
from scripts.bench.engines.forms import (
    ENGINES,
    environment,
    torch_call,
)
from scripts.bench.engines.kinds import KernelCall, summarise
from scripts.bench.engines.shapes import Shapes

RUNS = 10
"""With the profiler, and as many without it, in turn."""
_TIMEOUT_S = 1800.0
Profiled = tuple[Call, Callable[[], list[list[KernelCall]]]]
"""What runs the network once, and what returns the kernels of each run at the end."""
Profiler = Callable[[ExportedNetwork, int], Profiled]


def in_child(function: Callable[[], dict[str, Any]], threads: int) -> dict[str, Any]:
    """What one of the functions below returns, called in a process of its own.

    Raises:
        NetworkError: The engine fails.
    """
    limits, variables = Limits.for_network(timeout_s=_TIMEOUT_S), {**KEEP_FREED_MEMORY, **environment(threads)}
    with Child(limits=limits, environment=variables, is_shared=False) as child:
        try:
            return child.call(function, timeout_s=_TIMEOUT_S)
        except (ChildDied, ChildTimeout) as error:
            raise NetworkError(str(error)) from error


def profile_engine(engine: str, network: ExportedNetwork, threads: int) -> dict[str, Any]:
    """The profile of a network in one of the `ENGINES`, as `summarise` has it; raises as `in_child`."""
    use_cpus(pick_cpus(threads))
    try:
        profiled, plain = PROFILERS[engine](network, threads), ENGINES[engine].make(network, threads)
        return _profile(profiled, plain)
    except Exception as error:
        raise NetworkError(class_and_line(error)) from error


def profile_tuned(
    library: str, inputs: Arrays, threads: int, scheduled: Sequence[str], flop: Mapping[str, float]
) -> dict[str, Any]:
    """The profile of a library of `compile_network`, as `summarise` has it; raises as `in_child`.

    Args:
        library: The file.
        inputs: Of the network.
        threads: Of the kernels.
        scheduled: Names of the kernels that have a schedule.
        flop: What `count_flops` returns for the network.
    """
    try:
        wake("cpu", pick_cpus(threads))
        return _profile(*_tvm_calls(library, inputs), scheduled, flop)
    except Exception as error:
        raise NetworkError(class_and_line(error)) from error


def _profile(
    profiled: Profiled, plain: Call, tuned: Sequence[str] | None = None, flop: Mapping[str, float] | None = None
) -> dict[str, Any]:
    run, read = profiled
    whole_us = []
    for _ in range(RUNS):
        # The threads of the other form look for work for a while, and the first call finds the caches cold.
        time.sleep(REST_S)
        plain()
        start = time.perf_counter()
        plain()
        whole_us.append((time.perf_counter() - start) * 1e6)
        time.sleep(REST_S)
        run()
        run()
    return summarise(read()[1::2], statistics.median(whole_us), tuned, flop)


def _kept(take: Callable[[], list[KernelCall]]) -> Profiled:
    """For profilers that give the kernels of each run at once."""
    runs: list[list[KernelCall]] = []
    return lambda: runs.append(take()), lambda: runs


def _torch(network: ExportedNetwork, threads: int, *, compiled: bool = False) -> Profiled:
    import torch

    if compiled:
        from torch._inductor import config

        config.cpp.enable_kernel_profile = True  # Otherwise the kernels that it writes have no names.
    call = torch_call(network, threads, compiled=compiled)

    def take() -> list[KernelCall]:
        activities = [torch.profiler.ProfilerActivity.CPU]
        with torch.profiler.profile(activities=activities, record_shapes=True) as profile:
            call()
        # An operator's own time is without that of the operators that it calls.
        return [
            KernelCall(event.name, _shapes(event.input_shapes), event.self_cpu_time_total)
            for event in profile.events() or ()
        ]

    return _kept(take)


def _shapes(found: Sequence[Any]) -> Shapes:
    """Of the tensors among the arguments of an operator."""
    return tuple(tuple(shape) for shape in found if shape and all(isinstance(extent, int) for extent in shape))


def _onnxruntime(network: ExportedNetwork, threads: int) -> Profiled:
    folder = tempfile.TemporaryDirectory(prefix="costhub-profile-")
    session, given = onnxruntime_session(
        str(network.onnx), network.inputs, threads, profile=str(Path(folder.name, "profile"))
    )

    def read() -> list[list[KernelCall]]:
        with folder:  # A session's profile holds all its runs and is written only once.
            return read_onnxruntime(json.loads(Path(session.end_profiling()).read_text()))

    return partial(session.run, None, given), read


def read_onnxruntime(events: Sequence[Mapping[str, Any]]) -> list[list[KernelCall]]:
    """The nodes of each run in a profile of ONNX Runtime.

    Example:
        >>> shapes = {"input_type_shape": [{"float": [1, 8]}], "output_type_shape": [{"float": [1, 8]}]}
        >>> node = {"cat": "Node", "name": "n_kernel_time", "ts": 1, "dur": 3, "args": {"op_name": "Relu", **shapes}}
        >>> runs = [{"cat": "Session", "name": "model_run", "ts": ts, "dur": 9} for ts in (0, 20)]
        >>> (first,), (second,) = read_onnxruntime([node, runs[0], {**node, "ts": 21, "dur": 2}, runs[1]])
        >>> first, second.us
        (KernelCall(name='Relu', shapes=((1, 8),), us=3.0, out=(1, 8)), 2.0)
    """
    begins = sorted(event["ts"] for event in events if event.get("name") == "model_run")
    runs: list[list[KernelCall]] = [[] for _ in begins]
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            shapes, outs = (_onnx_shapes(event["args"], which) for which in ("input", "output"))
            call = KernelCall(event["args"]["op_name"], shapes, float(event["dur"]), outs[0] if outs else None)
            runs[bisect_right(begins, event["ts"]) - 1].append(call)
    return runs


def _onnx_shapes(about: Mapping[str, Any], which: str) -> Shapes:
    return tuple(tuple(shape) for each in about.get(f"{which}_type_shape", ()) for shape in each.values())


def _openvino(network: ExportedNetwork, threads: int, *, precision: str | None = None) -> Profiled:
    compiled, request = openvino_request(str(network.onnx), network.inputs, threads, precision=precision, profiled=True)
    nodes = {node.get_friendly_name(): node for node in compiled.get_runtime_model().get_ordered_ops()}
    shapes = {name: tuple(tuple(each.get_shape()) for each in node.inputs()) for name, node in nodes.items()}
    outs = {name: tuple(node.output(0).get_shape()) for name, node in nodes.items() if node.get_output_size()}

    def take() -> list[KernelCall]:
        request.infer()
        return [
            KernelCall(
                _openvino_name(each, nodes),
                shapes.get(each.node_name, ()),
                each.real_time.total_seconds() * 1e6,
                outs.get(each.node_name),
            )
            for each in request.get_profiling_info()
            if each.real_time
        ]

    return _kept(take)


def _openvino_name(info: Any, nodes: Mapping[str, Any]) -> str:
    """The operator; of several in one kernel, all of their names."""
    if info.node_type != "Subgraph" or info.node_name not in nodes:
        return str(info.node_type)
    about = nodes[info.node_name].get_rt_info()
    return f"Subgraph {about['originalLayersNames'].astype(str).rstrip(',')}"


def _tvm_calls(library: str, inputs: Arrays) -> tuple[Profiled, Call]:
    """TVM 0.27 has no profiler of its virtual machine; it calls a function before and after each instruction."""
    import tvm
    from tvm import relax

    module, arguments = tvm.runtime.load_module(library), [tvm.runtime.tensor(value) for value in inputs]
    watched, plain = (relax.VirtualMachine(module, tvm.cpu()) for _ in range(2))
    begun: list[tuple[Shapes, float]] = []
    calls: list[KernelCall] = []

    def note(_: Any, name: str, is_before: bool, __: Any, *given: Any) -> int:
        now = time.perf_counter()
        if is_before:
            shapes = tuple(tuple(map(int, each.shape)) for each in given if isinstance(each, tvm.runtime.Tensor))
            begun.append((shapes, time.perf_counter()))
        else:
            shapes, start = begun.pop()
            calls.append(KernelCall(name, shapes, (now - start) * 1e6, shapes[-1] if shapes else None))
        return 0  # Otherwise the instruction would be left out.

    watched.set_instrument(note)
    run = watched["main"]

    def take() -> list[KernelCall]:
        calls.clear()
        run(*arguments)
        return list(calls)

    main = plain["main"]
    return _kept(take), lambda: main(*arguments)


PROFILERS: Mapping[str, Profiler] = {
    "torch": _torch,
    "torch.compile": partial(_torch, compiled=True),
    "onnxruntime": _onnxruntime,
    "openvino-f32": partial(_openvino, precision="f32"),
    "openvino": _openvino,
}
"""Of each of the `ENGINES`."""
