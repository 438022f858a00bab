"""Provides Standing: where a search over several tasks stands, for whoever watches it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from costhub.transfer.controller.allot import Allotment
from costhub.transfer.controller.expected_gain import ExpectedGain


@dataclass(frozen=True)
class Standing:
    """A search between two batches."""

    trials: int
    """Measured so far, those of an earlier search included."""
    most: int
    """The budget."""
    begun: int
    """Tasks of which something was measured."""
    tasks: int
    """All tasks."""
    latency_us: float | None
    """Sum of the kernels' best latencies, each times its calls; None while one has no program that ran."""
    gain: float | None
    """Share of `latency_us` that one more batch of every task is expected to save; None if not known."""


def standing(allotment: Allotment, *, foreseen: bool = True) -> Standing:
    """Where the search of an allotment stands.

    Args:
        allotment: With what was measured, by earlier searches too.
        foreseen: Whether the last batch says what waits.

    Example:
        >>> import numpy as np
        >>> from costhub.transfer.controller.batch import Batch
        >>> allotment = Allotment({"conv": 2.0}, trials=6)
        >>> allotment.add("conv", Batch(np.full(3, 3e-6), np.zeros(3), waiting=0.0))
        >>> now = standing(allotment)
        >>> now.trials, now.begun, now.latency_us, round(now.gain, 2)
        (3, 1, 6.0, 0.05)
    """
    tasks = allotment.tasks.values()
    latency_us = allotment.latency_s * 1e6 if math.isfinite(allotment.latency_s) else None
    expected = [ExpectedGain()(task) for task in tasks if task.batches]
    gain = None
    if foreseen and latency_us and len(expected) == len(tasks):
        gain = sum(seconds for seconds in expected if math.isfinite(seconds)) * 1e6 / latency_us
    begun = sum(bool(task.batches) for task in tasks)
    spent, most = allotment.trials - allotment.left, allotment.trials
    return Standing(spent, most, begun, len(tasks), latency_us, gain)
