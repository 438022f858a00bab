"""Provides Timer: whatever times built programs, a process of this machine or boards elsewhere."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Protocol

from costhub.collector.arguments import Arguments
from costhub.collector.runner import Ran


class Timer(Protocol):
    """Times built programs: a `Runner` here, `Boards` elsewhere."""

    def launch(self) -> None:
        """Starts what it needs without waiting for it."""

    def run(self, artifact: str, arguments: Arguments, *, timeout_s: float | None = None) -> Ran:
        """Times one program.

        Args:
            artifact: The library.
            arguments: (dtype, shape) of each argument.
            timeout_s: Limit, if another one than the usual.

        Raises:
            MeasureError: The device cannot be measured any more.
        """

    def run_each(self, programs: Sequence[tuple[str, Arguments]]) -> Generator[tuple[int, Ran], None, None]:
        """Times programs, each an artifact with its arguments.

        Yields:
            The index of a program and its result, as soon as it is there.

        Raises:
            MeasureError: As `run`.
        """
