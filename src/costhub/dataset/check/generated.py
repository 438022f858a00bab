"""Provides the rule on made-up rows: latencies that follow a pattern no measurement follows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from costhub.dataset.check.context import Context, Floats
from costhub.dataset.check.ledger import Ledger
from costhub.dataset.check.rule import LedgerRule, Mask

ENOUGH_ROWS = 20
SHARED = 0.05
"""Share of rows with the commonest latency; 3 of 1,427 in a file of the A100, the most at hand."""
DIGITS = 3
ROUNDED = 0.5
"""Share of rows with at most DIGITS digits; none of 26,115 rows of three devices."""
DISTINCT = 0.2
"""Distinct digits per row, whatever the exponent; 99 % on the A100."""
REGULAR = 1e-3
"""Relative spread of the steps between sorted latencies; 0.7 at least in measurements."""


def generated(ledger: Ledger, context: Context) -> Iterator[tuple[str, Mask]]:
    """Finds files with one latency for many programs, with typed figures, or with even steps."""
    shared, rounded, alike, even = [], [], [], []
    for rows in ledger.groups("file", within=ledger.is_timed):
        if len(rows) < ENOUGH_ROWS:
            continue
        latency_s = ledger["latency_s"][rows]
        _, place, counts = np.unique(latency_s, return_inverse=True, return_counts=True)
        is_shared = counts[place] > max(10, SHARED * len(rows))
        mantissa = latency_s / 10.0 ** np.floor(np.log10(latency_s))
        is_round = np.abs(mantissa - np.round(mantissa, DIGITS - 1)) < 1e-9
        if is_shared.any():
            shared.append(rows[is_shared])
        elif is_round.mean() > ROUNDED:
            rounded.append(rows[is_round])
        elif len(np.unique(np.round(mantissa, 6))) < DISTINCT * len(rows):
            alike.append(rows)
    for rows in ledger.groups("file", "workload", within=ledger.is_timed):
        latency_s = ledger["latency_s"][rows]
        if len(rows) >= ENOUGH_ROWS and (_is_even(latency_s) or _is_even(np.log(latency_s))):
            even.append(rows)
    yield "many different programs have the very same latency.", ledger.mask(shared)
    message = f"most latencies have at most {DIGITS} digits, and measured ones have more."
    yield message, ledger.mask(rounded)
    yield "few distinct digits occur among the latencies, whatever the exponent.", ledger.mask(alike)
    yield "the latencies of a workload go up in even steps.", ledger.mask(even)


def _is_even(values: Floats) -> bool:
    steps = np.diff(np.sort(values))
    mean = steps.mean()
    return bool(mean > 0 and steps.std() < REGULAR * mean)


RULES = (
    LedgerRule(
        id="CH036",
        title="latencies do not look generated",
        severity="warning",
        fix="Publish what was measured; say in proposed_by and the README where rows were made up.",
        find=generated,
    ),
)
