"""Tabulates whole networks: untuned, tuned and as torch runs them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from costhub.cards.tables import Column, markdown_table, number

_FORMS = ("untuned", "tuned", "torch", "torch.compile")


def networks_table(result: Mapping[str, Any]) -> str:
    """One line per network, method and number of trials, from the `rows` of bench_networks.py.

    Medians over seeds. Rows whose outputs were wrong count as such, and their latencies nowhere.
    """
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in result["rows"]:
        groups.setdefault((row["network"], row["method"], row["trials"]), []).append(row)
    if not groups:
        return "Not measured yet."
    lines = [_line(rows) for rows in groups.values()]
    columns = [
        Column("network", "network"),
        Column("method", "search"),
        number("trials", "trials for each kernel", "d"),
        number("seeds", "seeds", "d"),
        number("wrong", "outputs wrong", "d"),
        number("untuned", "untuned (ms)", ",.2f"),
        number("tuned", "tuned (ms)", ",.2f"),
        Column("spread", "tuned, least to most", align="right"),
        number("torch", "torch (ms)", ",.2f"),
        number("torch.compile", "torch.compile (ms)", ",.2f"),
        number("gain", "torch / tuned", ".2f"),
        number("seconds", "search (s)", ",.0f"),
    ]
    return markdown_table(lines, columns)


def _line(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    good = [row["latencies"] for row in rows if not row["error"]]
    line: dict[str, Any] = {
        **{key: rows[0][key] for key in ("network", "method", "trials")},
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
