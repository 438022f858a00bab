"""Provides highest_rate: the best of repeated timings, repeated until the best stays where it is.

A program is never faster than its device, and whatever else runs on the machine only makes it slower, so the
best of many short calls is the estimate with the least noise in it: one undisturbed call is enough.
"""

from __future__ import annotations

import time
from collections.abc import Callable

# Long against the start of a call (some us), short against what the operating system puts in between.
CALL_S = 0.005
LEAST_CALLS = 3
PATIENCE = 30
STEP = 1.002
MOST_ROUNDS = 1 << 30


def highest_rate(run: Callable[[int], float], *, budget_s: float) -> float:
    """Rounds per second of the fastest call.

    Args:
        run: Does so many rounds and returns the seconds they took.
        budget_s: No further call starts after so long; at least three are made.

    Returns:
        The best rate, once 30 calls in a row have not raised it by 0.2 %, or when the time is up.

    Example:
        >>> highest_rate(lambda rounds: rounds * 1e-3, budget_s=0.0)
        1000.0
    """
    end = time.perf_counter() + budget_s
    best, calls, without_gain, rounds = 0.0, 0, 0, 1
    while calls < LEAST_CALLS or (without_gain < PATIENCE and time.perf_counter() < end):
        took_s = max(run(rounds), 1e-9)
        if took_s < CALL_S / 2 and rounds < MOST_ROUNDS:
            # A call that was disturbed looks long enough and is not, so the length is looked at every time.
            rounds = min(MOST_ROUNDS, max(2 * rounds, int(rounds * min(100.0, CALL_S / took_s))))
            continue
        rate = rounds / took_s
        without_gain = 0 if rate > best * STEP else without_gain + 1
        best = max(best, rate)
        calls += 1
    return best
