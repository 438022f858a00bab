"""Provides the rules on the outcome of one measurement: its status, its latencies, and what its device can do."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.check.measurements import CheckContext, Floats, Mask, RowRule, Rows
from costhub.dataset.schema import STATUSES

_BUILD_FAILURES = pa.array(["build_error", "build_timeout"])
_CLOCK_MARGIN = 1.05
"""Two clocks measure run_s and run_wall_s."""
PEAK_MARGIN = 1.2
"""Probes miss the true peak by a few per cent; beyond this factor the measurement is wrong, not the probe."""
BANDWIDTH_MARGIN = 2.0
"""A probe based on dot products reaches less than the peak, and strided kernels do not read all of their arguments."""
_CACHE_LEVELS = (("l1_gbs", "l1d_bytes", True), ("l2_gbs", "l2_bytes", True), ("l3_gbs", "l3_bytes", False))
"""(bandwidth, size, whether each core has its own)"""
_CACHE_REUSE = 4.0
"""Between two runs a cache may keep part of larger data, but nothing of data this many times its size."""


def unknown_statuses(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds statuses that the schema does not define."""
    yield f"status is not one of {', '.join(STATUSES)}.", ~rows.among("status", pa.array(STATUSES))


def bad_latencies(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds measurements that ran and have no, or impossible, latencies."""
    good = np.isfinite(rows.fastest_s) & np.isfinite(rows.slowest_s) & (rows.fastest_s > 0)
    message = "status is ok, but run_s is empty or holds values that are not seconds above 0."
    yield message, rows.is_ok & ~good


def bad_failures(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds failures that have latencies, or give no reason for the failure."""
    silent = ~rows.where(pc.match_substring_regex(rows.column("error"), r"\S"))
    yield "the attempt failed, but run_s is not empty.", ~rows.is_ok & (rows.repeats > 0)
    yield "the attempt failed, but error does not say why.", ~rows.is_ok & silent


def contradictions(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds columns that contradict one another."""
    has_error = rows.where(pc.match_substring_regex(rows.column("error"), r"\S"))
    yield "status is ok, but there is an error text.", rows.is_ok & has_error
    never_ran = rows.among("status", _BUILD_FAILURES)
    yield "the build failed, but there is a run_wall_s.", never_ran & ~rows.is_null("run_wall_s")
    asked = rows.floats("evaluator_repeat")
    # Fewer are fine: the collector stops once repeats agree, and times a slow program with one call.
    more = rows.is_ok & (asked >= 0) & (rows.repeats > asked)
    yield "run_s has more repeats than evaluator_repeat allows.", more
    for name in ("build_s", "run_wall_s"):
        seconds = rows.floats(name)
        wrong = ~rows.is_null(name) & ~(np.isfinite(seconds) & (seconds >= 0))
        yield f"{name} is not a number of seconds, 0 or more.", wrong
    for name in ("evaluator_number", "evaluator_repeat", "evaluator_min_repeat_ms"):
        yield f"{name} is below 0.", rows.floats(name) < 0


def shorter_than_its_repeats(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds runs whose repeats took longer than the whole run; wrong units of run_s show here first."""
    wall_s = rows.floats("run_wall_s")
    number = np.nan_to_num(rows.floats("evaluator_number"), nan=1.0)
    repeats_s = rows.reduce(np.sum) * np.maximum(number, 1)
    message = "the repeats in run_s take longer than run_wall_s, which holds them all; are both in seconds?"
    yield message, rows.is_ok & (repeats_s > wall_s * _CLOCK_MARGIN)


def faster_than_peak(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds programs that would need more GFLOP/s than the device has, if its peak is known."""
    # Peaks are of float32 and bfloat16: tensor cores and narrower types may well exceed them.
    is_float32 = rows.context.workload_column("is_float32")[rows.workload] == 1
    work = rows.context.workload_column("flop")[rows.workload]
    in_bfloat16 = rows.context.workload_column("is_bfloat16")[rows.workload] == 1
    of_bfloat16 = rows.context.device_column("peak_gflops_bfloat16")[rows.device]
    of_float32 = rows.context.device_column("peak_gflops")[rows.device]
    peak = np.where(in_bfloat16, of_bfloat16, of_float32) * 1e9
    # A latency that is zero or negative is reported by another rule; NaN compares as False.
    fast = is_float32 & (peak > 0) & (rows.latency_s > 0) & (work > peak * PEAK_MARGIN * rows.latency_s)
    yield f"the latency asks for more than {PEAK_MARGIN} times the device's probed peak GFLOP/s.", fast


def faster_than_memory(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds programs that would move their arguments faster than the cache that may hold them."""
    size = rows.context.workload_column("bytes")[rows.workload]
    limit = np.full(rows.n, np.nan)
    for device in np.unique(rows.device[rows.device >= 0]):
        here = rows.device == device
        limit[here] = _bandwidth_limit(rows.context, int(device), size[here])
    fast = (rows.latency_s > 0) & (size > limit * 1e9 * BANDWIDTH_MARGIN * rows.latency_s)
    message = f"the arguments would move at more than {BANDWIDTH_MARGIN:g} times the bandwidth of their cache."
    yield message, fast


def _bandwidth_limit(context: CheckContext, device: int, size: Floats) -> Floats:
    """(n,) GB/s at which arguments of some sizes can be moved; NaN if unknown."""

    def figure(name: str) -> float:
        return float(context.device_column(name)[device])

    limit = np.full(len(size), figure("dram_gbs"))
    # From the outermost level inwards: data that fit may be read from there, or from further out.
    for bandwidth, capacity, is_private in reversed(_CACHE_LEVELS):
        room = figure(capacity) * (max(figure("cores"), 1.0) if is_private else 1.0) * _CACHE_REUSE
        # Not every device has a third level; an unknown first or second one leaves the limit unknown.
        if capacity == "l3_bytes" and np.isnan(room) and np.isnan(figure(bandwidth)):
            continue
        fits = ~(size > room)
        limit[fits] = np.maximum(limit[fits], figure(bandwidth))
    return limit


OUTCOME_RULES = (
    RowRule(
        id="CH025",
        title="a status is one of the schema's",
        severity="error",
        fix="Use unknown_error for a failure whose stage is not known.",
        find=unknown_statuses,
    ),
    RowRule(
        id="CH026",
        title="an ok measurement has finite, positive latencies",
        severity="error",
        fix="Remove the rows, or correct their status.",
        find=bad_latencies,
    ),
    RowRule(
        id="CH027",
        title="a failed measurement has an error text and no latencies",
        severity="error",
        fix="Empty run_s of a failure (MetaSchedule's 1e10 too), and keep the error text or say 'unknown'.",
        find=bad_failures,
    ),
    RowRule(
        id="CH028",
        title="the columns of a row do not contradict its status",
        severity="error",
        fix="Find out which column is wrong, in the program that wrote the rows, and measure again.",
        find=contradictions,
    ),
    RowRule(
        id="CH029",
        title="a run takes at least as long as its repeats",
        severity="error",
        fix="Convert run_s and run_wall_s to seconds.",
        find=shorter_than_its_repeats,
    ),
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
        fix="Check whether the kernel reads all its arguments; if it does, measure again or probe again.",
        find=faster_than_memory,
    ),
)
