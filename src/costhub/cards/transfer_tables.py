"""Tabulates transfer: means and standard errors over seeds, for each pair, method and number of trials."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from typing import Any

METRICS = ("top_1", "top_5", "pairwise")
KEY = ("source", "target", "method", "part", "trials")
"""What tells the lines of the table apart."""


def summaries(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One line per KEY, in the order in which they come first.

    Args:
        rows: With KEY, `seed` and METRICS.

    Returns:
        KEY, `seeds`, and of each metric the mean and its standard error over seeds (`top_1_se`), which is
        None for a single seed.
    """
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in KEY), []).append(row)
    found = []
    for key, own in groups.items():
        line = {**dict(zip(KEY, key, strict=True)), "seeds": len({row["seed"] for row in own})}
        for metric in METRICS:
            values = [row[metric] for row in own]
            line[metric] = statistics.fmean(values)
            line[f"{metric}_se"] = (
                statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
            )
        found.append(line)
    return found
