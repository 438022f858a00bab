"""Provides the rules on sessions: load, clock, temperature, reference kernel and time while measuring."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from costhub.dataset.check.measurements import NO_TIME, CheckContext, Floats, Ledger, LedgerRule, Mask, RowRule, Rows

LOAD_PER_CORE = 3.0
"""The collector's own builds raise it to 2.7 on two cores, even in the rows of one-core devices. So the limit
is wide and only finds negligence; CH060 finds the noise that a smaller load causes."""
LOAD_FREE = 2.0
CLOCK_RATIO = 2.0
"""Between the 5th and the 95th percentile of a session."""
TEMPERATURE_RISE = 50.0
TEMPERATURES = (-40.0, 125.0)
DRIFT = (-0.3, 0.5)
"""-0.01 to 0.19 in a session of 33 minutes on a virtual machine."""
SAME = 1.01
"""Baselines that differ by less count as one."""
BASELINE_RATIO = 1.3
"""The baseline of a session only falls, as faster moments are found; by 2 % in that session."""
ENOUGH_ROWS = 20
EARLIEST_US = 1_420_070_400_000_000  # 2015-01-01, before TVM
FUTURE_US = 24 * 3600 * 1_000_000  # board clocks may be a day off
BACKWARDS_US = 60 * 1_000_000


def busy_machine(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds measurements on a machine that was busy with something else."""
    load, cores = rows.floats("load_average"), rows.context.device_column("cores")[rows.device]
    message = f"load_average is above {LOAD_PER_CORE:g} times the cores of the device plus {LOAD_FREE:g}."
    is_cpu = np.array([row.get("kind") == "cpu" for row in rows.context.devices.values()] + [False])
    yield message, is_cpu[rows.device] & (load > LOAD_PER_CORE * cores + LOAD_FREE)
    yield "load_average is below 0 or not a number.", ~rows.is_null("load_average") & ~(load >= 0)


def impossible_conditions(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds clocks and temperatures that no device has."""
    clock, temperature = rows.floats("clock_mhz"), rows.floats("temperature_c")
    low, high = TEMPERATURES
    wrong = ~((clock > 0) & (clock < 20_000))
    yield "clock_mhz is not between 0 and 20,000.", ~rows.is_null("clock_mhz") & wrong
    wrong = ~((temperature >= low) & (temperature <= high))
    message = f"temperature_c is not between {low:g} and {high:g}."
    yield message, ~rows.is_null("temperature_c") & wrong


def drifting_conditions(ledger: Ledger, context: CheckContext) -> Iterator[tuple[str, Mask]]:
    """Finds sessions in which the clock or the temperature moved a lot."""
    clocks, temperatures = [], []
    for rows in ledger.groups("device", "session", within=np.ones(ledger.n, bool)):
        low, high = _range(ledger["clock_mhz"][rows])
        if low > 0 and high > CLOCK_RATIO * low:
            clocks.append(rows)
        low, high = _range(ledger["temperature_c"][rows])
        if high - low > TEMPERATURE_RISE:
            temperatures.append(rows)
    message = f"clock_mhz moves by more than a factor of {CLOCK_RATIO:g} within its session."
    yield message, ledger.mask(clocks)
    message = f"temperature_c moves by more than {TEMPERATURE_RISE:g} degrees within its session."
    yield message, ledger.mask(temperatures)


def _range(values: Floats) -> tuple[float, float]:
    """The 5th and the 95th percentile; two zeros if too few values are known."""
    finite = values[np.isfinite(values)]
    if len(finite) < ENOUGH_ROWS:
        return 0.0, 0.0
    low, high = np.quantile(finite, [0.05, 0.95])
    return float(low), float(high)


def disturbed(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds measurements during which the reference kernel ran at a different speed."""
    drift, (low, high) = rows.floats("reference_drift"), DRIFT
    yield f"reference_drift is not between {low:g} and {high:g}.", (drift < low) | (drift > high)


def impossible_reference(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds impossible times of the reference kernel."""
    for name, least in (("reference_s", 0.0), ("reference_drift", -1.0)):
        values = rows.floats(name)
        wrong = ~rows.is_null(name) & ~(np.isfinite(values) & (values > least))
        yield f"{name} is not a number above {least:g}.", wrong


def contradicted_reference(ledger: Ledger, context: CheckContext) -> Iterator[tuple[str, Mask]]:
    """Finds rows whose drift does not follow from reference_s and the rest of the session.

    The baseline is the fastest reference until then, in a row or not: on a machine that was busy at first it
    falls, and falls again, but it never rises. Failed programs are left out: a failed build has the
    baseline from the start of its batch, but is written at the end.
    """
    baseline = ledger["reference_s"] / (1.0 + ledger["drift"].astype(np.float64))
    has_baseline = ledger.is_timed & np.isfinite(baseline) & (baseline > 0)
    message = "reference_s / (1 + reference_drift), the baseline, differs from that of the session's other rows."
    contradicted = []
    for group in ledger.groups("device", "session", within=has_baseline):
        rows = group[np.argsort(ledger["time_us"][group], kind="stable")]
        own = baseline[rows]
        far = np.abs(np.log(own / np.median(own))) > np.log(BASELINE_RATIO)
        lowest_until, highest_from = np.minimum.accumulate(own), np.maximum.accumulate(own[::-1])[::-1]
        contradicted.append(rows[far & ((own > SAME * lowest_until) | (own < highest_from / SAME))])
    yield message, ledger.mask(contradicted)


def impossible_times(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds timestamps before TVM existed, or in the future."""
    times = rows.column("timestamp").cast("int64").fill_null(NO_TIME).to_numpy(zero_copy_only=False)
    yield "timestamp is before 2015.", (times < EARLIEST_US) & (times != NO_TIME)
    yield "timestamp is in the future.", times > rows.context.now_us + FUTURE_US


def backwards(ledger: Ledger, context: CheckContext) -> Iterator[tuple[str, Mask]]:
    """Finds rows older than the preceding row of the same session and workload in the same file."""
    rows = np.flatnonzero(ledger["time_us"] != NO_TIME)
    names = ("file", "session", "workload")
    order = rows[np.lexsort([rows, *(ledger[name][rows] for name in reversed(names))])]
    same = np.ones(max(0, len(order) - 1), bool)
    for name in names:
        same &= ledger[name][order][1:] == ledger[name][order][:-1]
    # As floats: the difference of two wild timestamps may exceed 64 bits.
    step = np.diff(ledger["time_us"][order].astype(np.float64))
    message = "timestamp is over a minute before that of the row before it, of its session and workload."
    yield message, ledger.mask([order[1:][same & (step < -BACKWARDS_US)]])


SESSION_RULES = (
    RowRule(
        id="CH037",
        title="the machine was not busy with something else",
        severity="warning",
        fix="Measure again with nothing else running.",
        find=busy_machine,
    ),
    RowRule(
        id="CH038",
        title="clock and temperature are possible",
        severity="warning",
        fix="Write MHz and degrees Celsius, or null if the device does not report them.",
        find=impossible_conditions,
    ),
    LedgerRule(
        id="CH039",
        title="clock and temperature do not drift within a session",
        severity="warning",
        fix="Fix the clock of the device (governor, power limit), let it cool, and measure again.",
        find=drifting_conditions,
    ),
    RowRule(
        id="CH040",
        title="the speed of the reference kernel is stable",
        severity="warning",
        fix="Collect again into a new folder when the machine is quiet.",
        find=disturbed,
    ),
    RowRule(
        id="CH041",
        title="times of the reference kernel are possible",
        severity="error",
        fix="Write what was measured, or null.",
        find=impossible_reference,
    ),
    LedgerRule(
        id="CH042",
        title="reference_drift follows from reference_s",
        severity="error",
        fix="Compute it as reference_s / baseline - 1, with the fastest reference of the session so far.",
        find=contradicted_reference,
    ),
    RowRule(
        id="CH043",
        title="timestamps are between 2015 and now",
        severity="error",
        fix="Set the clock of the device and write UTC; null is allowed if the time is unknown.",
        find=impossible_times,
    ),
    LedgerRule(
        id="CH044",
        title="a session runs forwards in time",
        severity="warning",
        fix="Keep the rows in the order of measurement, and give every collection its own session.",
        find=backwards,
    ),
)
