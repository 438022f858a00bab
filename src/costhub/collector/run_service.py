"""The run service: times one compiled program on the device, inside a `costhub.worker` child of its own."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

ARGUMENT_CACHE_BYTES = 1 << 30
# A call this long is timed once: its spread is far below the differences between programs, and a few such
# programs would otherwise cost more than all the others together.
SLOW_CALL_S = 0.2

Arguments = tuple[tuple[str, tuple[int, ...]], ...]
"""(dtype, shape) of each argument of a program."""


@dataclass(frozen=True)
class Evaluator:
    """How a latency is taken; the settings of TVM's time evaluator."""

    number: int = 1
    repeat: int = 3
    min_repeat_ms: int = 10
    cache_flush: bool = False


@dataclass(frozen=True)
class RunRequest:
    """One shared library to time."""

    artifact: str
    device_kind: str
    """TVM's device name: ``cpu``, ``cuda``, …"""
    arguments: Arguments
    evaluator: Evaluator


@dataclass(frozen=True)
class ReferenceRequest:
    """Time the reference kernel, whose drift tells whether the device is still what it was."""

    device_kind: str
    target: str


@dataclass(frozen=True)
class RunReply:
    """What became of a request: seconds per call for each repeat, or the error's text."""

    run_s: tuple[float, ...]
    wall_s: float
    error: str | None


_arguments: dict[tuple[str, Arguments], list[Any]] = {}
_reference: dict[str, Any] = {}


def handle(request: RunRequest | ReferenceRequest | str) -> RunReply | None:
    """Runs the program or the reference kernel; an exception becomes the reply's error text.

    TVM's name of a device alone (a string) only warms the worker up, so that start-up is never timed.
    """
    if isinstance(request, str):
        _warm_up(request)
        return None
    start = time.perf_counter()
    try:
        seconds = _time_program(request) if isinstance(request, RunRequest) else _time_reference(request)
    except Exception as error:
        text = str(error).strip() or type(error).__name__
        return RunReply((), time.perf_counter() - start, f"{type(error).__name__}: {text[-1000:]}")
    return RunReply(seconds, time.perf_counter() - start, None)


def _warm_up(device_kind: str) -> None:
    import tvm

    device = tvm.device(device_kind, 0)
    if device.exist:
        device.sync()


def _time_program(request: RunRequest) -> tuple[float, ...]:
    import tvm

    module = tvm.runtime.load_module(request.artifact)
    device = tvm.device(request.device_kind, 0)
    arguments = _allocate(request, device)
    evaluator = request.evaluator
    warm_up_s = _one_call(module, device, arguments)
    if warm_up_s > SLOW_CALL_S:
        return (min(warm_up_s, _one_call(module, device, arguments)),)
    timer = module.time_evaluator(
        "main",
        device,
        number=evaluator.number,
        repeat=evaluator.repeat,
        min_repeat_ms=evaluator.min_repeat_ms,
        f_preproc="cache_flush_cpu_non_first_arg" if evaluator.cache_flush else "",
    )
    return tuple(float(s) for s in timer(*arguments).results)


def _one_call(module: Any, device: Any, arguments: list[Any]) -> float:
    start = time.perf_counter()
    module["main"](*arguments)
    device.sync()
    return time.perf_counter() - start


def _allocate(request: RunRequest, device: Any) -> list[Any]:
    """Arguments of the wanted shapes.

    They are kept between the programs of one workload, as filling them costs as much as running.
    """
    import tvm

    key = (request.device_kind, request.arguments)
    if key not in _arguments:
        held = sum(_nbytes(arguments) for _, arguments in _arguments)
        if held + _nbytes(request.arguments) > ARGUMENT_CACHE_BYTES:
            _arguments.clear()
        rng = np.random.default_rng(0)
        _arguments[key] = [
            tvm.runtime.tensor(_values(rng, dtype, shape), device) for dtype, shape in request.arguments
        ]
    return _arguments[key]


def _nbytes(arguments: Arguments) -> int:
    return sum(int(np.prod(shape)) * np.dtype(dtype).itemsize for dtype, shape in arguments)


def _values(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Any:
    # Zeros and denormals run at another speed than the numbers of a real network.
    if np.dtype(dtype).kind == "f":
        return rng.uniform(0.1, 1.0, shape).astype(dtype)
    return rng.integers(1, 8, shape).astype(dtype)


def _time_reference(request: ReferenceRequest) -> tuple[float, ...]:
    import tvm

    device = tvm.device(request.device_kind, 0)
    if request.target not in _reference:
        _reference[request.target] = _build_reference(request.target, device)
    timer, arguments = _reference[request.target]
    return tuple(float(s) for s in timer(*arguments).results)


def _build_reference(target: str, device: Any) -> tuple[Any, list[Any]]:
    """A fixed, parallel 256 x 256 matrix product: about a millisecond that uses every core."""
    import tvm
    from tvm import te

    from costhub.collector.build_service import prepare

    size = 256
    a = te.placeholder((size, size), name="A")
    b = te.placeholder((size, size), name="B")
    k = te.reduce_axis((0, size), name="k")
    c = te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    function = te.create_prim_func([a, b, c]).with_attr("global_symbol", "main")
    schedule = tvm.s_tir.Schedule(function)
    block = schedule.get_sblock("C")
    i, j, reduction = schedule.get_loops(block)
    if device.dlpack_device_type() == 1:  # a CPU
        outer, inner = schedule.split(j, factors=[None, 16])
        schedule.reorder(i, outer, reduction, inner)
        schedule.parallel(i)
        schedule.vectorize(inner)
    else:
        schedule.bind(i, "blockIdx.x")
        schedule.bind(j, "threadIdx.x")
    built = tvm.compile(schedule.mod, target=prepare(target))
    rng = np.random.default_rng(0)
    arguments = [tvm.runtime.tensor(_values(rng, "float32", (size, size)), device) for _ in range(3)]
    return built.mod.time_evaluator("main", device, number=1, repeat=3, min_repeat_ms=10), arguments
