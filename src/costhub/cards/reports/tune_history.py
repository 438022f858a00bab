"""Joins the report of a search with the report that its folder already has, so that no result is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from costhub.cards.reports.tune import tune_page
from costhub.errors import DataError

ORIGIN = (
    "device",
    "machine",
    "target",
    "model",
    "model_reason",
    "method",
    "command",
    "created",
    "versions",
    "load_average",
    "cores",
    "cap",
    "stopped",
)
"""The facts about a search in a report, besides its results."""


def with_earlier(summary: Mapping[str, Any], earlier: Mapping[str, Any] | None) -> dict[str, Any]:
    """Adds earlier results that were not replaced to the report of the last search.

    A workload is replaced by the same workload on the same device, because the last search continued from its
    records, unless they are of another target; a network by one with the same name.

    Args:
        summary: The report of the last search, see `costhub.cards.reports.tune.tune_markdown`.
        earlier: The previous report in the folder; None if there is none.

    Returns:
        `summary` with the other `workloads` and `networks` (the latter with the load during their search) after its
        own, and `earlier`: for each earlier search
        whose workloads are kept `ORIGIN` and the names of these `workloads`.

    Example:
        >>> first = {"device": "acme", "model": "m", "networks": [], "workloads": [{"workload": "conv"}]}
        >>> second = {**first, "workloads": [{"workload": "relu", "device": "acme"}]}
        >>> both = with_earlier(second, first)
        >>> [row["workload"] for row in both["workloads"]], both["earlier"][0]["workloads"]
        (['relu', 'conv'], ['conv'])
    """
    if earlier is None:
        return dict(summary)
    # Reports of 0.1.0 name the device once, for all of their workloads.
    rows = [{"device": earlier["device"], **row} for row in earlier["workloads"]]
    before = {(row["workload"], row["device"]): row for row in rows}
    went_on = before if on_target(earlier, summary.get("target")) else {}
    own = [_continued(row, went_on.get((row["workload"], row["device"]))) for row in summary["workloads"]]
    replaced = {(row["workload"], row["device"]) for row in own}
    kept = [row for row in rows if (row["workload"], row["device"]) not in replaced]
    names = {network["network"] for network in summary.get("networks", ())}
    load = {key: earlier.get(key) for key in ("load_average", "cores")}
    networks = [{**load, **network} for network in earlier.get("networks", ()) if network["network"] not in names]
    searches = _searches(earlier, kept)
    return {
        **summary,
        "networks": [*summary.get("networks", ()), *networks],
        "workloads": [*own, *kept],
        **({"earlier": searches} if searches else {}),
    }


def on_target(earlier: Mapping[str, Any] | None, target: str | None) -> Mapping[str, Any] | None:
    """An earlier report whose records count in a search for a target: those of other targets, TVM leaves aside.

    Args:
        earlier: The previous report; those of older versions do not say their target, and count.
        target: The TVM target of the new search, as JSON.
    """
    is_other = earlier is not None and earlier.get("target") not in (None, target)
    return None if is_other else earlier


def _continued(row: Mapping[str, Any], earlier: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The row of a workload whose programs were measured by several searches, with what all of them recorded.

    The last search finds the programs of the others in its database, which knows neither their order nor the time.
    """
    if earlier is None or earlier.get("trials", 0) > row.get("trials", 0) or "seconds" not in row:
        return row
    before = earlier.get("trials", 0)
    joined = {**row, "seconds": row["seconds"] + earlier.get("seconds", 0.0), "trials_before": before}
    joined["trials_untimed"] = max(0, row.get("trials_untimed", 0) - before) + earlier.get("trials_untimed", 0)
    if earlier.get("curve"):
        joined["curve"] = [*earlier["curve"], *(point for point in row.get("curve", ()) if point[0] > before)]
    if len(earlier.get("measured_us") or ()) == before:
        joined["measured_us"] = [*earlier["measured_us"], *(row.get("measured_us") or ())[before:]]
    if row.get("stages") and earlier.get("stages"):
        both = dict.fromkeys([*earlier["stages"], *row["stages"]])
        joined["stages"] = {key: earlier["stages"].get(key, 0.0) + row["stages"].get(key, 0.0) for key in both}
    return joined


def _searches(earlier: Mapping[str, Any], kept: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The searches of the kept rows, most recent first, each with the names of its rows."""
    before = list(earlier.get("earlier", ()))
    theirs = {(name, search["device"]) for search in before for name in search["workloads"]}
    own = [row["workload"] for row in kept if (row["workload"], row["device"]) not in theirs]
    last = {key: earlier[key] for key in ORIGIN if key in earlier}
    left = {(row["workload"], row["device"]) for row in kept}
    searches = [{**last, "workloads": own}]
    for search in before:
        names = [name for name in search["workloads"] if (name, search["device"]) in left]
        searches.append({**search, "workloads": names})
    return [search for search in searches if search["workloads"]]


def can_go_on(report: Mapping[str, Any]) -> bool:
    """Whether a report read from a file can be joined with the next one and rendered again.

    Example:
        >>> can_go_on({"device": "acme", "workloads": "all"})
        False
    """
    try:
        nothing_new = {**report, "networks": [], "workloads": [], "earlier": []}
        tune_page(with_earlier(nothing_new, report))
    except (DataError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError):
        return False
    return True
