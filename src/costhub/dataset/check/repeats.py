"""Provides the rules on repeats: those of one program, in one row or in several, agree like a device's do."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from costhub.dataset.check.context import Context
from costhub.dataset.check.ledger import Ledger
from costhub.dataset.check.rule import LedgerRule, Mask

# Measured on 26,115 programs of a virtual machine with two cores, an H200 and an A100: the slowest repeat
# is 1.35, 1.05 and 1.08 times the fastest in 99 of 100 rows, and 16 times at most.
LEAST_OUTLIER = 32.0
NOISE_POWER = 8.0
"""An outlier's spread is this power of the spread that 99 of 100 rows of the device keep."""
_ENOUGH_ROWS = 20
IDENTICAL_SHARE = 0.05
"""11 of 15,450 rows of the A100 have three repeats alike."""
DISAGREEMENT = 8.0
"""Programs measured several times: 1.3 at most on both GPUs."""


def outlying_repeats(ledger: Ledger, context: Context) -> Iterator[tuple[str, Mask]]:
    """Finds rows of which one repeat is far from the others, more than noise explains."""
    timed = ledger.is_timed & (ledger["repeats"] > 1) & np.isfinite(ledger["spread"])
    found = []
    for rows in ledger.groups("device", within=timed):
        spread = ledger["spread"][rows].astype(np.float64)
        usual = np.quantile(spread, 0.99) if len(rows) >= _ENOUGH_ROWS else 1.0
        # Many outliers would raise the quantile that is to find them, but not the median.
        usual = min(usual, float(np.median(spread)) ** NOISE_POWER * 1.5)
        found.append(rows[spread > max(LEAST_OUTLIER, usual**NOISE_POWER)])
    message = "one repeat in run_s is far from the others, beyond the usual noise of the device."
    yield message, ledger.mask(found)


def identical_repeats(ledger: Ledger, context: Context) -> Iterator[tuple[str, Mask]]:
    """Finds files in which many rows repeat one number; timers of real devices hardly ever do."""
    found = []
    for rows in ledger.groups("file", within=ledger.is_timed & (ledger["repeats"] > 1)):
        same = rows[ledger["spread"][rows] == 1]
        if len(rows) >= _ENOUGH_ROWS and len(same) > IDENTICAL_SHARE * len(rows):
            found.append(same)
    message = "the repeats in run_s are the same number; at most one row in twenty was expected to be."
    yield message, ledger.mask(found)


def disagreeing_programs(ledger: Ledger, context: Context) -> Iterator[tuple[str, Mask]]:
    """Finds programs that were measured several times on one device, with wildly different latencies."""
    rows = np.flatnonzero(ledger.is_timed)
    order = rows[np.lexsort([ledger["latency_s"][rows], ledger["device"][rows], ledger["program"][rows]])]
    latency, program, device = (ledger[name][order] for name in ("latency_s", "program", "device"))
    # Sorted by latency within a program, its first row is its fastest.
    starts = np.ones(len(order), bool)
    starts[1:] = (program[1:] != program[:-1]) | (device[1:] != device[:-1])
    fastest = latency[np.flatnonzero(starts)][np.cumsum(starts) - 1]
    message = f"another row of this program and device is more than {DISAGREEMENT:g} times faster."
    yield message, ledger.mask([order[latency > DISAGREEMENT * fastest]])


RULES = (
    LedgerRule(
        id="CH033",
        title="the repeats of a program agree, within the usual noise of its device",
        severity="warning",
        fix="Measure the rows again on a quiet machine; look whether a repeat is in another unit.",
        find=outlying_repeats,
    ),
    LedgerRule(
        id="CH034",
        title="repeats differ, as those of a real timer do",
        severity="warning",
        fix="Keep the repeats that were measured, not their mean; use a timer of higher resolution.",
        find=identical_repeats,
    ),
    LedgerRule(
        id="CH035",
        title="a program measured twice on a device takes about as long",
        severity="warning",
        fix="Look which of the sessions was disturbed, or in another unit, and drop its rows.",
        find=disagreeing_programs,
    ),
)
