"""Tabulates tuned operators beside PyTorch's kernels."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from costhub.cards.gains import geometric
from costhub.cards.tables import Column, markdown_table, number


def operators_table(result: Mapping[str, Any]) -> str:
    """One line per workload, medians over seeds, and the geometric mean of the ratios.

    Args:
        result: `rows`, each with `workload`, `best_us` (tuned), `torch_us` and the `seconds` of the search.
    """
    by_workload: dict[str, list[Mapping[str, Any]]] = {}
    for row in result["rows"]:
        by_workload.setdefault(row["workload"], []).append(row)
    shown = [_line(workload, rows) for workload, rows in by_workload.items()]
    shown.append({"workload": "geometric mean", "ratio": geometric([row["ratio"] for row in shown])})
    columns = [
        Column("workload", "workload"),
        number("seeds", "seeds", "d"),
        number("best_us", "costhub (µs)", ",.1f"),
        number("torch_us", "PyTorch (µs)", ",.1f"),
        number("ratio", "times as fast as PyTorch", ".2f"),
        Column("spread", "least to most", align="right"),
        number("seconds", "search (s)", ",.0f"),
    ]
    return markdown_table(shown, columns)


def _line(workload: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    ratios = [row["torch_us"] / row["best_us"] for row in rows]
    medians = {key: statistics.median(row[key] for row in rows) for key in ("best_us", "torch_us", "seconds")}
    return {
        "workload": workload,
        "seeds": len(rows),
        **medians,
        "ratio": statistics.median(ratios),
        "spread": f"{min(ratios):.2f} to {max(ratios):.2f}",
    }
