"""Provides Runner: the one process that measures, while nothing of ours computes beside it."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from types import TracebackType

from costhub.collector.run_service import Arguments, Evaluator, ReferenceRequest, RunReply, RunRequest
from costhub.errors import MeasureError
from costhub.worker import Worker, WorkerDied, WorkerTimeout

REFERENCE_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Ran:
    """What became of one program."""

    status: str
    """``ok``, ``run_error`` or ``run_timeout``."""
    run_s: tuple[float, ...]
    wall_s: float
    error: str | None


class Runner:
    """Times programs one after the other in a process of its own.

    The process is restarted after a crash, a hang or a device fault.

    Args:
        target: the TVM target, as JSON; the reference kernel is built for it.
        device_kind: TVM's device name, ``cpu`` or ``cuda``.
        timeout_s: limit of one program, all repeats together.
    """

    def __init__(
        self,
        target: str,
        *,
        device_kind: str = "cpu",
        evaluator: Evaluator | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        self.target = target
        self.device_kind = device_kind
        self.evaluator = evaluator or Evaluator()
        self.timeout_s = timeout_s
        self._worker = Worker("costhub.collector.run_service:handle")

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def launch(self) -> None:
        """Starts the process without waiting for it."""
        self._worker.launch()

    def close(self) -> None:
        """Ends the process."""
        self._worker.kill()

    def reference_s(self) -> float:
        """Median seconds of the reference kernel, which is the same for every session on a device.

        Raises:
            MeasureError: the device cannot run it; nothing measured there would mean anything.
        """
        try:
            reply = self._call(ReferenceRequest(self.device_kind, self.target), REFERENCE_TIMEOUT_S)
        except (WorkerDied, WorkerTimeout) as error:
            raise MeasureError(f"The reference kernel failed on this device: {error}") from error
        if reply.error is not None:
            raise MeasureError(f"The reference kernel failed on this device: {reply.error}")
        return statistics.median(reply.run_s)

    def run(
        self,
        artifact: str,
        arguments: Arguments,
        *,
        timeout_s: float | None = None,
    ) -> Ran:
        """Times the shared library `artifact`, whose arguments have these (dtype, shape) pairs.

        Raises:
            MeasureError: the process cannot be started, or finds no TVM or no device.
        """
        timeout_s = timeout_s or self.timeout_s
        request = RunRequest(artifact, self.device_kind, arguments, self.evaluator)
        try:
            reply = self._call(request, timeout_s)
        except WorkerTimeout:
            return Ran("run_timeout", (), timeout_s, f"killed after {timeout_s:g} s of running")
        except WorkerDied as death:
            return Ran("run_error", (), 0.0, str(death))
        if reply.error is not None:
            if self.device_kind != "cpu":
                # A device fault sticks to the process's context and would fail every program after it.
                self._worker.kill()
            return Ran("run_error", (), reply.wall_s, reply.error)
        return Ran("ok", reply.run_s, reply.wall_s, None)

    def _call(self, request: RunRequest | ReferenceRequest, timeout_s: float) -> RunReply:
        """The reply; importing TVM and waking the device, which take seconds, are not part of the limit."""
        if not self._worker.is_warm:
            try:
                self._worker.call(self.device_kind, timeout_s=self._worker.start_timeout_s)
            except (WorkerDied, WorkerTimeout) as error:
                raise MeasureError(
                    f"TVM cannot reach the device {self.device_kind!r} here: {error}"
                ) from error
            self._worker.is_warm = True
        reply: RunReply = self._worker.call(request, timeout_s=timeout_s)
        return reply
