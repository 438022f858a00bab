"""Tables of searches in the spaces of more and more schedule rules."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from costhub.cards.tables import TableColumn, markdown_table, number
from scripts.tables.gains import gain_with_error, geometric

ALL_RULES = "all"
"""The set of all of TVM's rules, with which the others are compared."""

Row = Mapping[str, Any]


def composition_summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One line for each workload and set of rules.

    Args:
        rows: One for each search, with `workload`, `rules`, `seed`, `measured` (programs) and `best_us`, measured again
            side by side.

    Returns:
        `best_us`, the geometric mean over seeds; `times_all`, the geometric mean of the latency over that of ALL_RULES
        with the same seed, above 1 where a set is slower, and `se`, the standard error of its logarithm.
    """
    bases = {(row["workload"], row["seed"]): row["best_us"] for row in rows if row["rules"] == ALL_RULES}
    table = []
    for workload, rules in dict.fromkeys((row["workload"], row["rules"]) for row in rows):
        own = [row for row in rows if (row["workload"], row["rules"]) == (workload, rules)]
        ratios = [
            math.log(row["best_us"] / base) for row in own if (base := bases.get((workload, row["seed"]))) is not None
        ]
        times, error = gain_with_error(ratios)
        table.append(
            {
                "workload": workload,
                "rules": rules,
                "searches": len(own),
                "measured": sum(row["measured"] for row in own) / len(own),
                "best_us": geometric([row["best_us"] for row in own]),
                "times_all": times,
                "se": error,
            }
        )
    return table


def composition_table(result: Mapping[str, Any]) -> str:
    """One line for each workload and set of rules, from the `summary` of the benchmark `composition`."""
    columns = [
        TableColumn("workload", "workload"),
        TableColumn("rules", "schedule rules"),
        number("searches", "searches", "d"),
        number("measured", "programs", ".0f"),
        number("best_us", "best (us)", ",.1f"),
        number("times_all", "times the latency with all rules", ".2f"),
        number("se", "se", ".2f"),
    ]
    return markdown_table(result["summary"], columns)
