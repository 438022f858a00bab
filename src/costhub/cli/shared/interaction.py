"""Provides what commands share at a terminal: one way to stop, a question before sending, a warning of load."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from types import FrameType

import click

from costhub.errors import RefusedError


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Makes SIGTERM and a closing terminal interrupt the block as ^C does.

    Only the first signal counts: both often arrive twice, at the process and at its group, and must not
    interrupt the cleanup. Signals that were ignored before stay ignored: a shell ignores ^C for commands in
    the background, and `nohup` ignores the closing of the terminal.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        for each in heeded:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    heeded = [number for number, handler in handlers.items() if handler is not signal.SIG_IGN]
    try:
        for number in heeded:
            signal.signal(number, interrupt)
        yield
    finally:
        for number in heeded:
            signal.signal(number, handlers[number])


def confirmed(question: str, *, yes: bool, verb: str) -> bool:
    """Asks the user to confirm, unless `--yes` was given.

    Args:
        question: Ends with a question mark.
        yes: Whether --yes was given.
        verb: The command, for the sentence.

    Raises:
        RefusedError: There is no terminal on which to ask.
    """
    if yes:
        return True
    if not sys.stdin.isatty():
        raise RefusedError(
            "Nothing was sent: there is no terminal on which to ask for confirmation. To confirm in advance, "
            f"run `costhub {verb} --yes`."
        )
    return click.confirm(question, default=False, err=True)


def size_text(size: int) -> str:
    """A size in a readable unit.

    Example:
        >>> size_text(999), size_text(4_161_119)
        ('999 B', '4.2 MB')
    """
    shown = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if shown < 1000 or unit == "GB":
            break
        shown /= 1000
    return f"{shown:.0f} B" if unit == "B" else f"{shown:.1f} {unit}"


def warn_if_busy() -> None:
    """Warns on stderr that latencies will be noisy if more processes want to run than there are cores."""
    load, cores = _load_average(), os.cpu_count() or 1
    if load > cores:
        click.echo(
            f"Other programs are running here (load average {load:.1f}, {cores} cores): latencies will be "
            "noisy, and `costhub check` may refuse them.",
            err=True,
        )


def _load_average() -> float:
    """Of the last minute."""
    return os.getloadavg()[0]
