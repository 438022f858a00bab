"""Provides the rules on speed: no program is faster than what its device can compute or move."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from costhub.dataset.check.context import Context, Floats
from costhub.dataset.check.rows import Rows
from costhub.dataset.check.rule import Mask, RowRule

PEAK_MARGIN = 1.2
"""Probes miss the true peak by some per cent; beyond this factor the measurement is wrong, not the probe."""
BANDWIDTH_MARGIN = 2.0
"""A probe by dot products is less of a peak, and strided kernels leave part of their arguments unread."""
_LEVELS = (("l1_gbs", "l1d_bytes", True), ("l2_gbs", "l2_bytes", True), ("l3_gbs", "l3_bytes", False))
"""(bandwidth, size, whether every core has its own)"""
_HELD = 4.0
"""Between two runs a cache may keep a part of what exceeds it; nothing of what is this much larger."""


def faster_than_peak(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds programs that would need more GFLOP/s than the device has, where its peak is known."""
    # Peaks are of float32: tensor cores and narrow types may well exceed them.
    is_float32 = rows.context.workload_column("is_float32")[rows.workload] == 1
    work = rows.context.workload_column("flop")[rows.workload]
    peak = rows.context.device_column("peak_gflops")[rows.device] * 1e9
    # A latency that is zero or negative is another rule's finding; NaN compares as False.
    fast = is_float32 & (peak > 0) & (rows.latency_s > 0) & (work > peak * PEAK_MARGIN * rows.latency_s)
    yield f"the latency asks for more than {PEAK_MARGIN} times the device's probed peak GFLOP/s.", fast


def faster_than_memory(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds programs that would move their arguments faster than the cache that may hold them."""
    size = rows.context.workload_column("bytes")[rows.workload]
    limit = np.full(rows.n, np.nan)
    for device in np.unique(rows.device[rows.device >= 0]):
        here = rows.device == device
        limit[here] = _bandwidth(rows.context, int(device), size[here])
    fast = (rows.latency_s > 0) & (size > limit * 1e9 * BANDWIDTH_MARGIN * rows.latency_s)
    message = (
        f"the arguments would move at more than {BANDWIDTH_MARGIN:g} times the bandwidth of their cache."
    )
    yield message, fast


def _bandwidth(context: Context, device: int, size: Floats) -> Floats:
    """(n,) GB/s that arguments of some sizes can move at; NaN where that is not known."""

    def known(name: str) -> float:
        return float(context.device_column(name)[device])

    found = np.full(len(size), known("dram_gbs"))
    # From the outermost level inwards: what fits may be read from there, or from further out.
    for bandwidth, capacity, is_private in reversed(_LEVELS):
        room = known(capacity) * (max(known("cores"), 1.0) if is_private else 1.0) * _HELD
        # Not every device has a third level; an unknown first or second one leaves the limit unknown.
        if capacity == "l3_bytes" and np.isnan(room) and np.isnan(known(bandwidth)):
            continue
        fits = ~(size > room)
        found[fits] = np.maximum(found[fits], known(bandwidth))
    return found


RULES = (
    RowRule(
        id="CH030",
        title="no program is faster than the device can compute",
        severity="error",
        fix="Check the units and the workload's FLOP; if they are right, probe the device again.",
        find=faster_than_peak,
    ),
    RowRule(
        id="CH031",
        title="no program is faster than the device's caches and memory",
        severity="warning",
        fix="Look whether the kernel reads all its arguments; if it does, measure again or probe again.",
        find=faster_than_memory,
    ),
)
