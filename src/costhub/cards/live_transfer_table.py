"""Tabulates what models of another device gain in searches on this machine."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from costhub.cards.gains import gain_with_error, geometric, sooner
from costhub.cards.tables import Column, markdown_table, number

BASE = "fine-tune"
"""The method that the others are compared with."""


def summary(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Geometric means over searches of what each method gains on `BASE`, above 1 being better.

    Args:
        rows: One per search, with `workload`, `seed`, `method`, `best_us`, `seconds`, and a `curve` of
            (trials, seconds, best latency so far in us).

    Returns:
        Per method `latency_gain` at equal trials with the standard error of its logarithm, `time_gain` and
        `trials_gain`, in how much less time and how many fewer trials it reached the best latency of the
        base, counting only searches that did (`reached`, their share), and `cmat`, (time of the whole search
        over the base's, inverted, times latency gain - 1) x 100 % (Moses, section 4.2).
    """
    bases = {(row["workload"], row["seed"]): row for row in rows if row["method"] == BASE}
    found = []
    for method in dict.fromkeys(row["method"] for row in rows):
        pairs = [(row, bases[row["workload"], row["seed"]]) for row in rows if row["method"] == method]
        latency = [math.log(base["best_us"] / row["best_us"]) for row, base in pairs]
        whole = statistics.fmean(math.log(base["seconds"] / row["seconds"]) for row, base in pairs)
        reached = [gains for row, base in pairs if (gains := sooner(row["curve"], base["curve"])) is not None]
        gain, error = gain_with_error(latency)
        found.append(
            {
                "method": method,
                "searches": len(pairs),
                "latency_gain": gain,
                "latency_gain_se": error,
                "search_gain": math.exp(whole),
                "reached": len(reached) / len(pairs),
                "trials_gain": geometric([trials for trials, _ in reached]),
                "time_gain": geometric([seconds for _, seconds in reached]),
                "cmat": 100 * (math.exp(whole + statistics.fmean(latency)) - 1),
            }
        )
    return found


def live_transfer_table(result: Mapping[str, Any]) -> str:
    """What each method gains in searches on this machine."""
    columns = [
        Column("method", "method"),
        number("searches", "searches", "d"),
        number("latency_gain", "latency gain"),
        number("latency_gain_se", "se"),
        number("search_gain", "search-time gain", ".2f"),
        number("reached", "reached the base's best", ".0%"),
        number("trials_gain", "times fewer trials to it", ".2f"),
        number("time_gain", "times less time to it", ".2f"),
        number("cmat", "CMAT (%)", ".1f"),
    ]
    return markdown_table(result["summary"], columns)
