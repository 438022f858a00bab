"""Reads and summarises the rows of results that benchmarks keep."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np


def read_rows(path: Path | None) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines; a line that an interruption cut short is left out."""
    rows = []
    for line in path.read_text().splitlines() if path and path.exists() else ():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def mean_curves(rows: list[dict[str, Any]], methods: tuple[str, ...]) -> list[dict[str, Any]]:
    """Mean over workloads and seeds with the standard error over workloads, by device and method."""
    lines = []
    for device in dict.fromkeys(row["device"] for row in rows):
        for method in methods:
            own = [row for row in rows if (row["device"], row["method"]) == (device, method)]
            if not own:
                continue
            names = sorted({row["workload"] for row in own})
            each = np.array([np.mean([r["curve"] for r in own if r["workload"] == n], axis=0) for n in names])
            error = each.std(axis=0, ddof=1) / np.sqrt(len(names)) if len(names) > 1 else np.zeros(each.shape[1])
            lines.append(
                {
                    "device": device,
                    "label": method,
                    "x": own[0]["trials"],
                    "y": each.mean(axis=0).tolist(),
                    "se": error.tolist(),
                }
            )
    return lines
