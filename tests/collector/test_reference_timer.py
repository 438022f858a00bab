"""The reference kernel on this machine, at length and in a moment."""

from __future__ import annotations

import statistics

from costhub.collector.reference_timer import QUICK_CALLS, time_reference


def test_both_forms_time_the_same_kernel(target: str) -> None:
    full = [statistics.median(time_reference("cpu", target, quick=False)) for _ in range(5)]
    quick = [statistics.median(time_reference("cpu", target, quick=True)) for _ in range(15)]
    assert len(time_reference("cpu", target, quick=True)) == QUICK_CALLS
    # The best of each: a neighbour's load lengthens some of them, by any factor.
    assert 0.2 < min(quick) / min(full) < 5.0
