"""Provides what commands share at a terminal: one way to stop, messages on stderr, a question before sending."""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import click

from costhub.errors import CosthubError, RefusedError
from costhub.terminal_text import counted, for_stream, shown


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Makes SIGTERM and a closing terminal interrupt the block as ^C does, so that copies and scratch folders go.

    Each verb runs in such a block. One that says something of its own when it is interrupted has another inside.

    Only the first signal counts: both often arrive twice, at the process and at its group, and must not
    interrupt the cleanup. Signals that were ignored before stay ignored: a shell ignores ^C for commands in
    the background, and `nohup` ignores the closing of the terminal.

    Whatever leaves the block after a signal is an interruption: TVM carries a KeyboardInterrupt through its C++ as a
    RuntimeError, which would look like a failure.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set what a signal does
        return
    came: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        came.append(number)
        for each in heeded:
            if each != signal.SIGINT:  # who presses ^C again does not want to wait for the cleanup
                signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = {number: signal.getsignal(number) for number in numbers}
    heeded = [number for number, handler in handlers.items() if handler is not signal.SIG_IGN]
    try:
        for number in heeded:
            signal.signal(number, interrupt)
        yield
    except Exception as error:
        if came:
            raise KeyboardInterrupt from error
        raise
    finally:
        for number in heeded:
            signal.signal(number, handlers[number])


@contextlib.contextmanager
def saying_what_is_kept(out: Path) -> Iterator[None]:
    """Lets a command that measures say, when it is stopped, what its folder holds, and that it can go on.

    Args:
        out: A data folder, or the folder of a search.
    """
    try:
        yield
    except KeyboardInterrupt as stop:
        click.echo(err=True)  # after the ^C that the terminal shows
        raise click.Abort(_kept(out)) from stop


def _kept(out: Path) -> str:
    """What a folder holds, as the end of a sentence; empty where that cannot be read."""
    from costhub.dataset.folder import DataFolder, is_data_folder
    from costhub.search.database import measured_programs

    try:
        if is_data_folder(out):
            count, what = DataFolder.open(out).measurements(columns=["status"]).num_rows, "measurement"
        else:
            count, what = measured_programs(out), "measured program"
    except (CosthubError, OSError):
        return ""
    if not count:
        return "nothing has been measured yet"
    return f"{out} holds {counted(count, what)}, and the same command continues from there"


class _Stderr(logging.Handler):
    """Prints messages as a command prints its own."""

    def emit(self, record: logging.LogRecord) -> None:
        """Prints one message; above the progress bar, if one is shown."""
        message = for_stream(shown(record.getMessage()), sys.stderr)  # it may quote a stranger's file
        if "tqdm" in sys.modules and sys.stderr.isatty():
            from tqdm import tqdm

            tqdm.write(message, file=sys.stderr)
        else:
            click.echo(message, err=True)


@contextlib.contextmanager
def messages_on_stderr() -> Iterator[None]:
    """Prints what costhub reports in the block on stderr: the model that was chosen, warnings, steps."""
    log, handler = logging.getLogger("costhub"), _Stderr()
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(before)
        log.removeHandler(handler)


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
