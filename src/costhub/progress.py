"""Provides the progress bar that every long command shows, with lines of text below it where useful."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from tqdm import tqdm

log = logging.getLogger("costhub")

EVERY_S = 60.0
"""Seconds between messages if stderr is not a terminal, as in a log."""
_BAR = "{desc} {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_noinv_fmt}]"
"""Without a text at the end: tqdm would shorten the bar for it, and then cut the line."""


def can_redraw() -> bool:
    """Whether stderr is a terminal of known width that can move its cursor, so that lines can be drawn again."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        return False
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns > 0
    except (OSError, ValueError):  # a stand-in for a terminal, as in a test
        return True


def bar(total: int | None, *, desc: str, unit: str, enabled: bool = True) -> tqdm[Any]:
    """Makes a progress bar on stderr, silent if stderr is not a terminal.

    Args:
        total: Number of steps; None if unknown.
        desc: Short description of the task.
        unit: The unit of one step, for example "program".
        enabled: False keeps it silent even on a terminal.

    Returns:
        A tqdm bar to use in a `with`; call `.update(k)` after k steps.

    Example:
        >>> with bar(3, desc="measuring", unit="program") as progress:
        ...     done = progress.update(3)
    """
    return tqdm(total=total, desc=desc, unit=unit, disable=not (enabled and can_redraw()), dynamic_ncols=True)


class BarWithLines:
    """A bar with lines of text below it, cut to the width of the terminal; elsewhere an occasional message.

    Args:
        total: Number of steps.
        desc: Short description of the task.
        unit: The unit of one step, for example "program".
        lines: Lines of text below the bar.
        enabled: False keeps it silent.
        every_s: Seconds between messages if stderr is not a terminal.
        clock: Returns the time in seconds.

    Example:
        >>> with BarWithLines(3, desc="measuring", unit="program", lines=1) as progress:
        ...     progress.step()
        ...     progress.show("matmul: best 12.3 us")
    """

    def __init__(
        self,
        total: int,
        *,
        desc: str,
        unit: str,
        lines: int,
        enabled: bool = True,
        every_s: float = EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logs = enabled and not can_redraw()
        self._every_s, self._clock, self._last = every_s, clock, clock()
        how: dict[str, Any] = {"disable": not (enabled and can_redraw()), "dynamic_ncols": True}
        self._bar: Any = tqdm(total=total, desc=desc, unit=f" {unit}s", bar_format=_BAR, **how)
        # tqdm draws further bars below the first; these show only their text, and are cleared at the end.
        self._lines: list[Any] = [tqdm(bar_format="{desc}", leave=False, **how) for _ in range(lines)]

    def __enter__(self) -> BarWithLines:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the bar, which stays on the terminal without its lines."""
        for line in reversed(self._lines):
            line.close()
        self._bar.close()

    def step(self) -> None:
        """Counts one step and redraws everything, but not more often than people can read."""
        if self._bar.update():
            self._draw_lines()

    def start_at(self, done: int, total: int) -> None:
        """Sets the total and the steps done earlier, which do not count for the remaining time."""
        self._bar.n = self._bar.initial = done
        self._bar.total = total

    def show(self, text: str, *, line: int = 0, now: bool = False) -> None:
        """Puts a text into one of the lines; everything is drawn with the next step, or `now`."""
        shown = self._lines[line]
        shown.set_description_str(shortened(text, (getattr(shown, "ncols", None) or 80) - 1), refresh=False)
        if now:
            self._bar.refresh()
            self._draw_lines()

    def _draw_lines(self) -> None:
        for line in self._lines:
            line.refresh()

    def log(self, make: Callable[[], str]) -> None:
        """Logs a message if no bar can be drawn and the last message was long enough ago."""
        now = self._clock()
        if self._logs and now - self._last >= self._every_s:
            self._last = now
            log.info("%s", make())


def shortened(text: str, width: int) -> str:
    """Shortens a text to at most `width` characters by cutting out its middle.

    Example:
        >>> shortened("a-kernel-with-a-long-name: best 12.3 us", 28)
        'a-kernel-with...best 12.3 us'
        >>> shortened("softmax: best 9.1 us", 28)
        'softmax: best 9.1 us'
    """
    if len(text) <= width:
        return text
    kept = max(width - 3, 2)
    return f"{text[: (kept + 1) // 2]}...{text[-(kept // 2) :]}"
