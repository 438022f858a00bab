"""Tables of whole networks and single operators: untuned, tuned and run by torch."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from costhub.cards.tables import TableColumn, markdown_table, number
from scripts.tables.gains import geometric
from scripts.tables.search import title_of

_FORMS = ("untuned", "tuned", "torch", "torch.compile")


def networks_table(result: Mapping[str, Any]) -> str:
    """One line per network, method and number of trials, from the `rows` of the benchmark `networks`.

    Medians over seeds. Rows with wrong outputs are counted, and their latencies left out.
    """
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in result["rows"]:
        groups.setdefault((row["network"], row["method"], row["trials"]), []).append(row)
    if not groups:
        return "Not measured yet."
    lines = [_network_line(rows) for rows in groups.values()]
    columns = [
        TableColumn("network", "network"),
        TableColumn("method", "search"),
        number("trials", "trials for each kernel", "d"),
        number("seeds", "seeds", "d"),
        number("wrong", "outputs wrong", "d"),
        number("untuned", "untuned (ms)", ",.2f"),
        number("tuned", "tuned (ms)", ",.2f"),
        TableColumn("spread", "tuned, least to most", align="right"),
        number("torch", "torch (ms)", ",.2f"),
        number("torch.compile", "torch.compile (ms)", ",.2f"),
        number("gain", "torch / tuned", ".2f"),
        number("seconds", "search (s)", ",.0f"),
    ]
    return markdown_table(lines, columns)


def _network_line(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    good = [row["latencies"] for row in rows if not row["error"]]
    line: dict[str, Any] = {
        **{key: rows[0][key] for key in ("network", "trials")},
        "method": title_of(rows[0]["method"]),
        "seeds": len(rows),
        "wrong": len(rows) - len(good),
        "seconds": statistics.median(row["seconds"] for row in rows),
    }
    for form in _FORMS:
        times = [each[form]["median_us"] / 1e3 for each in good if form in each]
        line[form] = statistics.median(times) if times else None
        if form == "tuned" and times:
            line["spread"] = f"{min(times):,.2f} to {max(times):,.2f}"
    both = [each for each in good if {"torch", "tuned"} <= set(each)]
    if both:
        line["gain"] = statistics.median(b["torch"]["median_us"] / b["tuned"]["median_us"] for b in both)
    return line


def operators_table(result: Mapping[str, Any]) -> str:
    """One line per workload, medians over seeds, and the geometric mean of the ratios.

    Args:
        result: `rows`, each with `workload`, `best_us` (tuned), `torch_us` and the `seconds` of the search.
    """
    by_workload: dict[str, list[Mapping[str, Any]]] = {}
    for row in result["rows"]:
        by_workload.setdefault(row["workload"], []).append(row)
    shown = [_operator_line(workload, rows) for workload, rows in by_workload.items()]
    shown.append({"workload": "geometric mean", "ratio": geometric([row["ratio"] for row in shown])})
    columns = [
        TableColumn("workload", "workload"),
        number("seeds", "seeds", "d"),
        number("best_us", "costhub (µs)", ",.1f"),
        number("torch_us", "PyTorch (µs)", ",.1f"),
        number("ratio", "times as fast as PyTorch", ".2f"),
        TableColumn("spread", "least to most", align="right"),
        number("seconds", "search (s)", ",.0f"),
    ]
    return markdown_table(shown, columns)


def _operator_line(workload: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    ratios = [row["torch_us"] / row["best_us"] for row in rows]
    medians = {key: statistics.median(row[key] for row in rows) for key in ("best_us", "torch_us", "seconds")}
    return {
        "workload": workload,
        "seeds": len(rows),
        **medians,
        "ratio": statistics.median(ratios),
        "spread": f"{min(ratios):.2f} to {max(ratios):.2f}",
    }
