"""Provides Runner: the one process that measures, while nothing of ours computes beside it."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType

from costhub.collector.device.cpu_state import core_count, cpu_list, pick_cpus, tvm_threads
from costhub.collector.run.evaluator import Arguments, Evaluator
from costhub.collector.run.run_service import ExpectRequest, ReferenceRequest, RunReply, RunRequest, WarmUp
from costhub.errors import MeasureError
from costhub.isolation.child import ChildDied, ChildTimeout, Worker
from costhub.isolation.limits import Limits

REFERENCE_TIMEOUT_S = 120.0
# A session must survive that someone kills the process that runs the kernel.
REFERENCE_ATTEMPTS = 3
# The default program runs on one thread and without any tiling: minutes for the largest convolutions.
EXPECTED_TIMEOUT_S = 60.0
# TVM never unloads a library, each takes five of a process's 65,530 mappings (Linux, vm.max_map_count), and a
# process without any left fails every program.
PROGRAMS_PER_PROCESS = 4000
# Loading TVM takes processor time as well, and the reference kernel more than a program.
CPU_ALLOWANCE_S = 120.0


@dataclass(frozen=True)
class RunResult:
    """The result of running one program."""

    status: str
    """``ok``, ``run_error``, ``run_timeout`` or ``wrong_output``."""
    run_s: tuple[float, ...]
    wall_s: float
    error: str | None
    output_checked: bool = False
    """Whether its outputs were compared with those of the default program, and agree."""


class Runner:
    """Times programs one after the other in a process of its own.

    The process is restarted after a crash, a hang or a device fault. Several runners, such as one of one
    thread and one of all, may exist side by side; only one of them should run at a time.

    Args:
        target: The TVM target, as JSON; the reference kernel is built for it.
        device_kind: TVM's device name, ``cpu`` or ``cuda``.
        evaluator: How a latency is taken.
        timeout_s: Limit of one program, all repeats together.
        threads: Of CPU programs; by default one per core, where TVM would take half of the CPUs it sees.
        affinity: The CPUs that may compute, one for each thread; by default the last cores.
        limits: What the process may take; by default half of the memory for CPU programs, and processor time
            for a few time limits. Drivers of GPUs map more than there is, so these have no limit of memory.

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
        """The CPUs that compute; empty for other devices."""
        if device_kind == "cpu":
            self.cpus = tuple(affinity or pick_cpus(threads or core_count()))
        self._expected: ExpectRequest | None = None
        self._served = 0
        self.threads = threads or max(1, len(self.cpus))
        """Threads that a CPU program may use."""
        self._worker = Worker(
            "costhub.collector.run.run_service:handle",
            environment=tvm_threads(self.threads) if self.cpus else None,
            limits=limits or _limits(device_kind, CPU_ALLOWANCE_S + 2 * timeout_s * max(1, len(self.cpus))),
        )

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def cpu_affinity(self) -> str | None:
        """The CPUs that compute, such as ``0-1``; None for other devices."""
        return cpu_list(self.cpus) or None

    @property
    def pid(self) -> int | None:
        """The number of the process that measures; None where it does not run."""
        return self._worker.pid

    def launch(self) -> None:
        """Starts the process without waiting for it."""
        self._worker.launch()

    def close(self) -> None:
        """Ends the process."""
        self._worker.kill()

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Stops the process while the block runs.

        TVM's threads look for work for a tenth of a second after each program, and slow down other processes.
        """
        self._worker.freeze()
        try:
            yield
        finally:
            self._worker.thaw()

    def reference_s(self, *, quick: bool = False) -> float:
        """Median seconds of the reference kernel, which is the same for every session on a device.

        Args:
            quick: Three calls, about 2 ms in all, instead of three times 10 ms of them.

        Raises:
            MeasureError: The device cannot run it; nothing measured there would mean anything.
        """
        request = ReferenceRequest(self.device_kind, self.target, quick)
        for _ in range(REFERENCE_ATTEMPTS):
            try:
                reply = self._call(request, REFERENCE_TIMEOUT_S)
            except (ChildDied, ChildTimeout) as error:
                reason = str(error)
                continue
            if reply.error is None:
                return statistics.median(reply.run_s)
            reason = reply.error
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

        Nothing is compared where it fails. It costs one call of the program, and nothing for one that was
        given before: call it whenever the workload changes. The library must stay until the runner ends, as
        a process that starts anew needs it again.

        Args:
            artifact: The library built from `default_program`.
            arguments: (dtype, shape) of each.
            reduction: Terms of the longest sum, on which rounding depends.
            timeout_s: Limit of the call; without a schedule it may be a hundred times slower than with one.

        Raises:
            MeasureError: As `run`.
        """
        self._expected = None
        request = ExpectRequest(artifact, self.device_kind, arguments, reduction)
        ran = self._ran(request, timeout_s)
        self._expected = request if ran.status == "ok" else None
        return ran

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
            arguments: (dtype, shape) of each.
            timeout_s: Limit instead of the runner's.
            check: Compare the outputs first with those of the workload's default program, see `expected`.
            module_json: The scheduled module, without which programs that changed the layout of their weights
                are not compared.

        Raises:
            MeasureError: The process cannot be started, or finds no TVM or no device.
        """
        self._served += 1
        if self._served > PROGRAMS_PER_PROCESS:
            self._worker.kill()
            self._served = 1
        expected = self._expected.artifact if check and self._expected else None
        request = RunRequest(
            artifact, self.device_kind, arguments, self.evaluator, expected, module_json if expected else None
        )
        if expected and not self._worker.is_warm:
            self._expect_again()
        return self._ran(request, timeout_s or self.timeout_s)

    def run_each(self, programs: Sequence[tuple[str, Arguments]]) -> Generator[tuple[int, RunResult], None, None]:
        """Times programs, each an artifact with its arguments, one after the other; see `Timer`."""
        for place, program in enumerate(programs):
            yield place, self.run(*program)

    def _expect_again(self) -> None:
        """Gives a new process what the last one knew."""
        if self._expected and self._ran(self._expected, EXPECTED_TIMEOUT_S).status != "ok":
            raise MeasureError(
                f"The default program {self._expected.artifact} ran before and does not run any more; "
                "it must stay where it is until the runner ends."
            )

    def _ran(self, request: RunRequest | ExpectRequest, timeout_s: float) -> RunResult:
        try:
            reply = self._call(request, timeout_s)
        except ChildTimeout:
            return RunResult("run_timeout", (), timeout_s, f"killed after {timeout_s:g} s of running")
        except ChildDied as death:
            return RunResult("run_error", (), 0.0, str(death))
        if reply.error is None:
            return RunResult("ok", reply.run_s, reply.wall_s, None, reply.output_checked)
        if reply.is_wrong:
            return RunResult("wrong_output", (), reply.wall_s, reply.error)
        if self.device_kind != "cpu":
            # A device fault sticks to the process's context and would fail every program after it.
            self._worker.kill()
        limit = self._worker.limits.broken(None, reply.error)
        return RunResult("run_error", (), reply.wall_s, " ".join(filter(None, [limit, reply.error])))

    def _call(self, request: RunRequest | ExpectRequest | ReferenceRequest, timeout_s: float) -> RunReply:
        """The reply; importing TVM and waking the device, which take seconds, are not part of the limit."""
        try:
            self._worker.warm_up(WarmUp(self.device_kind, self.cpus))
        except (ChildDied, ChildTimeout) as error:
            raise MeasureError(f"TVM cannot reach the device {self.device_kind!r} here: {error}") from error
        reply: RunReply = self._worker.call(request, timeout_s=timeout_s)
        return reply


def _limits(device_kind: str, cpu_s: float) -> Limits:
    # The drivers of GPUs map more than there is.
    return Limits.share(1, cpu_s=cpu_s) if device_kind == "cpu" else Limits(cpu_s=cpu_s)
