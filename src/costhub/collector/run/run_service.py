"""Times one compiled program on the device, inside a child process of its own."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

from costhub.collector.run.evaluator import Arguments, Evaluator, forget, nbytes, on_device, one_call, take
from costhub.collector.run.output_check import ExpectedOutputs
from costhub.collector.run.reference import time_reference
from costhub.errors import class_and_end

EXPECTED_CACHE_BYTES = 1 << 30
# TVM's mode of its thread pool in which each thread has its own CPU (kSpecifyOneCorePerThread).
ONE_CPU_PER_THREAD = -2


@dataclass(frozen=True)
class WarmUp:
    """Load TVM and wake the device, so that neither is ever timed."""

    device_kind: str
    """TVM's device name: ``cpu``, ``cuda``, …"""
    cpus: tuple[int, ...] = ()
    """The CPUs that the process may use, one for each thread of TVM; all where it is empty."""


@dataclass(frozen=True)
class RunRequest:
    """One shared library to time."""

    artifact: str
    device_kind: str
    arguments: Arguments
    evaluator: Evaluator
    expected: str | None = None
    """The artifact of an earlier ExpectRequest, with whose outputs this one's are to be compared."""
    module_json: str | None = None
    """The scheduled module, which shows the layout in which the program takes its weights."""


@dataclass(frozen=True)
class ExpectRequest:
    """Run the default program of a workload once, and keep its outputs."""

    artifact: str
    device_kind: str
    arguments: Arguments
    reduction: int


@dataclass(frozen=True)
class ReferenceRequest:
    """Time the reference kernel, whose drift shows whether the device has changed."""

    device_kind: str
    target: str
    quick: bool = False


@dataclass(frozen=True)
class RunReply:
    """The result of a request: seconds per call for each repeat, or the error's text."""

    run_s: tuple[float, ...]
    wall_s: float
    error: str | None
    is_wrong: bool = False
    """Whether the error is one of the outputs."""
    output_checked: bool = False


class WrongOutput(Exception):
    """The program computes something other than the default program."""


_expected: dict[str, ExpectedOutputs] = {}


def handle(request: RunRequest | ExpectRequest | ReferenceRequest | WarmUp) -> RunReply | None:
    """Does what is asked; an exception becomes the reply's error text."""
    if isinstance(request, WarmUp):
        _warm_up(request)
        return None
    start = time.perf_counter()
    try:
        seconds, checked = _answer(request)
    except Exception as error:
        is_wrong = isinstance(error, WrongOutput)
        return RunReply((), time.perf_counter() - start, class_and_end(error), is_wrong=is_wrong)
    return RunReply(seconds, time.perf_counter() - start, None, output_checked=checked)


def _warm_up(request: WarmUp) -> None:
    # Before TVM starts: the threads that it and its libraries make inherit the CPUs of the one that makes
    # them. Those that NumPy has made already are moved as well.
    if request.cpus and os.path.exists("/proc/self/task"):
        for thread in os.listdir("/proc/self/task"):
            os.sched_setaffinity(int(thread), request.cpus)
    import tvm

    if request.cpus:
        # Left to itself TVM gives its threads the CPUs from 0 on, whatever those of the process are.
        configure = tvm.get_global_func("runtime.config_threadpool")
        configure(ONE_CPU_PER_THREAD, len(request.cpus), [str(cpu) for cpu in request.cpus])
    device = tvm.device(request.device_kind, 0)
    if device.exist:
        device.sync()


def _answer(request: RunRequest | ExpectRequest | ReferenceRequest) -> tuple[tuple[float, ...], bool]:
    if isinstance(request, ReferenceRequest):
        return time_reference(request.device_kind, request.target, quick=request.quick), False
    if isinstance(request, ExpectRequest):
        return _expect(request), False
    return _time_program(request)


def _time_program(request: RunRequest) -> tuple[tuple[float, ...], bool]:
    """Seconds per call, and whether the outputs were compared."""
    module, device = _load(request)
    checked = _check(request, module, device)
    arguments = on_device(request.arguments, request.device_kind, device)
    return take(module, device, arguments, request.evaluator), checked


def _expect(request: ExpectRequest) -> tuple[float, ...]:
    if request.artifact in _expected:
        return ()
    module, device = _load(request)
    if sum(2 * nbytes(kept.arguments) for kept in _expected.values()) > EXPECTED_CACHE_BYTES:
        _expected.clear()
    seconds: list[float] = []

    def call(arguments: list[Any]) -> None:
        seconds.append(one_call(module, device, arguments))

    _expected[request.artifact] = ExpectedOutputs.of(call, request.arguments, device, request.reduction)
    return tuple(seconds)


def _check(request: RunRequest, module: Any, device: Any) -> bool:
    """Whether the outputs could be compared.

    Raises:
        WrongOutput: They differ.
    """
    if request.expected is None:
        return False
    try:
        difference = _expected[request.expected].difference(
            lambda arguments: one_call(module, device, arguments),
            request.arguments,
            request.module_json,
            device,
        )
    except (KeyError, ValueError):  # nothing is kept of it, or the layout of the weights is unknown
        return False
    if difference:
        forget()
        raise WrongOutput(difference)
    return True


def _load(request: RunRequest | ExpectRequest) -> tuple[Any, Any]:
    import tvm

    return tvm.runtime.load_module(request.artifact), tvm.device(request.device_kind, 0)
