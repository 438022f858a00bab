"""Provides measure_batch: build a batch in parallel, then run its programs one by one on a quiet machine."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from costhub.collector.builder import Builder, Built
from costhub.collector.runner import Ran, Runner
from costhub.collector.sampler import Program

# A batch is not measured while the reference kernel runs this much slower than at the session's start.
MOST_DRIFT = 0.15
QUIET_ATTEMPTS = 5
QUIET_WAIT_S = 2.0


@dataclass(frozen=True)
class Surroundings:
    """What the machine was like when a batch was measured."""

    load_average: float
    """One-minute load average of the operating system."""
    reference_s: float
    """Seconds of the reference kernel."""
    reference_drift: float
    """reference_s relative to the session's start, minus 1."""


@dataclass(frozen=True)
class Outcome:
    """One program and what became of it."""

    program: Program
    built: Built
    ran: Ran | None
    surroundings: Surroundings

    @property
    def status(self) -> str:
        """The measurement's status, as in the measurements table."""
        return self.ran.status if self.ran else self.built.status

    @property
    def error(self) -> str | None:
        """Why it failed; None when it did not."""
        return self.ran.error if self.ran else self.built.error


class Watch:
    """Follows the reference kernel through a session."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._baseline_s = min(runner.reference_s() for _ in range(3))

    def look(self) -> Surroundings:
        """The surroundings now; waits a little where the machine is busier than at the start."""
        surroundings = self._read()
        for _ in range(QUIET_ATTEMPTS):
            if surroundings.reference_drift <= MOST_DRIFT:
                break
            time.sleep(QUIET_WAIT_S)
            surroundings = self._read()
        # A machine found faster than at the start was busy then: the faster figure is the better baseline.
        self._baseline_s = min(self._baseline_s, surroundings.reference_s)
        return surroundings

    def _read(self) -> Surroundings:
        reference_s = self._runner.reference_s()
        return Surroundings(os.getloadavg()[0], reference_s, reference_s / self._baseline_s - 1.0)


def measure_batch(
    programs: Sequence[Program], *, builder: Builder, runner: Runner, watch: Watch
) -> Iterator[Outcome]:
    """Yields each program's outcome as soon as it is known; nothing builds while a program runs."""
    built = builder.build([p.module_json for p in programs])
    surroundings = watch.look()
    for program, result in zip(programs, built, strict=True):
        ran = None
        if result.artifact is not None:
            ran = runner.run(result.artifact, program.arguments)
            shutil.rmtree(os.path.dirname(result.artifact), ignore_errors=True)
        yield Outcome(program, result, ran, surroundings)
