"""Provides Bench: where built programs are measured, on this machine or on boards."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import NamedTuple, Protocol

from costhub.collector.builder import Built
from costhub.collector.default_program import DefaultProgram
from costhub.collector.outcome import Outcome
from costhub.collector.sampler import Program


class Expected(NamedTuple):
    """The default program of a workload, built: its outputs count as the right ones."""

    program: DefaultProgram
    artifact: str


class Made(NamedTuple):
    """A program that was built, or could not be."""

    program: Program
    built: Built
    expected: Expected | None = None
    """What its outputs are compared with; None where they are not."""


class Bench(Protocol):
    """Where built programs are measured."""

    def launch(self) -> None:
        """Starts what it needs without waiting for it."""

    def measure(self, batch: Sequence[Made]) -> Generator[Outcome, None, None]:
        """Yields outcomes as soon as they are known, one per program and device, and removes the artefacts.

        Raises:
            MeasureError: A device can no longer be measured at all.
        """
