"""Joins the report of a search with the report that its folder has already, so that no result is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from costhub.cards.reports.tune import tune_page
from costhub.errors import DataError

ORIGIN = (
    "device",
    "machine",
    "model",
    "model_reason",
    "method",
    "command",
    "created",
    "versions",
    "load_average",
    "cores",
    "stopped",
)
"""What a report says of a search besides its results."""


def with_earlier(summary: Mapping[str, Any], earlier: Mapping[str, Any] | None) -> dict[str, Any]:
    """The report of the last search, and the results of earlier ones that it has not replaced.

    A workload is replaced by the same workload on the same device, because the last search continued from its
    records; a network by one of the same name.

    Args:
        summary: The report of the last search, see `costhub.cards.reports.tune.tune_markdown`.
        earlier: The report that the folder had before; None without one.

    Returns:
        `summary` with the other `workloads` and `networks` (these with the load that their search had) after its
        own, and `earlier`: of each earlier search
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
    replaced = {(row["workload"], row["device"]) for row in summary["workloads"]}
    kept = [row for row in rows if (row["workload"], row["device"]) not in replaced]
    names = {network["network"] for network in summary.get("networks", ())}
    load = {key: earlier.get(key) for key in ("load_average", "cores")}
    networks = [{**load, **network} for network in earlier.get("networks", ()) if network["network"] not in names]
    searches = _searches(earlier, kept)
    return {
        **summary,
        "networks": [*summary.get("networks", ()), *networks],
        "workloads": [*summary["workloads"], *kept],
        **({"earlier": searches} if searches else {}),
    }


def _searches(earlier: Mapping[str, Any], kept: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The searches of the kept rows, the latest first, each with the names of its rows."""
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
    """Whether a report that was read from a file can be joined with the next one and rendered again.

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
