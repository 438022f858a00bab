"""Draws the figures of a model on held-out workloads, for its card."""

from __future__ import annotations

import math
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from costhub.cards.plots import COLOURS, furnish, save

EVALUATION_PICTURE = "evaluation.png"
"""File of the model folder."""
EVALUATION_CAPTION = "top_1 and pairwise of each held-out workload, and their means, by operator"
_SHOWN = {"top_1": (COLOURS[0], -0.14), "pairwise": (COLOURS[1], 0.14)}
"""Metric -> its colour, and how far off the line of the operator it is drawn."""


def draw_evaluation(evaluation: Mapping[str, Any]) -> dict[str, bytes]:
    """The picture of an evaluation, for the model folder.

    Args:
        evaluation: The content of `evaluation.json`.

    Returns:
        File name -> PNG; empty where no workload has a figure.
    """
    rows = [row for row in evaluation.get("workloads") or () if any(_has(row, key) for key in _SHOWN)]
    if not rows:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        return {EVALUATION_PICTURE: plot_evaluation(Path(folder) / EVALUATION_PICTURE, rows).read_bytes()}


def plot_evaluation(path: str | Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Draws top_1 and pairwise by operator: a faint point for each workload, a strong one for the mean.

    Args:
        path: Where the picture goes; its suffix, png or svg, chooses the format.
        rows: Of each workload `operator`, `top_1` and `pairwise`, in [0, 1]; None or NaN where there is none.
    """
    from matplotlib.figure import Figure

    groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[str(row.get("operator") or "other")].append(row)
    names = sorted(groups)
    size = (7.2, 1.5 + 0.34 * max(len(names), 2))
    figure = Figure(figsize=size, dpi=150, facecolor="white", layout="constrained")
    axes = figure.add_subplot()
    furnish(axes, title="", x="1 is perfect; of pairwise, 0.5 is chance", y="", title_size=11)
    for key, (colour, shift) in _SHOWN.items():
        for place, name in enumerate(names):
            values = [float(row[key]) for row in groups[name] if _has(row, key)]
            places = [place + shift] * len(values)
            axes.plot(values, places, "o", color=colour, markersize=5, alpha=0.25, markeredgewidth=0)
            if values:
                label = key if place == 0 else None
                axes.plot(fmean(values), place + shift, "D", color=colour, markersize=7, label=label)
    # A name of many letters, or with a dollar in it, is shown as it is.
    labels = [f"{name[:40]} ({len(groups[name])})".replace("$", r"\$") for name in names]
    axes.set_yticks(range(len(names)), labels)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(-0.02, 1.02)
    figure.legend(loc="outside upper right", ncols=2, frameon=False, fontsize=9)
    return save(figure, path)


def _has(row: Mapping[str, Any], key: str) -> bool:
    value = row.get(key)
    return isinstance(value, int | float) and math.isfinite(value)
