"""Tables of AutoTVM's figure 8: searches for some convolutions with what was learned from others."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from costhub.cards.tables import TableColumn, markdown_table, number
from scripts.tables.gains import gain_with_error, geometric, mean_of_rows, sooner

FIGURE_8_BASE = "from nothing"
"""The method that learns from the searched workload alone, with which the others are compared."""
AT = (8, 16, 32, 64)
"""Trials after which the best program so far is shown."""

Row = Mapping[str, Any]


def figure_8_summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One line for each device, feature spec and method of simulated searches.

    Args:
        rows: One for each search, with `device`, `spec`, `workload`, `seed`, `method`, and `best`: best throughput
            so far / that of the best program of the pool, after each trial.

    Returns:
        `at_8` and so on, the means of `best`; `ahead`, the mean of `best` over all trials less that of FIGURE_8_BASE on
        the same workload and seed; both with standard errors over workloads. `reached` is the share of searches that
        come within 1 % of the last program of the base, and `sooner` the geometric mean of how many times
        fewer trials these need to come there.
    """
    table = []
    for place in dict.fromkeys((row["device"], row["spec"], row["method"]) for row in rows):
        own = [row for row in rows if (row["device"], row["spec"], row["method"]) == place]
        bases = {
            (row["workload"], row["seed"]): row
            for row in rows
            if (row["device"], row["spec"], row["method"]) == (*place[:2], FIGURE_8_BASE)
        }
        pairs = [(row, bases[key]) for row in own if (key := (row["workload"], row["seed"])) in bases]
        ratios = [sooner(_course(row["best"]), _course(base["best"])) for row, base in pairs]
        line: dict[str, Any] = dict(zip(("device", "spec", "method"), place, strict=True))
        line |= {"searches": len(own), "programs": own[0]["programs"]}
        for trials in AT:
            reached = [row["best"][min(trials, len(row["best"])) - 1] for row in own]
            line |= mean_of_rows(f"at_{trials}", own, reached)
        ahead = [statistics.fmean(row["best"]) - statistics.fmean(base["best"]) for row, base in pairs]
        line |= mean_of_rows("ahead", [row for row, _ in pairs], ahead)
        line["reached"] = sum(ratio is not None for ratio in ratios) / len(ratios) if ratios else None
        line["sooner"] = geometric([ratio[0] for ratio in ratios if ratio])
        table.append(line)
    return table


def _course(best: Sequence[float]) -> list[tuple[float, float, float]]:
    """Trials, no seconds, and the inverse of throughput."""
    return [(trials + 1.0, trials + 1.0, 1.0 / value) for trials, value in enumerate(best)]


def figure_8_table(result: Mapping[str, Any]) -> str:
    """One table for each device and feature spec, one line for each method."""
    summary: Sequence[Row] = result["summary"]
    columns = [
        TableColumn("method", "method"),
        *(TableColumn(f"at_{trials}", f"best of {trials} / best of all", align="right") for trials in AT),
        number("ahead", "ahead of the model from nothing", "+.3f"),
        number("ahead_se", "standard error"),
        number("reached", "reached its end", ".0%"),
        number("sooner", "times fewer trials to it", ".1f"),
    ]
    parts = []
    for device, spec in dict.fromkeys((line["device"], line["spec"]) for line in summary):
        own = [line for line in summary if (line["device"], line["spec"]) == (device, spec)]
        shown = [{**line, **{f"at_{trials}": _cell(line, f"at_{trials}") for trials in AT}} for line in own]
        title = f"**{device}**, `{spec}`, {own[0]['searches']} searches among {own[0]['programs']} programs each"
        parts.append(f"{title}\n\n{markdown_table(shown, columns)}")
    return "\n\n".join(parts)


def _cell(line: Row, name: str) -> str:
    error = line[f"{name}_se"]
    return f"{line[name]:.3f}" if error is None else f"{line[name]:.3f} ± {error:.3f}"


def live_figure_8_summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One line for each method of searches on a device.

    Args:
        rows: One for each search, with `workload`, `seed`, `method`, `best_us` (measured again, side by side) and
            `curve`: trials, seconds and best latency so far.

    Returns:
        `gain`, the geometric mean of the base's best latency over its own at equal trials, and `gain_se`, the standard
        error of its logarithm; `reached`, `trials` and `seconds`: the share of searches that come within 1 % of the
        base's best, and how many times fewer trials and seconds they need.
    """
    bases = {(row["workload"], row["seed"]): row for row in rows if row["method"] == FIGURE_8_BASE}
    table = []
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == method]
        pairs = [(row, bases[key]) for row in own if (key := (row["workload"], row["seed"])) in bases]
        ratios = [sooner(row["curve"], base["curve"]) for row, base in pairs]
        logarithms = [math.log(base["best_us"] / row["best_us"]) for row, base in pairs]
        gain, error = gain_with_error(logarithms, [row["workload"] for row, _ in pairs])
        line: dict[str, Any] = {"method": method, "searches": len(own), "gain": gain, "gain_se": error}
        line["reached"] = sum(ratio is not None for ratio in ratios) / len(ratios) if ratios else None
        for place, name in enumerate(("trials", "seconds")):
            line[name] = geometric([ratio[place] for ratio in ratios if ratio])
        table.append(line)
    return table


def live_figure_8_table(result: Mapping[str, Any]) -> str:
    """One line for each method, from the `summary` of live searches."""
    columns = [
        TableColumn("method", "method"),
        number("searches", "searches", "d"),
        number("gain", "latency gain at equal trials"),
        number("gain_se", "se"),
        number("reached", "reached its end", ".0%"),
        number("trials", "times fewer trials to it", ".1f"),
        number("seconds", "times less time to it", ".1f"),
    ]
    return markdown_table(result["summary"], columns)


AUTOTVM_TABLES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "convolutions": figure_8_table,
    "live_convolutions": live_figure_8_table,
}
"""Name of a result file without its suffix -> its renderer."""
