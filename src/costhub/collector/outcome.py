"""Provides Outcome: one program and its measurement on one device."""

from __future__ import annotations

from dataclasses import dataclass

from costhub.collector.builder import Built
from costhub.collector.runner import Ran
from costhub.collector.sampler import Program


@dataclass(frozen=True)
class Surroundings:
    """What the device was like when a program was measured; None where it was not read."""

    load_average: float | None
    """One-minute load average of the operating system."""
    reference_s: float | None
    """Seconds of the reference kernel before the batch that the program was in."""
    reference_drift: float | None
    """How much slower the reference kernel was than at its fastest: 0.1 is 10 %."""
    reference_after_s: float | None = None
    """Seconds of the reference kernel right after the program."""
    clock_mhz: float | None = None
    temperature_c: float | None = None


@dataclass(frozen=True)
class Outcome:
    """One program and its measurement on one device."""

    program: Program
    built: Built
    ran: Ran | None
    """None where it was not built."""
    surroundings: Surroundings
    device_id: str
    board: str | None = None
    """The number of the board that measured it; None if this machine did."""

    @property
    def status(self) -> str:
        """The measurement's status, as in the measurements table."""
        return self.ran.status if self.ran else self.built.status

    @property
    def error(self) -> str | None:
        """Why it failed; None when it did not."""
        return self.ran.error if self.ran else self.built.error
