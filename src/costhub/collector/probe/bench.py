"""Provides Bench and compile_for: the device under the probe, and a kernel's way onto it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

CUDA_THREADS = 256
# 1,024 threads on each multiprocessor fit with 64 registers each, whatever the kernel: no block has to wait.
CUDA_BLOCKS_PER_CORE = 4


@dataclass(frozen=True)
class Bench:
    """The device under the probe, inside the child process."""

    target: str
    """The TVM target, as JSON."""
    device_kind: str
    """TVM's device name, ``cpu`` or ``cuda``."""
    workers: int
    """Threads of a CPU; blocks of a GPU."""

    @property
    def made_target(self) -> Any:
        """The target as TVM's object."""
        return target_of(self.target)

    @property
    def device(self) -> Any:
        """TVM's device."""
        import tvm

        return tvm.device(self.device_kind, 0)

    @property
    def is_gpu(self) -> bool:
        """Whether kernels are bound to blocks and threads."""
        return self.device_kind != "cpu"

    @property
    def threads(self) -> int:
        """Threads inside one worker, which run in step."""
        return CUDA_THREADS if self.is_gpu else 1


@dataclass(frozen=True)
class Kernel:
    """A compiled kernel."""

    module: Any
    device: Any

    def seconds(self, arguments: Sequence[Any]) -> float:
        """Wall time of one call."""
        function = self.module["main"]
        start = time.perf_counter()
        function(*arguments)
        self.device.sync()
        return time.perf_counter() - start


@cache
def target_of(target: str) -> Any:
    """A target given as JSON as TVM's object; without the tensor intrinsics, which nothing here names."""
    import tvm

    return tvm.target.Target(json.loads(target))


def compile_for(function: Any, bench: Bench) -> Kernel:
    """Compiles a TIR function for the device and loads it, without a linker."""
    import tvm

    return Kernel(tvm.compile(function, target=bench.made_target).mod, bench.device)


def assembly_of(function: Any, target: str) -> str:
    """The assembly that LLVM makes of a TIR function, for whatever CPU the target names.

    Example:
        >>> from costhub.collector.probe.clock import clock_function
        >>> "add" in assembly_of(clock_function(), '{"kind": "llvm", "num-cores": 1}')
        True
    """
    import tempfile
    from pathlib import Path

    import tvm

    # inspect_source("asm") would load the program, which a machine of another architecture cannot.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "kernel.s")
        tvm.tirx.build(function, target=target_of(target)).write_to_file(str(path))
        return path.read_text(encoding="utf-8")


@contextmanager
def each_worker(workers: Any, threads: int) -> Iterator[tuple[Any, Any]]:
    """A loop over all workers while a TIR function is built: (worker, thread inside the worker).

    One thread means a parallel loop of a CPU; more are bound to the blocks and threads of a GPU.
    """
    from tvm.tirx.script.builder import ir as T

    if threads == 1:
        with T.parallel(0, workers) as worker:
            yield worker, 0
    else:
        with (
            T.thread_binding(0, workers, thread="blockIdx.x") as worker,
            T.thread_binding(0, threads, thread="threadIdx.x") as thread,
        ):
            yield worker, thread


@cache
def architecture_of(target: str) -> str:
    """What a target compiles for, such as ``x86_64`` or ``aarch64``.

    Example:
        >>> architecture_of('{"kind": "llvm", "mtriple": "aarch64-linux-gnu"}')
        'aarch64'
    """
    import tvm

    named = json.loads(target).get("mtriple") or tvm.target.codegen.llvm_get_system_triple()
    return str(named).split("-", 1)[0].replace("arm64", "aarch64")
