"""Tabulates what rules that end the measuring of a task save, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costhub.cards.tables import Column, markdown_table, number


def controller_table(result: Mapping[str, Any]) -> str:
    """One table per pair of devices from the `rows` of bench_controller.py.

    Rows of one half of the workloads, whose rule was chosen on the other half, are left to those of both.
    """
    pairs: dict[str, list[Mapping[str, Any]]] = {}
    for row in result["rows"]:
        if row["half"] is None:
            pairs.setdefault(row["pair"], []).append(row)
    columns = [
        Column("rule", "rule"),
        number("saved", "measurements saved", ".0%"),
        number("lost", "latency lost", ".2%"),
        number("lost_se", "standard error", ".2%"),
        number("worst_workload", "worst workload", ".1%"),
        number("lost_by_fixed", "lost by a fixed share that saves as much", ".2%"),
    ]
    return "\n\n".join(
        f"**{pair}**, {rows[0]['searches']} searches of {rows[0]['workloads']} workloads\n\n"
        f"{markdown_table(rows, columns)}"
        for pair, rows in pairs.items()
    )
