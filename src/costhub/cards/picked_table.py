"""Tabulates what measuring the best programs of a search again would gain."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from costhub.cards.gains import gain_with_error
from costhub.cards.tables import Column, markdown_table, number


def picked_table(result: Mapping[str, Any]) -> str:
    """One line per search, from the `rows` of picked_again.py, each of which is a workload.

    Args:
        result: `rows` with the name of the `database`, and of the program that the search picked `picked_us`
            and of the one chosen by measuring again `chosen_us`, both latencies being of other rounds than
            the choice; `rank` of the chosen one as the search had it.
    """
    by_search: dict[str, list[Mapping[str, Any]]] = {}
    for row in result["rows"]:
        by_search.setdefault(row["database"], []).append(row)
    lines = []
    for database, rows in by_search.items():
        gain, error = gain_with_error([math.log(row["picked_us"] / row["chosen_us"]) for row in rows])
        same = sum(row["rank"] == 1 for row in rows)
        lines.append({"search": database, "kernels": len(rows), "same": same, "gain": gain, "se": error})
    columns = [
        Column("search", "search"),
        number("kernels", "kernels", "d"),
        number("same", "same program chosen", "d"),
        number("gain", "latency gain"),
        number("se", "se"),
    ]
    return markdown_table(lines, columns)
