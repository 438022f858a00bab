"""Provides the rules on outcomes: status, latencies and error text, and how they go together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.check.rows import Rows
from costhub.dataset.check.rule import Mask, RowRule
from costhub.dataset.schema import STATUSES

_BUILD_FAILURES = pa.array(["build_error", "build_timeout"])
_CLOCK_MARGIN = 1.05
"""Two clocks measure run_s and run_wall_s."""


def unknown_statuses(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds statuses of another name."""
    yield f"status is none of {', '.join(STATUSES)}.", ~rows.among("status", pa.array(STATUSES))


def bad_latencies(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds measurements that ran and have no, or impossible, latencies."""
    good = np.isfinite(rows.fastest_s) & np.isfinite(rows.slowest_s) & (rows.fastest_s > 0)
    message = "status is ok, and run_s is empty or holds what is no number of seconds above 0."
    yield message, rows.is_ok & ~good


def bad_failures(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds failures that have latencies, or do not say why they failed."""
    silent = ~rows.where(pc.match_substring_regex(rows.column("error"), r"\S"))
    yield "the attempt failed, and run_s is not empty.", ~rows.is_ok & (rows.repeats > 0)
    yield "the attempt failed, and error does not say why.", ~rows.is_ok & silent


def contradictions(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds columns that cannot be so together."""
    has_error = rows.where(pc.match_substring_regex(rows.column("error"), r"\S"))
    yield "status is ok, and there is an error text.", rows.is_ok & has_error
    never_ran = rows.among("status", _BUILD_FAILURES)
    yield "the build failed, and there is a run_wall_s.", never_ran & ~rows.is_null("run_wall_s")
    asked = rows.floats("evaluator_repeat")
    # Fewer are fine: the collector stops where repeats agree, and times a slow program by one call.
    more = rows.is_ok & (asked >= 0) & (rows.repeats > asked)
    yield "run_s has more repeats than evaluator_repeat allows.", more
    for name in ("build_s", "run_wall_s"):
        seconds = rows.floats(name)
        wrong = ~rows.is_null(name) & ~(np.isfinite(seconds) & (seconds >= 0))
        yield f"{name} is no number of seconds from 0.", wrong
    for name in ("evaluator_number", "evaluator_repeat", "evaluator_min_repeat_ms"):
        yield f"{name} is below 0.", rows.floats(name) < 0


def shorter_than_its_repeats(rows: Rows) -> Iterator[tuple[str, Mask]]:
    """Finds runs whose repeats took longer than the whole run; wrong units of run_s show here first."""
    wall_s = rows.floats("run_wall_s")
    number = np.nan_to_num(rows.floats("evaluator_number"), nan=1.0)
    repeats_s = rows.reduce(np.sum) * np.maximum(number, 1)
    message = "the repeats in run_s take longer than run_wall_s, which holds them all; are both in seconds?"
    yield message, rows.is_ok & (repeats_s > wall_s * _CLOCK_MARGIN)


RULES = (
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
        fix="Remove the rows, or give them the status that fits.",
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
)
