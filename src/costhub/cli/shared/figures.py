"""Provides the figures of a model on held-out workloads as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costhub.cards.tables import TableColumn, number, plain_table
from costhub.models.evaluate import METRICS
from costhub.terminal_text import counted

_FIGURES = tuple(number(name, name) for name in METRICS)


def figures_text(figures: Mapping[str, Any]) -> str:
    """An evaluation for a terminal: workloads, their mean, its standard error, then families and networks.

    Args:
        figures: As `costhub evaluate --json` prints them.
    """
    rows = figures["workloads"]
    several = len({row.get("device_id", "") for row in rows}) > 1
    device = (TableColumn("device_id", "device"),) if several else ()
    columns = (TableColumn("workload", "workload"), TableColumn("operator", "operator"), *device)
    errors = figures.get("standard_errors", {})
    total = {
        "workload": f"mean of {len(rows)}",
        "programs": sum(row["programs"] for row in rows),
        **figures["totals"],
    }
    error = {"workload": "standard error", **errors, "programs": ""}
    parts = [plain_table([*rows, total, error], (*columns, number("programs", "programs", "d"), *_FIGURES))]
    counts = (number("workloads", "workloads", "d"), number("programs", "programs", "d"))
    if figures.get("operators"):
        parts.append(plain_table(figures["operators"], (TableColumn("operator", "operator"), *counts, *_FIGURES)))
    if figures.get("networks"):
        weighted = (number("top_1_weighted", "top_1 weighted"), number("top_5_weighted", "top_5 weighted"))
        named = (TableColumn("network", "network"), *counts, *_FIGURES, *weighted)
        parts.append(plain_table(figures["networks"], named))
    if figures.get("variants"):
        parts.append("  ".join(f"{name} {value:.3f}" for name, value in figures["variants"].items()))
    return "\n\n".join(parts)


def figures_table(figures: Mapping[str, Any]) -> str:
    """The figures as text, with the number of workloads left out."""
    lines = [figures_text(figures)]
    if figures["skipped"]:
        lines.append(
            f"{counted(len(figures['skipped']), 'workload')} left out: no two of their programs differ by more than "
            f"{figures['noise_floor']:.0%}."
        )
    if learned := figures.get("learned"):
        lines.append(
            f"{counted(learned, 'workload')} left out: the model has learned from "
            f"{'it' if learned == 1 else 'them'} (--all includes {'it' if learned == 1 else 'them'})."
        )
    return "\n".join(lines)
