"""Provides the rules across latencies: units, repeats that agree, and figures that look generated."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from costhub.dataset.check.measurements import CheckContext, Floats, Ints, Ledger, LedgerRule, Mask

# For half the workloads of a file, the best program takes 1.1 to 12 times its bound (Zen 5, H200, A100; 14 files).
MOST_ABOVE_BOUND = 300.0
"""Allowed multiple of the bound for the best programs of half the workloads."""
LEAST_S = 2e-6
"""Nothing should run in less time: even small programs pay for a launch."""
LEAST_GFLOPS_PER_CORE = {"cpu": 0.5}
"""Lower bound for a device of unknown peak."""
LEAST_GFLOPS_PER_MULTIPROCESSOR = 64.0
MOST_SLOWER = 30.0
"""How much slower than the device's other files, on the workloads they share; 1.4 at most on both GPUs."""
ENOUGH_ROWS = 20
"""Rows of a file, device or workload needed for a statistic."""
ENOUGH_WORKLOADS = 3
# Measured on 26,115 programs of a virtual machine with two cores, an H200 and an A100: the slowest repeat
# is 1.35, 1.05 and 1.08 times the fastest in 99 of 100 rows, and 16 times at most.
LEAST_OUTLIER = 32.0
NOISE_POWER = 8.0
"""An outlier's spread is this power of the spread that 99 of 100 rows of the device keep."""
MOST_USUAL_SPREAD = 1.1
"""Slowest / fastest repeat of the median row of a session on a CPU: 1.01 to 1.02 in 13 sessions on virtual machines
with one and two threads (Zen 4, Zen 5, Ice Lake), at a load of 1 to 2.7; 1.2 beside other programs, at a load of 5."""
IDENTICAL_SHARE = 0.05
"""11 of 15,450 rows of the A100 have three repeats alike."""
DISAGREEMENT = 8.0
"""Programs measured several times: at most 1.3 on both GPUs."""
MOST_SHARED = 0.05
"""Share of rows with the commonest latency; 3 of 1,427 in a file of the A100, the largest share found so far."""
FEW_DIGITS = 3
MOST_ROUNDED = 0.5
"""Share of rows with at most FEW_DIGITS digits; none of 26,115 rows of three devices."""
LEAST_DISTINCT = 0.2
"""Distinct digits per row, whatever the exponent; 99 % on the A100."""
LEAST_SPREAD_OF_STEPS = 1e-3
"""Relative spread of the steps between sorted latencies; 0.7 at least in measurements."""


def wrong_units(ledger: Ledger, context: CheckContext) -> Iterator[tuple[str, Mask]]:
    """Finds files whose programs are far slower than any device, or than the device's other files."""
    timed = ledger.is_timed & (ledger["workload"] >= 0) & (ledger["device"] >= 0)
    slow, slower = [], []
    for device_rows in ledger.groups("device", within=timed):
        bound_s = _bound_s(context, int(ledger["device"][device_rows[0]]))
        files = list(ledger.groups("file", within=ledger.mask([device_rows])))
        best = np.stack([_best_latencies(ledger, rows, len(context.workloads)) for rows in files])
        # Best latency of every workload in the other files: the least of all, or the next for that file itself.
        least = np.sort(np.vstack([best, np.full_like(best[:1], np.inf)]), axis=0)
        others = np.where(best == least[0], least[1], least[0])
        for rows, mine, theirs in zip(files, best, others, strict=True):
            if len(rows) < ENOUGH_ROWS:
                continue
            if _median_ratio(mine, bound_s, 1) > MOST_ABOVE_BOUND:
                slow.append(rows)
            elif _median_ratio(mine, theirs, ENOUGH_WORKLOADS) > MOST_SLOWER:
                slower.append(rows)
    question = "is run_s in seconds?"
    message = f"the best programs take over {MOST_ABOVE_BOUND:g} times as long as the peak suggests; {question}"
    yield message, ledger.mask(slow)
    message = f"the best programs take over {MOST_SLOWER:g} times as long as in other files; {question}"
    yield message, ledger.mask(slower)


def _bound_s(context: CheckContext, device: int) -> Floats:
    """(workloads,) lower bound in seconds for a program of every workload."""
    row = list(context.devices.values())[device]
    least = LEAST_GFLOPS_PER_CORE.get(row.get("kind", ""), LEAST_GFLOPS_PER_MULTIPROCESSOR)
    gflops = row.get("peak_gflops") or least * (row.get("cores") or 1)
    compute_s = context.workload_column("flop")[:-1] / (max(gflops, 1e-3) * 1e9)
    gbs = row.get("dram_gbs")
    move_s = context.workload_column("bytes")[:-1] / (gbs * 1e9) if gbs and gbs > 0 else 0.0
    return np.maximum(np.maximum(compute_s, move_s), LEAST_S)


def _best_latencies(ledger: Ledger, rows: Ints, count: int) -> Floats:
    """(workloads,) the best latency of every workload; infinite without one."""
    best = np.full(count, np.inf)
    np.minimum.at(best, ledger["workload"][rows], ledger["latency_s"][rows])
    return best


def _median_ratio(mine: Floats, other: Floats, enough: int) -> float:
    """The median of mine / other where both are known; 0 if there are too few."""
    known = np.isfinite(mine) & np.isfinite(other)
    return float(np.median(mine[known] / other[known])) if known.sum() >= enough else 0.0


def outlying_repeats(ledger: Ledger, context: CheckContext) -> Iterator[tuple[str, Mask]]:
    """Finds rows in which one repeat differs more from the others than noise explains."""
    timed = ledger.is_timed & (ledger["repeats"] > 1) & np.isfinite(ledger["spread"])
    outliers = []
    for rows in ledger.groups("device", within=timed):
        spread = ledger["spread"][rows].astype(np.float64)
        usual = np.quantile(spread, 0.99) if len(rows) >= ENOUGH_ROWS else 1.0
        # Many outliers would raise the very quantile meant to find them, but not the median.
        usual = min(usual, float(np.median(spread)) ** NOISE_POWER * 1.5)
        outliers.append(rows[spread > max(LEAST_OUTLIER, usual**NOISE_POWER)])
    message = "one repeat in run_s is far from the others, beyond the usual noise of the device."
    yield message, ledger.mask(outliers)


def noisy_sessions(ledger: Ledger, context: CheckContext) -> Iterator[tuple[str, Mask]]:
    """Finds sessions on CPUs in which most repeats disagree, as when other programs are running."""
    noisy = []
    is_cpu = np.array([row.get("kind") == "cpu" for row in context.devices.values()] + [False])
    timed = ledger.is_timed & (ledger["repeats"] > 1) & np.isfinite(ledger["spread"]) & is_cpu[ledger["device"]]
    for rows in ledger.groups("device", "session", within=timed):
        if len(rows) >= ENOUGH_ROWS and np.median(ledger["spread"][rows]) > MOST_USUAL_SPREAD:
            noisy.append(rows)
    message = f"in half of the session's rows, the slowest repeat is over {MOST_USUAL_SPREAD:g} times the fastest."
    yield message, ledger.mask(noisy)


def identical_repeats(ledger: Ledger, context: CheckContext) -> Iterator[tuple[str, Mask]]:
    """Finds files in which many rows have identical repeats; timers of real devices hardly ever do."""
    identical = []
    for rows in ledger.groups("file", within=ledger.is_timed & (ledger["repeats"] > 1)):
        same = rows[ledger["spread"][rows] == 1]
        if len(rows) >= ENOUGH_ROWS and len(same) > IDENTICAL_SHARE * len(rows):
            identical.append(same)
    message = "the repeats in run_s are the same number; at most one row in twenty was expected to be."
    yield message, ledger.mask(identical)


def disagreeing_programs(ledger: Ledger, context: CheckContext) -> Iterator[tuple[str, Mask]]:
    """Finds programs that were measured several times on one device, with wildly different latencies."""
    rows = np.flatnonzero(ledger.is_timed)
    order = rows[np.lexsort([ledger["latency_s"][rows], ledger["device"][rows], ledger["program"][rows]])]
    latency, program, device = (ledger[name][order] for name in ("latency_s", "program", "device"))
    # Sorted by latency within a program, so its first row is its fastest.
    starts = np.ones(len(order), bool)
    starts[1:] = (program[1:] != program[:-1]) | (device[1:] != device[:-1])
    fastest = latency[np.flatnonzero(starts)][np.cumsum(starts) - 1]
    message = f"another row of this program and device is more than {DISAGREEMENT:g} times faster."
    yield message, ledger.mask([order[latency > DISAGREEMENT * fastest]])


def generated(ledger: Ledger, context: CheckContext) -> Iterator[tuple[str, Mask]]:
    """Finds files with one latency for many programs, with typed figures, or with even steps."""
    shared, rounded, alike, even = [], [], [], []
    for rows in ledger.groups("file", within=ledger.is_timed):
        if len(rows) < ENOUGH_ROWS:
            continue
        latency_s = ledger["latency_s"][rows]
        _, place, counts = np.unique(latency_s, return_inverse=True, return_counts=True)
        is_shared = counts[place] > max(10, MOST_SHARED * len(rows))
        mantissa = latency_s / 10.0 ** np.floor(np.log10(latency_s))
        is_round = np.abs(mantissa - np.round(mantissa, FEW_DIGITS - 1)) < 1e-9
        if is_shared.any():
            shared.append(rows[is_shared])
        elif is_round.mean() > MOST_ROUNDED:
            rounded.append(rows[is_round])
        elif len(np.unique(np.round(mantissa, 6))) < LEAST_DISTINCT * len(rows):
            alike.append(rows)
    for rows in ledger.groups("file", "workload", within=ledger.is_timed):
        latency_s = ledger["latency_s"][rows]
        if len(rows) >= ENOUGH_ROWS and (_is_even(latency_s) or _is_even(np.log(latency_s))):
            even.append(rows)
    yield "many different programs have the very same latency.", ledger.mask(shared)
    message = f"most latencies have at most {FEW_DIGITS} digits, and measured ones have more."
    yield message, ledger.mask(rounded)
    yield "few distinct digits occur among the latencies, whatever the exponent.", ledger.mask(alike)
    yield "the latencies of a workload go up in even steps.", ledger.mask(even)


def _is_even(values: Floats) -> bool:
    steps = np.diff(np.sort(values))
    mean = steps.mean()
    return bool(mean > 0 and steps.std() < LEAST_SPREAD_OF_STEPS * mean)


LATENCY_RULES = (
    LedgerRule(
        id="CH032",
        title="latencies are in seconds",
        severity="error",
        fix="Convert run_s to seconds: divide milliseconds by 1e3, microseconds by 1e6.",
        find=wrong_units,
    ),
    LedgerRule(
        id="CH033",
        title="the repeats of a program agree, within the usual noise of its device",
        severity="warning",
        fix="Measure the rows again on a quiet machine; check whether a repeat is in another unit.",
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
        fix="Find out which session was disturbed or used another unit, and drop its rows (see docs/reviewing.md).",
        find=disagreeing_programs,
    ),
    LedgerRule(
        id="CH036",
        title="latencies do not look generated",
        severity="warning",
        fix="Publish what was measured; if rows are synthetic, say so in proposed_by and the README.",
        find=generated,
    ),
    LedgerRule(
        id="CH060",
        title="most repeats of a session on a CPU agree",
        severity="warning",
        fix="Measure again, into a new folder, with nothing else running.",
        find=noisy_sessions,
    ),
)
