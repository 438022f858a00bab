"""Provides uninterrupted: signals wait while TVM's C++ calls Python, through which they must not pass."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Holds ^C, SIGTERM and SIGHUP until TVM has returned, and then heeds them.

    A KeyboardInterrupt raised while TVM proposes programs has to pass through its C++, where it becomes a RuntimeError,
    or ends the process with a segmentation fault (`std::terminate`). The block should take seconds at most.
    """
    if threading.current_thread() is not threading.main_thread():  # no other thread has handlers
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = {number: handler for number in numbers if callable(handler := signal.getsignal(number))}
    for number in handlers:
        signal.signal(number, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        for held, handler in handlers.items():
            signal.signal(held, handler)
        if came:
            first, frame = came[0]
            handlers[signal.Signals(first)](first, frame)
