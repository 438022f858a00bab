"""Provides the rule on units: latencies are seconds, and a file in milliseconds or microseconds is seen."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from costhub.dataset.check.context import Context, Floats
from costhub.dataset.check.ledger import Ledger
from costhub.dataset.check.rows import Ints
from costhub.dataset.check.rule import LedgerRule, Mask

# On half the workloads of a file the best takes 1.1 to 12 times its bound (Zen 5, H200, A100; 14 files).
SLOWNESS = 300.0
"""Times the bound that the best programs of half the workloads take."""
LEAST_S = 2e-6
"""Nothing is expected to run in less: small programs cost a launch, whatever they compute."""
LEAST_GFLOPS_PER_CORE = {"cpu": 0.5}
"""What a device whose peak is not known can do at least."""
LEAST_GFLOPS_PER_MULTIPROCESSOR = 64.0
RATIO = 30.0
"""How much slower than the device's other files, on the workloads they share; 1.4 at most on both GPUs."""
ENOUGH_ROWS = 20
ENOUGH_WORKLOADS = 3


def wrong_units(ledger: Ledger, context: Context) -> Iterator[tuple[str, Mask]]:
    """Finds files whose programs are far slower than any device, or than the device's other files."""
    timed = ledger.is_timed & (ledger["workload"] >= 0) & (ledger["device"] >= 0)
    slow, slower = [], []
    for device_rows in ledger.groups("device", within=timed):
        bound_s = _bound_s(context, int(ledger["device"][device_rows[0]]))
        files = list(ledger.groups("file", within=ledger.mask([device_rows])))
        best = np.stack([_best(ledger, rows, len(context.workloads)) for rows in files])
        # Of every workload the best in the other files: the least of all, or for its own file the next.
        least = np.sort(np.vstack([best, np.full_like(best[:1], np.inf)]), axis=0)
        others = np.where(best == least[0], least[1], least[0])
        for rows, mine, theirs in zip(files, best, others, strict=True):
            if len(rows) < ENOUGH_ROWS:
                continue
            if _median(mine, bound_s, 1) > SLOWNESS:
                slow.append(rows)
            elif _median(mine, theirs, ENOUGH_WORKLOADS) > RATIO:
                slower.append(rows)
    question = "is run_s in seconds?"
    message = f"the best programs take over {SLOWNESS:g} times what the peak lets expect; {question}"
    yield message, ledger.mask(slow)
    message = f"the best programs take over {RATIO:g} times as long as in other files; {question}"
    yield message, ledger.mask(slower)


def _bound_s(context: Context, device: int) -> Floats:
    """(workloads,) seconds that a program of every workload takes at least."""
    row = list(context.devices.values())[device]
    least = LEAST_GFLOPS_PER_CORE.get(row.get("kind", ""), LEAST_GFLOPS_PER_MULTIPROCESSOR)
    gflops = row.get("peak_gflops") or least * (row.get("cores") or 1)
    compute_s = context.workload_column("flop")[:-1] / (max(gflops, 1e-3) * 1e9)
    gbs = row.get("dram_gbs")
    move_s = context.workload_column("bytes")[:-1] / (gbs * 1e9) if gbs and gbs > 0 else 0.0
    return np.maximum(np.maximum(compute_s, move_s), LEAST_S)


def _best(ledger: Ledger, rows: Ints, count: int) -> Floats:
    """(workloads,) the best latency of every workload; infinite where there is none."""
    best = np.full(count, np.inf)
    np.minimum.at(best, ledger["workload"][rows], ledger["latency_s"][rows])
    return best


def _median(mine: Floats, other: Floats, enough: int) -> float:
    """The median of mine / other where both are known; 0 where those are too few to tell."""
    known = np.isfinite(mine) & np.isfinite(other)
    return float(np.median(mine[known] / other[known])) if known.sum() >= enough else 0.0


RULES = (
    LedgerRule(
        id="CH032",
        title="latencies are in seconds",
        severity="error",
        fix="Convert run_s to seconds: divide milliseconds by 1e3, microseconds by 1e6.",
        find=wrong_units,
    ),
)
