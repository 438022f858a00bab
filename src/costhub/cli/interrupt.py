"""Provides ended_like_by_ctrl_c: one way to stop for ^C, `kill` and a closing terminal."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def ended_like_by_ctrl_c() -> Iterator[None]:
    """Lets a request to end, or a terminal that closes, interrupt the block as ^C does.

    It is heeded once: both often come twice, to the process and to its group, and must not interrupt the
    cleaning up. Signals that were ignored before stay so: ^C where a shell has started the command in the
    background, and the closing of the terminal under `nohup`, are not meant for it.
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
