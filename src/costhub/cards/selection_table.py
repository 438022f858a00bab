"""Tabulates how fast a search comes near the best program, by what chooses the programs to measure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from costhub.cards.tables import Column, markdown_table, number


def selection_table(result: Mapping[str, Any]) -> str:
    """One table per pair of devices and size of batches, from the `summary` of bench_selection.py.

    `ahead` is the mean over a curve of best so far / best of all, less that of the ranked selection, paired
    by workload.
    """
    settings: dict[tuple[str, str, int], list[Mapping[str, Any]]] = {}
    for line in result["summary"]:
        settings.setdefault((line["source"], line["target"], line["batch"]), []).append(line)
    columns = [
        Column("method", "selection"),
        number("ahead", "ahead of ranked", "+.3f"),
        number("ahead_se", "standard error"),
        number("to_95", "measurements to 0.95", ".1f"),
        number("to_99", "to 0.99", ".1f"),
        number("at_64", "best of 64 / best of all"),
    ]
    return "\n\n".join(
        f"**{source} to {target}**, batches of {batch}, {lines[0]['workloads']} workloads\n\n"
        f"{markdown_table(lines, columns)}"
        for (source, target, batch), lines in settings.items()
    )
