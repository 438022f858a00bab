"""Provides TuneProgress: what a search shows while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

from costhub.progress import EVERY_S, BarWithLines
from costhub.terminal_text import counted
from costhub.transfer.stopping import Stopped

if TYPE_CHECKING:
    from costhub.search.scheduler import SearchProgress

_TELLING, _ENOUGH = 0.1, 64
"""The time left is shown from this share of the trials on, or this many: the first kernels take far longer."""
_KERNEL, _SEARCH = range(2)
"""The lines below the bar."""


class TuneProgress:
    """A bar of trials, with a line about the kernel and one about the search; in a log, a message now and then.

    Args:
        trials: Trials of all workloads together.
        every_s: Seconds between messages where stderr is not a terminal.
        clock: Returns the time in seconds.
        enabled: False keeps it silent.

    Example:
        >>> with TuneProgress(32) as progress:
        ...     progress.trial("conv", 1, 10.0)
        >>> progress.order
        ['conv']
    """

    def __init__(
        self,
        trials: int,
        *,
        every_s: float = EVERY_S,
        clock: Callable[[], float] = time.monotonic,
        enabled: bool = True,
    ) -> None:
        self.trials = trials
        self.order: list[str] = []
        """The workload of each trial."""
        self.last: SearchProgress | None = None
        """The state after the last batch."""
        self._clock, self._start = clock, clock()
        self._now = self._start
        """When the last batch ended, so that what follows the search does not count as part of it."""
        self._known: int | None = None
        self._bar = BarWithLines(
            trials, desc="tuning", unit="trial", lines=2, enabled=enabled, every_s=every_s, clock=clock
        )

    def __enter__(self) -> TuneProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.close()

    def trial(self, name: str, done: int, best_us: float | None) -> None:
        """Counts a trial of a workload."""
        self.order.append(name)
        best = f"best {best_us:,.1f} us" if best_us else "none ran yet"
        self._bar.show(f"{name}: {best}", line=_KERNEL)
        self._bar.step()

    def batch(self, state: SearchProgress) -> None:
        """Shows the state of the search after a batch."""
        self.last, self._now = state, self._clock()
        if self._known is None:
            # Programs measured by an earlier run do not count for the time left.
            self._known = state.trials
            self._bar.start_at(state.trials, state.most)
        self._bar.show(state_text(state), line=_SEARCH, now=True)
        self._bar.log(lambda: progress_text(state, self._left_s(state) if self._tells(state) else None))

    def stopped(self, rule: str) -> Stopped | None:
        """Where and why a rule ended the search; None if all trials were spent."""
        last = self.last
        if last is None or last.stopped is None:
            return None
        left_s = self._left_s(last)
        return Stopped(rule, last.stopped, last.trials, last.most, left_s)

    def _left_s(self, state: SearchProgress) -> float | None:
        """Seconds left; None before the first trial of this run."""
        done = state.trials - (self._known or 0)
        return (self._now - self._start) / done * (state.most - state.trials) if done else None

    def _tells(self, state: SearchProgress) -> bool:
        """Whether the trials of this run tell how long the others will take."""
        known = self._known or 0
        return state.trials - known >= min(_TELLING * (state.most - known), _ENOUGH)


def state_text(state: SearchProgress) -> str:
    """What a search has reached, for the line below a bar that counts its trials.

    Example:
        >>> from costhub.search.scheduler import SearchProgress
        >>> state_text(SearchProgress(64, 320, 4, 5, None, None))
        '4 of 5 kernels begun'
        >>> state_text(SearchProgress(96, 320, 5, 5, 1234.5, 0.0312))
        '5 kernels: 1,234.5 us together, next batch of each expected to save 3.1%'
        >>> state_text(SearchProgress(16, 64, 1, 1, 12.34, 0.05))
        '12.3 us in all, next batch expected to save 5.0%'
    """
    several = state.tasks > 1
    parts = []
    if state.begun < state.tasks:
        parts.append(f"{state.begun} of {counted(state.tasks, 'kernel')} begun")
    elif several:
        together = f": {state.latency_us:,.1f} us together" if state.latency_us is not None else ""
        parts.append(f"{counted(state.tasks, 'kernel')}{together}")
    elif state.latency_us is not None:
        parts.append(f"{state.latency_us:,.1f} us in all")
    if state.gain is not None:
        parts.append(f"next batch{' of each' * several} expected to save {state.gain:.1%}")
    return ", ".join(parts)


def progress_text(state: SearchProgress, left_s: float | None = None) -> str:
    """The state of a search in one line.

    Args:
        state: State of the search between two batches.
        left_s: Seconds left, if they can be estimated.

    Example:
        >>> from costhub.search.scheduler import SearchProgress
        >>> progress_text(SearchProgress(64, 320, 4, 5, None, None), 125.0)
        '64 of 320 trials, 4 of 5 kernels begun, about 2 min left'
        >>> progress_text(SearchProgress(96, 320, 5, 5, 1234.5, 0.0312))
        '96 of 320 trials, 5 kernels: 1,234.5 us together, next batch of each expected to save 3.1%'
        >>> progress_text(SearchProgress(16, 64, 1, 1, 12.34, 0.05))
        '16 of 64 trials, 12.3 us in all, next batch expected to save 5.0%'
    """
    parts = [f"{state.trials:,} of {state.most:,} trials", state_text(state)]
    if left_s is not None:
        parts.append(f"about {left_s / 60:.0f} min left" if left_s >= 90 else f"about {left_s:.0f} s left")
    return ", ".join(filter(None, parts))
