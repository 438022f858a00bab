"""Provides ProbeDevice, its kernels, highest_rate, clock_ghz and launch_overhead_us.

A program is never faster than its device, and whatever else runs on the machine only makes it slower, so the best of
many short calls is the estimate with the least noise in it: one undisturbed call is enough.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

CUDA_THREADS = 256

# 1,024 threads on each multiprocessor fit with 64 registers each, whatever the kernel: no block has to wait.
CUDA_BLOCKS_PER_CORE = 4

# Long compared with the start of a call (a few us), short compared with interruptions by the operating system.
CALL_S = 0.005
MIN_CALLS = 3
PATIENCE = 30
STEP = 1.002
MAX_ROUNDS = 1 << 30
PAIRS_PER_ROUND = 32
REPEATS = 200
MIN_REPEATS = 5


@dataclass(frozen=True)
class ProbeDevice:
    """The device being probed, inside the child process."""

    target: str
    """The TVM target, as JSON."""
    device_kind: str
    """TVM's name for the device, ``cpu`` or ``cuda``."""
    workers: int
    """Threads of a CPU; blocks of a GPU."""

    @property
    def made_target(self) -> Any:
        """The target as a ``tvm.target.Target``."""
        return target_of(self.target)

    @property
    def device(self) -> Any:
        """The TVM device."""
        import tvm

        return tvm.device(self.device_kind, 0)

    @property
    def is_gpu(self) -> bool:
        """Whether kernels are bound to blocks and threads."""
        return self.device_kind != "cpu"

    @property
    def threads(self) -> int:
        """Threads inside one worker, which run in lockstep."""
        return CUDA_THREADS if self.is_gpu else 1


@dataclass(frozen=True)
class ProbeKernel:
    """A compiled kernel."""

    module: Any
    device: Any

    def seconds(self, arguments: Sequence[Any]) -> float:
        """Wall-clock time of one call."""
        function = self.module["main"]
        start = time.perf_counter()
        function(*arguments)
        self.device.sync()
        return time.perf_counter() - start


@cache
def target_of(target: str) -> Any:
    """Parses a target given as JSON; without the tensor intrinsics, which nothing here uses."""
    import tvm

    return tvm.target.Target(json.loads(target))


def compile_for(function: Any, bench: ProbeDevice) -> ProbeKernel:
    """Compiles a TIR function for the device and loads it, without a linker."""
    import tvm

    return ProbeKernel(tvm.compile(function, target=bench.made_target).mod, bench.device)


def assembly_of(function: Any, target: str) -> str:
    """The assembly that LLVM generates for a TIR function, for whatever CPU the target names.

    Example:
        >>> from costhub.collector.probe.kernels import clock_function
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

    One thread means a parallel loop on a CPU; several are bound to the blocks and threads of a GPU.
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
    """The architecture that a target compiles for, such as ``x86_64`` or ``aarch64``.

    Example:
        >>> architecture_of('{"kind": "llvm", "mtriple": "aarch64-linux-gnu"}')
        'aarch64'
    """
    import tvm

    named = json.loads(target).get("mtriple") or tvm.target.codegen.llvm_get_system_triple()
    return str(named).split("-", 1)[0].replace("arm64", "aarch64")


def highest_rate(run: Callable[[int], float], *, budget_s: float) -> float:
    """Rounds per second of the fastest call.

    Args:
        run: Runs the given number of rounds and returns the seconds they took.
        budget_s: No further call starts after this time; at least three are made.

    Returns:
        The best rate, once 30 calls in a row have not raised it by 0.2 %, or when the time is up.

    Example:
        >>> highest_rate(lambda rounds: rounds * 1e-3, budget_s=0.0)
        1000.0
    """
    end = time.perf_counter() + budget_s
    best, calls, without_gain, rounds = 0.0, 0, 0, 1
    while calls < MIN_CALLS or (without_gain < PATIENCE and time.perf_counter() < end):
        took_s = max(run(rounds), 1e-9)
        if took_s < CALL_S / 2 and rounds < MAX_ROUNDS:
            # A disturbed call may seem long enough when it is not, so the length is checked every time.
            rounds = min(MAX_ROUNDS, max(2 * rounds, int(rounds * min(100.0, CALL_S / took_s))))
            continue
        rate = rounds / took_s
        without_gain = 0 if rate > best * STEP else without_gain + 1
        best = max(best, rate)
        calls += 1
    return best


def clock_ghz(bench: ProbeDevice, *, budget_s: float) -> float:
    """Measures the clock of one core in GHz.

    Each operation needs the result of the one before, and every current CPU adds integers in one cycle, so
    operations per second are cycles per second. /proc/cpuinfo shows the nominal clock instead, especially in
    a virtual machine.
    """
    import tvm

    kernel = compile_for(clock_function(), bench)
    values = tvm.runtime.tensor(np.array([3, 5, 7], "int64"))

    def run(rounds: int) -> float:
        return kernel.seconds((rounds, values))

    return highest_rate(run, budget_s=budget_s) * 2 * PAIRS_PER_ROUND / 1e9


@cache
def clock_function() -> Any:
    """A TIR function that runs `rounds` times 32 dependent pairs of add and exclusive or on int64."""
    from tvm.script.ir_builder import IRBuilder
    from tvm.tirx.script.builder import ir as T

    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        rounds = T.arg("rounds", T.int32())
        values = T.match_buffer(T.arg("values", T.handle()), (3,), "int64")
        chain = T.alloc_buffer((1,), "int64", scope="local")
        T.buffer_store(chain, values[0], [0])
        with T.serial(0, rounds):
            for _ in range(PAIRS_PER_ROUND):
                # Adds alone would be folded: n times + a becomes a single + n * a.
                T.buffer_store(chain, T.bitwise_xor(chain[0] + values[1], values[2]), [0])
        T.buffer_store(values, chain[0], [0])
    return builder.get()


def launch_overhead_us(bench: ProbeDevice, *, budget_s: float) -> float:
    """Median microseconds of an empty program in TVM's time evaluator, timed like a measurement.

    The median, not the best: every measurement pays this overhead, noise included.
    """
    import tvm

    kernel = compile_for(empty_function(bench.threads), bench)
    out = tvm.runtime.tensor(np.zeros(bench.workers * bench.threads, "float32"), bench.device)
    repeats = max(MIN_REPEATS, min(REPEATS, int(budget_s / 0.002)))
    timer = kernel.module.time_evaluator("main", bench.device, number=1, repeat=repeats, min_repeat_ms=1)
    return float(np.median(timer(bench.workers, out).results)) * 1e6


def empty_function(threads: int) -> Any:
    """A TIR function whose workers store one number each."""
    from tvm.script.ir_builder import IRBuilder
    from tvm.tirx.script.builder import ir as T

    with IRBuilder() as builder, T.prim_func(s_tir=True):
        T.func_name("main")
        workers = T.arg("workers", T.int32())
        size = T.int32()
        out = T.match_buffer(T.arg("out", T.handle()), (size,), "float32")
        with each_worker(workers, threads) as (worker, thread):
            T.buffer_store(out, T.float32(1), [worker * threads + thread])
    return builder.get()
