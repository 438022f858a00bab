"""Tabulates how soon searches find what stock MetaSchedule finds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from costhub.cards.gains import gain_with_error, geometric, sooner
from costhub.cards.tables import Column, markdown_table, number

LIGHT = "stock, light imports"
"""The method that others are compared with: stock MetaSchedule, its build processes starting in a second."""
STOCK = "stock"
"""Stock MetaSchedule as it is, on a few workloads for its seconds; its search is that of `LIGHT`."""
EQUAL = (64, 128)
"""Numbers of trials at which latencies are compared."""


def summary(rows: Sequence[Mapping[str, Any]], base: str = LIGHT) -> list[dict[str, Any]]:
    """Geometric means over searches of what each method gains on the base, above 1 being better.

    Args:
        rows: One per search, with `workload`, `seed`, `method` and a `curve` of dictionaries, each with
            `trials`, the `seconds` of the search until then and `best_us`, the latency of the best program
            so far, measured again beside those of all methods.
        base: The method that others are compared with.

    Returns:
        Per method, of its searches on workloads and seeds of the base, `gain_64` and `gain_128`, the base's
        latency over its own after as many trials, each with the standard error of its logarithm; `reached`,
        the share of searches that came within a hundredth of the best latency that the base has in the end;
        of these `trials_gain` and `time_gain`, how many times fewer trials and seconds than the base it took
        them (`gains.sooner`); and `trials_median` and `time_median`, the same
        of the middle one of all searches, None where that one did not come so near.
    """
    bases = base_curves(rows, base)
    found = []
    for method in dict.fromkeys(row["method"] for row in rows):
        pairs = [
            (row["curve"], bases[row["workload"], row["seed"]])
            for row in rows
            if row["method"] == method and (row["workload"], row["seed"]) in bases
        ]
        gains = [sooner(_course(own), _course(theirs)) for own, theirs in pairs]
        reached = [each for each in gains if each is not None]
        found.append(
            {
                "method": method,
                "searches": len(pairs),
                **{key: value for trials in EQUAL for key, value in _gain(pairs, trials).items()},
                "reached": len(reached) / len(pairs) if pairs else None,
                "trials_gain": geometric([trials for trials, _ in reached]),
                "time_gain": geometric([seconds for _, seconds in reached]),
                "trials_median": _middle([each and each[0] for each in gains]),
                "time_median": _middle([each and each[1] for each in gains]),
            }
        )
    return found


Curve = Sequence[Mapping[str, Any]]


def base_curves(rows: Sequence[Mapping[str, Any]], base: str = LIGHT) -> dict[tuple[str, int], Curve]:
    """(Workload, seed) -> the curve of the base, with which searches are compared."""
    return {(row["workload"], row["seed"]): row["curve"] for row in rows if row["method"] == base}


def but_stock(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows without `STOCK`, which searches few workloads: its means would be of others."""
    return [row for row in rows if row["method"] != STOCK]


def _gain(pairs: Sequence[tuple[Curve, Curve]], trials: int) -> dict[str, float | None]:
    """The latency gain after so many trials."""
    logs = []
    for own, base in pairs:
        at = [{point["trials"]: point["best_us"] for point in curve} for curve in (own, base)]
        if all(trials in each for each in at):
            logs.append(math.log(at[1][trials] / at[0][trials]))
    gain, error = gain_with_error(logs)
    return {f"gain_{trials}": gain, f"gain_{trials}_se": error}


def _course(curve: Curve) -> list[tuple[float, float, float]]:
    return [(point["trials"], point["seconds"], point["best_us"]) for point in curve]


def _middle(gains: Sequence[float | None]) -> float | None:
    """The lower median, in which a search that never came near is below all others; None where it is one."""
    return (statistics.median_low([gain or 0.0 for gain in gains]) or None) if gains else None


def search_table(result: Mapping[str, Any]) -> str:
    """A line per method, its course, a line per workload with the medians over seeds; then beside `STOCK`."""
    rows = result["rows"]
    tables = [headline_table(result), _courses(but_stock(rows)), _by_workload(rows)]
    if result.get("beside_stock"):
        tables.append(_gains_table(result["beside_stock"], "beside stock as it is"))
    return "\n\n".join(tables)


def headline_table(result: Mapping[str, Any]) -> str:
    """A line per method: what it gains on `LIGHT`."""
    return _gains_table(result["summary"], "method")


def _gains_table(gains: Sequence[Mapping[str, Any]], title: str) -> str:
    columns = [
        Column("method", title),
        number("searches", "searches", "d"),
        *(
            column
            for trials in EQUAL
            for column in (
                number(f"gain_{trials}", f"latency gain at {trials} trials"),
                number(f"gain_{trials}_se", "se"),
            )
        ),
        number("reached", "reached the base's best", ".0%"),
        number("trials_gain", "times fewer trials to it, where reached", ".1f"),
        number("trials_median", "median of all", ".1f"),
        number("time_gain", "times less time to it, where reached", ".1f"),
        number("time_median", "median of all", ".1f"),
    ]
    return markdown_table(gains, columns)


def _courses(rows: Sequence[Mapping[str, Any]]) -> str:
    """How far from the base's end each method is after so many trials, and the seconds it took until then."""
    bases = base_curves(rows)
    points: dict[str, dict[int, list[tuple[float, float]]]] = {}
    for row in rows:
        if base := bases.get((row["workload"], row["seed"])):
            for point in row["curve"]:
                reached = points.setdefault(row["method"], {}).setdefault(point["trials"], [])
                reached.append((point["best_us"] / base[-1]["best_us"], point["seconds"]))
    shown = [
        {"method": method}
        | {
            str(trials): f"{statistics.geometric_mean(far for far, _ in reached):.2f}, "
            f"{statistics.fmean(seconds for _, seconds in reached):,.0f} s"
            for trials, reached in by_trials.items()
        }
        for method, by_trials in points.items()
    ]
    counts = sorted({trials for by_trials in points.values() for trials in by_trials})
    columns = [Column(str(trials), f"{trials} trials", align="right") for trials in counts]
    return markdown_table(shown, [Column("method", "best so far / the base's in the end, seconds"), *columns])


def _by_workload(rows: Sequence[Mapping[str, Any]]) -> str:
    """Latency in us and seconds at the end of each search."""
    cells: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for row in rows:
        cells.setdefault(row["workload"], {}).setdefault(row["method"], []).append(row["curve"][-1])
    ends = {row["method"]: row["curve"][-1]["trials"] for row in rows}
    columns = [
        Column("workload", "workload"),
        *(Column(method, f"{method}, {trials} trials", align="right") for method, trials in ends.items()),
    ]
    shown = [
        {
            "workload": workload,
            **{
                method: f"{statistics.median(p['best_us'] for p in points):,.1f} µs, "
                f"{statistics.median(p['seconds'] for p in points):,.0f} s"
                for method, points in by_method.items()
            },
        }
        for workload, by_method in cells.items()
    ]
    return markdown_table(shown, columns)


SEARCH_TABLES = {
    "search": search_table,
    "search_chip": search_table,
    "search_headline": headline_table,
}
"""Name of a result file without its suffix, or of a view of one -> its renderer."""
SEARCH_VIEWS = {"search_headline": "search"}
"""Name of a view -> the file whose figures it shows."""
