"""Provides the rule on units: latencies are seconds, and a file in milliseconds or microseconds is seen."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from costhub.dataset.check.context import Context, Floats
from costhub.dataset.check.ledger import Ledger
from costhub.dataset.check.rows import Ints
from costhub.dataset.check.rule import LedgerRule, Mask

# The best of a workload takes 1 to 4 times its bound on the devices at hand; milliseconds make it 1,000.
SLOWNESS = 300.0
"""Times the bound that the best programs of half the workloads take."""
LEAST_S = 2e-6
"""Nothing is expected to run in less: small programs cost a launch, whatever they compute."""
LEAST_GFLOPS_PER_CORE = {"cpu": 0.5}
"""What a device whose peak is not known can do at least."""
LEAST_GFLOPS_PER_MULTIPROCESSOR = 64.0
RATIO = 30.0
"""How much slower than the other files of the device, on the workloads they share."""
ENOUGH_ROWS = 20
ENOUGH_WORKLOADS = 3


def wrong_units(ledger: Ledger, context: Context) -> Iterator[tuple[str, Mask]]:
    """Finds files whose programs are far slower than any device, or than the device's other files."""
    timed = ledger.is_timed & (ledger["workload"] >= 0) & (ledger["device"] >= 0)
    for device_rows in ledger.groups("device", within=timed):
        bound_s = _bound_s(context, int(ledger["device"][device_rows[0]]))
        best = {
            int(ledger["file"][rows[0]]): (rows, _best(ledger, rows, len(context.workloads)))
            for rows in ledger.groups("file", within=ledger.mask(device_rows))
        }
        for file, (rows, mine) in best.items():
            others = [theirs for other, (_, theirs) in best.items() if other != file]
            if len(rows) < ENOUGH_ROWS:
                continue
            if _median(mine / bound_s) > SLOWNESS:
                message = f"the best programs take over {SLOWNESS:g} times what the peak lets expect;"
                yield f"{message} is run_s in seconds?", ledger.mask(rows)
            elif others and _median(mine / np.fmin.reduce(others), ENOUGH_WORKLOADS) > RATIO:
                message = (
                    f"the best programs take over {RATIO:g} times as long as in the device's other files;"
                )
                yield f"{message} is run_s in seconds?", ledger.mask(rows)


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
    """(workloads,) the best latency of every workload; NaN where there is none."""
    best = np.full(count, np.inf)
    np.minimum.at(best, ledger["workload"][rows], ledger["latency_s"][rows])
    return np.where(np.isfinite(best), best, np.nan)


def _median(values: Floats, enough: int = 1) -> float:
    """The median of what is no NaN; 0 where that is too little to tell."""
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) >= enough else 0.0


RULES = (
    LedgerRule(
        id="CH032",
        title="latencies are in seconds",
        severity="error",
        fix="Convert run_s to seconds: divide milliseconds by 1e3, microseconds by 1e6.",
        find=wrong_units,
    ),
)
