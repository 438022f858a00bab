"""Provides handle: loads one form of a network in a child process, and times its calls there."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from costhub.collector.run.runner import wake
from costhub.errors import class_and_line

# What another process did until now should not be timed.
REST_S = 0.1


@dataclass(frozen=True)
class LoadLibrary:
    """Load a library of `compile_network`, and call it once."""

    path: str
    inputs: tuple[Any, ...]
    """NumPy arrays."""
    cpus: tuple[int, ...]
    """The CPUs that may compute, one for each thread."""


@dataclass(frozen=True)
class LoadTorch:
    """Load a torch network, and call it once."""

    network: str
    """What `read_torch` takes."""
    inputs: tuple[Any, ...]
    """NumPy arrays."""
    threads: int
    compiled: bool
    """Whether by ``torch.compile``."""


@dataclass(frozen=True)
class LoadedNetwork:
    """What a network computed of the inputs, tuples and mappings of tensors flattened."""

    outputs: tuple[Any, ...]
    """NumPy arrays."""


@dataclass(frozen=True)
class TimeCalls:
    """Time calls until so many seconds are over, one at least."""

    seconds: float


_call: list[Callable[[], Any]] = []


def handle(request: LoadLibrary | LoadTorch | TimeCalls) -> LoadedNetwork | list[float] | str:
    """Does what is asked; a reason where torch or TVM fails."""
    try:
        if isinstance(request, TimeCalls):
            return _take(request.seconds)
        _call[:] = [_library(request) if isinstance(request, LoadLibrary) else _torch(request)]
        return LoadedNetwork(tuple(flatten_outputs(_call[0]())))
    except Exception as error:
        return class_and_line(error)


def _take(seconds: float) -> list[float]:
    """Seconds of each call; without the first one, which finds the caches cold, unless it is the only one."""
    time.sleep(REST_S)
    run_s: list[float] = []
    end = time.perf_counter() + seconds
    while not run_s or time.perf_counter() < end:
        start = time.perf_counter()
        _call[0]()
        run_s.append(time.perf_counter() - start)
    return run_s[1:] or run_s


def _library(request: LoadLibrary) -> Callable[[], Any]:
    wake("cpu", request.cpus)
    import tvm
    from tvm import relax

    machine = relax.VirtualMachine(tvm.runtime.load_module(request.path), tvm.cpu())
    main, arguments = machine["main"], [tvm.runtime.tensor(value) for value in request.inputs]
    return lambda: main(*arguments)


def _torch(request: LoadTorch) -> Callable[[], Any]:
    import torch

    from costhub.collector.workloads.network_source import read_torch

    torch.set_num_threads(request.threads)
    network, _ = read_torch(request.network)
    call = torch.compile(network) if request.compiled else network
    arguments = [torch.from_numpy(value) for value in request.inputs]

    def without_gradients() -> Any:
        with torch.inference_mode():
            return call(*arguments)

    return without_gradients


def flatten_outputs(found: Any) -> list[Any]:
    """The arrays of what a network computes, tuples and mappings in order, None left out."""
    if hasattr(found, "numpy"):
        return [found.numpy()]
    values = found.values() if isinstance(found, Mapping) else found
    return [array for value in values if value is not None for array in flatten_outputs(value)]
