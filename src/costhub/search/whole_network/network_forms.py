"""Provides what the children of network timers do: load forms of a network, here or on a board, and time them."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from costhub.collector.boards.session import blame, held, opened
from costhub.collector.run.evaluator import to_device
from costhub.collector.run.runner import wake
from costhub.errors import MeasureError, NetworkError, class_and_line
from costhub.search.whole_network.tuned_network import load_machine

# What another process has been doing until now should not be timed.
REST_S = 0.1
MAX_CALLS = 1000
"""In one turn on a board; this is enough for a network that takes microseconds."""

Arrays = tuple[Any, ...]
"""NumPy arrays: inputs, or outputs with tuples and mappings of tensors flattened."""


class BoardLost(MeasureError):
    """The session with the board is over."""


_call: list[Callable[[], Any]] = []
"""That of the form that this process has loaded."""


def load_library(path: str, inputs: Arrays, cpus: tuple[int, ...]) -> Arrays:
    """Loads a library of `compile_network`, and calls it once.

    Args:
        path: The library.
        inputs: The inputs of the network.
        cpus: The CPUs that may compute, one for each thread.

    Raises:
        NetworkError: TVM fails.
    """
    return hold_form(partial(_library, path, inputs, cpus))


def load_reader_of_torch() -> None:
    """Imports what `load_torch` needs, before it is called."""
    import torch  # noqa: F401

    import costhub.collector.workloads.network_source  # noqa: F401


def load_torch(network: str, inputs: Arrays, threads: int, compiled: bool, device: str = "cpu") -> Arrays:
    """Loads a network as torch runs it, and calls it once.

    Args:
        network: What `read_torch` takes.
        inputs: The inputs of the network.
        threads: How many threads compute.
        compiled: Whether to use ``torch.compile``.
        device: Torch's name for the device, ``cpu`` or ``cuda``.

    Raises:
        NetworkError: torch fails.
    """
    return hold_form(partial(_torch, network, inputs, threads, compiled, device))


def hold_form(make: Callable[[], Callable[[], Any]]) -> Arrays:
    """Makes a form the one that this process times from now on, and calls it once.

    Args:
        make: Loads the form; returns a function that calls it with its inputs.

    Returns:
        What the form computes.

    Raises:
        NetworkError: It cannot be loaded, or fails.

    Example:
        >>> import numpy as np
        >>> hold_form(lambda: lambda: [np.zeros(2)])[0].shape, len(time_calls(0.0))
        ((2,), 1)
    """
    with _as_network_error():
        _call[:] = [make()]
        return tuple(flatten_outputs(_call[0]()))


def time_calls(seconds: float) -> list[float]:
    """Seconds of each call, excluding the first, which finds the caches cold, unless it is the only one."""
    time.sleep(REST_S)
    run_s: list[float] = []
    end = time.perf_counter() + seconds
    with _as_network_error():
        while not run_s or time.perf_counter() < end:
            start = time.perf_counter()
            _call[0]()
            run_s.append(time.perf_counter() - start)
    return run_s[1:] or run_s


@contextlib.contextmanager
def _as_network_error() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise NetworkError(class_and_line(error)) from error


def _library(path: str, inputs: tuple[Any, ...], cpus: tuple[int, ...]) -> Callable[[], Any]:
    wake("cpu", cpus)
    import tvm

    machine, device = load_machine(path)
    main, arguments = machine["main"], [tvm.runtime.tensor(value, device) for value in inputs]

    if device == tvm.cpu():
        return lambda: main(*arguments)

    def call() -> Any:
        outputs = main(*arguments)
        device.sync()  # The GPU is still computing when the call returns.
        return outputs

    return call


def _torch(name: str, inputs: tuple[Any, ...], threads: int, compiled: bool, device: str) -> Callable[[], Any]:
    import torch

    from costhub.collector.workloads.network_source import read_torch

    torch.set_num_threads(threads)
    # On GPUs, convolutions round their factors to 10 bits by default, and so do products where a variable says so.
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    network, _ = read_torch(name, device=device)
    call = torch.compile(network) if compiled else network
    arguments = [torch.from_numpy(value).to(device) for value in inputs]

    def without_gradients() -> Any:
        with torch.inference_mode():
            outputs = call(*arguments)
        if device != "cpu":
            torch.cuda.synchronize()
        return outputs

    return without_gradients


def flatten_outputs(found: Any) -> list[Any]:
    """The output arrays of a network, tuples and mappings in order, without None."""
    if isinstance(found, np.ndarray):
        return [found]
    if hasattr(found, "numpy"):
        return [found.cpu().numpy() if hasattr(found, "cpu") else found.numpy()]
    values = found.values() if isinstance(found, Mapping) else found
    return [array for value in values if value is not None for array in flatten_outputs(value)]


@dataclass(frozen=True)
class _BoardForm:
    machine: Any
    """TVM's virtual machine, on the board."""
    device: Any
    """The board's CPU."""

    def take(self, repeat: int) -> list[float]:
        """Seconds of each call, by the board's clock, so that the connection to the board does not count."""
        timed = self.machine.time_evaluator("invoke_stateful", self.device, number=1, repeat=repeat)
        return list(timed("main").results)


def load_on_board(name: str, path: str, inputs: Arrays) -> Arrays:
    """Sends a library of `compile_network` to the board of the open session, and calls it once.

    Raises:
        NetworkError: It does not run there.
        BoardLost: The session is over.
    """
    from tvm import relax

    with _on_board() as board:
        library = f"{name}.so"
        board.upload(bytearray(Path(path).read_bytes()), library)
        device = board.cpu(0)
        machine = relax.VirtualMachine(board.load_module(library), device)
        # Values stay on the board between calls; this is the only way TVM passes tensors to a remote network.
        machine.set_input("main", *(to_device(value, device) for value in inputs))
        machine.invoke_stateful("main")
        held()[name] = _BoardForm(machine, device)
        return tuple(flatten_outputs(machine.get_outputs("main")))


def time_calls_on_board(name: str, seconds: float) -> list[float]:
    """Seconds of each call of a form for about this many seconds, at least one call; raises like `load_on_board`."""
    with _on_board():
        form = held()[name]
        (first_s,) = form.take(1)
        left = min(MAX_CALLS, math.floor(seconds / first_s) - 1)
        return form.take(left) if left > 0 else [first_s]


@contextlib.contextmanager
def _on_board() -> Iterator[Any]:
    """The session; an error becomes one of the network, or of the session."""
    try:
        board = opened()
    except MeasureError as error:
        raise BoardLost(str(error)) from error
    try:
        yield board
    except Exception as error:
        kind = NetworkError if blame(board, error) == "error" else BoardLost
        raise kind(class_and_line(error)) from error
