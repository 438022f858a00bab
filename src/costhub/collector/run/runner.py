"""Provides Runner: the one process that measures, while no other process of ours computes."""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Any

from costhub.collector.device.cpu_state import (
    ONE_CPU_PER_THREAD,
    PINNED,
    core_count,
    cpu_list,
    pick_cpus,
    tvm_threads,
    use_cpus,
)
from costhub.collector.run.evaluator import Arguments, Evaluator, forget, nbytes, on_device, one_call, take
from costhub.collector.run.output_check import ExpectedOutputs
from costhub.collector.run.reference import time_reference
from costhub.errors import MeasureError, class_and_end
from costhub.isolation.child import WITHOUT_TORCH, Child, ChildDied, ChildError, ChildTimeout
from costhub.isolation.limits import Limits

REFERENCE_TIMEOUT_S = 120.0
# A session must survive if someone kills the process that runs the kernel.
REFERENCE_ATTEMPTS = 3
# The default program runs on one thread and without any tiling: minutes for the largest convolutions.
EXPECTED_TIMEOUT_S = 60.0
# TVM never unloads a library, each takes five of a process's 65,530 mappings (Linux, vm.max_map_count), and a
# process that has none left fails every program.
PROGRAMS_PER_PROCESS = 4000
# Loading TVM also takes processor time, and the reference kernel takes more than a program.
CPU_ALLOWANCE_S = 120.0
EXPECTED_CACHE_BYTES = 1 << 30


@dataclass(frozen=True)
class RunResult:
    """The result of running one program."""

    status: str
    """``ok``, ``run_error``, ``run_timeout`` or ``wrong_output``."""
    run_s: tuple[float, ...]
    wall_s: float
    error: str | None
    output_checked: bool = False
    """Whether its outputs were compared with those of the default program, and match."""


class Runner:
    """Times programs one after the other in its own process.

    The process is restarted after a crash, a hang or a device fault. Several runners, such as one with one
    thread and one with all, may exist side by side, but only one of them should run at a time.

    Args:
        target: The TVM target, as JSON; the reference kernel is built for it.
        device_kind: TVM's name for the device, ``cpu`` or ``cuda``.
        evaluator: How a latency is measured.
        timeout_s: Time limit of one program, for all repeats together.
        threads: Number of threads of CPU programs; by default one per core (TVM alone would use half of the CPUs).
        affinity: The CPUs to use, one for each thread; by default the last cores.
        limits: Resources that the process may use; by default half of the memory for CPU programs, and processor time
            for a few time limits. GPU drivers map more memory than there is, so GPU processes have no memory limit.

    Example:
        >>> Runner('{"kind": "llvm", "num-cores": 1}', threads=1).threads
        1
    """

    def __init__(
        self,
        target: str,
        *,
        device_kind: str = "cpu",
        evaluator: Evaluator | None = None,
        timeout_s: float = 10.0,
        threads: int | None = None,
        affinity: Sequence[int] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.target = target
        self.device_kind = device_kind
        self.evaluator = evaluator or Evaluator()
        self.timeout_s = timeout_s
        self.cpus: tuple[int, ...] = ()
        """The CPUs used; empty for other devices."""
        if device_kind == "cpu":
            self.cpus = tuple(affinity or pick_cpus(threads or core_count()))
        self.threads = threads or max(1, len(self.cpus))
        """Threads that a CPU program may use."""
        # Runs the default program of the workload, and the process in which it has run.
        self._expected: partial[RunResult] | None = None
        self._expected_pid: int | None = None
        # Default programs that did not run: each may take until its time limit.
        self._failed: dict[str, RunResult] = {}
        self._child = Child(
            prepare=partial(wake, device_kind, self.cpus),
            environment={**tvm_threads(self.threads), **PINNED, **WITHOUT_TORCH} if self.cpus else None,
            limits=limits or _limits(device_kind, CPU_ALLOWANCE_S + 2 * timeout_s * max(1, len(self.cpus))),
            # A process waiting for the next runner would hold on to GPU memory.
            is_shared=device_kind == "cpu",
            most_calls=PROGRAMS_PER_PROCESS,
        )

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def cpu_affinity(self) -> str | None:
        """The CPUs used, such as ``0-1``; None for other devices."""
        return cpu_list(self.cpus) or None

    @property
    def pid(self) -> int | None:
        """The ID of the measuring process; None if it is not running."""
        return self._child.pid

    def launch(self) -> None:
        """Starts the process without waiting for it."""
        self._child.launch()

    def close(self) -> None:
        """Ends the process."""
        self._child.close()

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Suspends the process while the block runs.

        TVM's threads look for work for a tenth of a second after each program, and slow down other processes.
        """
        self._child.freeze()
        try:
            yield
        finally:
            self._child.thaw()

    def reference_s(self, *, quick: bool = False) -> float:
        """Median seconds of the reference kernel, the same kernel for every session on a device.

        Args:
            quick: Take three calls, about 2 ms in total, instead of three repeats of 10 ms.

        Raises:
            MeasureError: The device cannot run it; nothing measured there would mean anything.
        """
        time_kernel = partial(time_reference, self.device_kind, self.target, quick=quick)
        for _ in range(REFERENCE_ATTEMPTS):
            self._start()
            try:
                return statistics.median(self._child.call(time_kernel, timeout_s=REFERENCE_TIMEOUT_S))
            except (ChildDied, ChildTimeout) as error:
                reason = str(error)
            except Exception as error:  # TVM's errors, most of which are Python's own
                reason = str(error) if isinstance(error, ChildError) else class_and_end(error)
                break
        raise MeasureError(f"The reference kernel failed on this device: {reason}")

    def expected(
        self,
        artifact: str,
        arguments: Arguments,
        *,
        reduction: int = 1,
        timeout_s: float = EXPECTED_TIMEOUT_S,
    ) -> RunResult:
        """Runs the default program of a workload, whose outputs `run` compares with from now on.

        Nothing is compared if it fails. It costs one call of the program, and nothing for one that was
        given before: call it whenever the workload changes. The library must stay until the runner ends, as
        a restarted process needs it again.

        Args:
            artifact: The library built from `default_program`.
            arguments: (dtype, shape) of each argument.
            reduction: Terms of the longest sum, on which rounding depends.
            timeout_s: Time limit of the call; without a schedule it may be a hundred times slower than with one.

        Raises:
            MeasureError: As for `run`.
        """
        self._expected = None
        if artifact in self._failed:
            return self._failed[artifact]
        run = partial(run_default, artifact, self.device_kind, arguments, reduction)
        ran = self._result(run, timeout_s)
        if ran.status == "ok":
            self._expected, self._expected_pid = run, self._child.pid
        else:
            self._failed[artifact] = ran
        return ran

    def expect_nothing(self) -> None:
        """Compares with nothing from now on, until `expected` is called again."""
        self._expected = None

    def run(
        self,
        artifact: str,
        arguments: Arguments,
        *,
        timeout_s: float | None = None,
        check: bool = False,
        module_json: str | None = None,
    ) -> RunResult:
        """Times the shared library `artifact`, whose arguments have these (dtype, shape) pairs.

        Args:
            artifact: The library.
            arguments: (dtype, shape) of each argument.
            timeout_s: Time limit instead of the runner's.
            check: Compare the outputs first with those of the workload's default program, see `expected`.
            module_json: The scheduled module, without which programs that changed the layout of their weights
                are not compared.

        Raises:
            MeasureError: The process cannot be started, or finds no TVM or no device.
        """
        self._start()
        default = self._expected_here() if check else None
        compared = (default.args[0], module_json) if default is not None else (None, None)
        time_it = partial(time_program, artifact, self.device_kind, arguments, self.evaluator, *compared)
        return self._result(time_it, timeout_s or self.timeout_s)

    def compare(
        self, artifact: str, arguments: Arguments, module_json: str, *, timeout_s: float | None = None
    ) -> RunResult:
        """Runs the shared library `artifact` once and compares its outputs, without timing it; see `expected`.

        Args:
            artifact: The library.
            arguments: (dtype, shape) of each argument.
            module_json: The scheduled module, which says in which layout the program takes its weights.
            timeout_s: Time limit instead of the runner's.

        Raises:
            MeasureError: As for `run`.
        """
        self._start()
        default = self._expected_here()
        expected = default.args[0] if default is not None else None
        return self._result(
            partial(run_program, artifact, self.device_kind, arguments, expected, module_json),
            timeout_s or self.timeout_s,
        )

    def _expected_here(self) -> partial[RunResult] | None:
        """The default program whose outputs the process has; a new process computes them first."""
        if self._expected is None or self._expected_pid == self._child.pid:
            return self._expected
        artifact, ran = self._expected.args[0], self._result(self._expected, EXPECTED_TIMEOUT_S)
        if ran.status == "ok":
            self._expected_pid = self._child.pid
        elif os.path.exists(artifact):  # it may fail on a busier machine; from now on, nothing is compared with it
            self._failed[artifact], self._expected = ran, None
        else:
            raise MeasureError(
                f"The default program {artifact} is gone; it must stay where it is until the runner ends."
            )
        return self._expected

    def _result(self, function: Callable[[], RunResult], timeout_s: float) -> RunResult:
        """Runs the function in the child and returns its result."""
        self._start()
        try:
            ran = self._child.call(function, timeout_s=timeout_s)
        except ChildTimeout:
            return RunResult("run_timeout", (), timeout_s, f"killed after {timeout_s:g} s of running")
        except ChildDied as death:
            return RunResult("run_error", (), 0.0, str(death))
        if ran.status != "run_error":
            return ran
        if self.device_kind != "cpu":
            # A device fault persists in the process's context and would fail every program after it.
            self._child.kill()
        limit = self._child.limits.broken(None, ran.error or "")
        return replace(ran, error=" ".join(filter(None, [limit, ran.error])))

    def _start(self) -> None:
        """Starts the process; importing TVM and waking the device take seconds, which count towards no limit."""
        try:
            self._child.start()
        except MeasureError as error:
            raise MeasureError(
                f"TVM cannot reach the device {self.device_kind!r} here: {error.__cause__ or error}"
            ) from error


def _limits(device_kind: str, cpu_s: float) -> Limits:
    # GPU drivers map more memory than there is.
    return Limits.share(1, cpu_s=cpu_s) if device_kind == "cpu" else Limits(cpu_s=cpu_s)


# The code below runs in the child.

_expected_outputs: dict[str, ExpectedOutputs] = {}
"""Outputs of the default programs, by library."""


class WrongOutput(Exception):
    """The program computes something other than the default program."""


def wake(device_kind: str, cpus: tuple[int, ...]) -> None:
    """Loads TVM and wakes the device, so that neither is ever timed.

    Args:
        device_kind: TVM's name for the device.
        cpus: The CPUs that the process may use, one for each TVM thread; all if it is empty.
    """
    if cpus:
        use_cpus(cpus)
    import tvm

    if cpus:
        # By default TVM gives its threads the CPUs from 0 on, whatever CPUs the process has.
        configure = tvm.get_global_func("runtime.config_threadpool")
        configure(ONE_CPU_PER_THREAD, len(cpus), [str(cpu) for cpu in cpus])
    device = tvm.device(device_kind, 0)
    if device.exist:
        device.sync()
    _expected_outputs.clear()
    forget()


def time_program(
    artifact: str,
    device_kind: str,
    arguments: Arguments,
    evaluator: Evaluator,
    default: str | None = None,
    module_json: str | None = None,
) -> RunResult:
    """Times a shared library.

    Args:
        artifact: The library.
        device_kind: TVM's name for the device.
        arguments: (dtype, shape) of each argument.
        evaluator: How a latency is measured.
        default: The library of a default program that has run; its outputs are compared with this program's.
        module_json: The scheduled module, which shows the layout in which the program takes its weights.
    """

    def timed() -> tuple[tuple[float, ...], bool]:
        module, device = _load(artifact, device_kind)
        is_compared = default is not None and _compare(default, module, arguments, module_json, device)
        return take(module, device, on_device(arguments, device_kind, device), evaluator), is_compared

    return _result_of(timed)


def run_program(
    artifact: str, device_kind: str, arguments: Arguments, default: str | None, module_json: str
) -> RunResult:
    """Runs a shared library once; the arguments are those of `time_program`."""

    def ran() -> tuple[tuple[float, ...], bool]:
        module, device = _load(artifact, device_kind)
        if default is not None and _compare(default, module, arguments, module_json, device):
            return (), True
        one_call(module, device, on_device(arguments, device_kind, device))
        return (), False

    return _result_of(ran)


def run_default(artifact: str, device_kind: str, arguments: Arguments, reduction: int) -> RunResult:
    """Runs the default program of a workload once, and keeps its outputs."""

    def ran() -> tuple[tuple[float, ...], bool]:
        if artifact in _expected_outputs:
            return (), False
        module, device = _load(artifact, device_kind)
        if sum(2 * nbytes(kept.arguments) for kept in _expected_outputs.values()) > EXPECTED_CACHE_BYTES:
            _expected_outputs.clear()
        seconds: list[float] = []

        def call(tensors: list[Any]) -> None:
            seconds.append(one_call(module, device, tensors))

        _expected_outputs[artifact] = ExpectedOutputs.of(call, arguments, device, reduction)
        return tuple(seconds), False

    return _result_of(ran)


def _result_of(run: Callable[[], tuple[tuple[float, ...], bool]]) -> RunResult:
    start = time.perf_counter()
    try:
        seconds, is_compared = run()
    except Exception as error:
        status = "wrong_output" if isinstance(error, WrongOutput) else "run_error"
        return RunResult(status, (), time.perf_counter() - start, class_and_end(error))
    return RunResult("ok", seconds, time.perf_counter() - start, None, is_compared)


def _compare(default: str, module: Any, arguments: Arguments, module_json: str | None, device: Any) -> bool:
    """Whether the outputs could be compared.

    Raises:
        WrongOutput: They differ.
    """
    try:
        difference = _expected_outputs[default].difference(
            lambda tensors: one_call(module, device, tensors), arguments, module_json, device
        )
    except (KeyError, ValueError):  # no outputs of it are kept, or the layout of the weights is unknown
        return False
    if difference:
        forget()
        raise WrongOutput(difference)
    return True


def _load(artifact: str, device_kind: str) -> tuple[Any, Any]:
    import tvm

    return tvm.runtime.load_module(artifact), tvm.device(device_kind, 0)
