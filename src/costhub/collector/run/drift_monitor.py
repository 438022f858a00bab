"""Provides DriftMonitor: watches a session's reference kernel, which shows whether the device behaves as before."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

from costhub.collector.device.identity import clock_mhz, temperature_c
from costhub.collector.run.evaluator import Arguments
from costhub.collector.run.runner import Runner, RunResult

log = logging.getLogger("costhub")

# Programs are not measured while the reference kernel runs this much slower than at the session's start.
MAX_DRIFT = 0.15
QUIET_WAITS_S = (0.1, 0.2, 0.4, 0.8, 1.5, 2.0, 2.0, 2.0)
"""The waits of one look, in seconds, after each of which the kernel is timed again: most disturbances are short."""
# On a device whose reference kernel never settles, waiting would never end, so it may take only this share of a
# session after the first waits. Rows record the state of the device, so these measurements can be excluded.
MAX_WAITING = 0.05
FREE_WAITING_S = 10.0
# How often a program is measured again at most, if the reference kernel was slow after it.
REPETITIONS = 2


@dataclass(frozen=True)
class MachineState:
    """State of the device when a program was measured; None for values that were not read."""

    load_average: float | None = None
    """One-minute load average of the operating system."""
    reference_s: float | None = None
    """Seconds of the reference kernel before the batch that the program was in."""
    reference_drift: float | None = None
    """How much slower the reference kernel was than at its fastest: 0.1 is 10 %."""
    reference_after_s: float | None = None
    """Seconds of the reference kernel right after the program; None if the program failed."""
    clock_mhz: float | None = None
    temperature_c: float | None = None


class DriftSeconds(NamedTuple):
    """Seconds of wall time that watching over a device has taken so far; the last two are for disturbances."""

    reference: float = 0.0
    """The reference kernel before each batch, and once after each program."""
    wait: float = 0.0
    """Waiting for the machine to calm down, and timing the reference kernel meanwhile."""
    repeat: float = 0.0
    """Runs of programs that were not kept, and the reference kernel around the runs that replaced them."""


class DriftMonitor:
    """Runs programs on a device and times its reference kernel before and after."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self._baseline_s: float | None = None
        self._state = MachineState()
        self._is_busy = False
        """Whether waiting did not help the last time: if so, it is not tried before every program."""
        self._start, self._waited_s, self._has_said = time.monotonic(), 0.0, False
        self._seconds: dict[str, float] = DriftSeconds()._asdict()

    @property
    def seconds(self) -> DriftSeconds:
        """What watching over the device has taken since this monitor was made."""
        return DriftSeconds(**self._seconds)

    def look(self) -> MachineState:
        """Returns the current state of the machine; waits a little if the device is busier than at the start.

        Raises:
            MeasureError: The device no longer runs the reference kernel.
        """
        return self._look("reference")

    def _look(self, stage: str) -> MachineState:
        """As `look`; the first reading counts as `stage`."""
        if self._baseline_s is None:  # once in a session, with the start of the process: no part of what is counted
            self._baseline_s = min(self.runner.reference_s() for _ in range(3))
        with self._counted(stage):
            reference_s = self.runner.reference_s()
        for wait_s in () if self._is_busy else QUIET_WAITS_S:
            if self._drift(reference_s) <= MAX_DRIFT or not self._may_wait():
                break
            if not self._has_said:
                self._has_said = True
                log.info("waiting for a quiet machine (load %.1f)", os.getloadavg()[0])
            with self._counted("wait"):
                time.sleep(wait_s)
                self._waited_s += wait_s
                reference_s = self.runner.reference_s()
        self._is_busy = self._drift(reference_s) > MAX_DRIFT
        # Once per batch: if they can be read at all, reading them takes milliseconds.
        self._state = MachineState(
            os.getloadavg()[0],
            reference_s,
            self._drift(reference_s),
            clock_mhz=clock_mhz(),
            temperature_c=temperature_c(),
        )
        # A machine that is faster now was busy at the start: the faster figure is the better baseline.
        self._baseline_s = min(self._baseline_s, reference_s)
        return self._state

    def run(
        self,
        artifact: str,
        arguments: Arguments,
        *,
        timeout_s: float | None = None,
        check: bool = False,
        module_json: str | None = None,
    ) -> tuple[RunResult, MachineState]:
        """Times a program; repeats it, once the device is quiet, if the reference kernel is slow afterwards.

        Args:
            artifact: Path of the shared library.
            arguments: (dtype, shape) of each argument.
            timeout_s: Time limit instead of the runner's.
            check: Whether outputs are compared with the ones the runner expects.
            module_json: The scheduled module, for the comparison.

        Returns:
            The last run, and the state of the machine.

        Raises:
            MeasureError: As for `Runner.run` and `look`.
        """
        for repetition in range(1 + REPETITIONS):
            start = time.monotonic()
            result = self.runner.run(artifact, arguments, timeout_s=timeout_s, check=check, module_json=module_json)
            taken_s = time.monotonic() - start
            if result.status != "ok":  # it has no latency; after a crash the kernel would also start a process
                return result, self._state
            with self._counted("repeat" if repetition else "reference"):
                after_s = self.runner.reference_s(quick=True)
            if self._drift(after_s) <= MAX_DRIFT or self._is_busy:
                break
            if repetition < REPETITIONS:
                self._seconds["repeat"] += taken_s  # its latency is not kept
                self._look("repeat")
        return result, replace(self._state, reference_after_s=after_s)

    @contextmanager
    def _counted(self, stage: str) -> Iterator[None]:
        """Counts the block as a field of `DriftSeconds`."""
        start = time.monotonic()
        yield
        self._seconds[stage] += time.monotonic() - start

    def _may_wait(self) -> bool:
        return self._waited_s <= FREE_WAITING_S + MAX_WAITING * (time.monotonic() - self._start)

    def _drift(self, reference_s: float) -> float:
        return reference_s / (self._baseline_s or reference_s) - 1.0
