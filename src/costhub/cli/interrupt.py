"""Provides ended_like_by_ctrl_c: one way to stop for ^C, `kill` and a closing terminal."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def ended_like_by_ctrl_c() -> Iterator[None]:
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
