"""Draws how soon searches find what stock MetaSchedule finds, and where their seconds go."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from costhub.cards.gains import gain_with_error
from costhub.cards.model_plots import plot_curves
from costhub.cards.plots import COLOURS, OTHER, furnish, save
from costhub.cards.search_table import base_curves
from costhub.cards.tune_plots import STAGES

SECONDS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
PER_TRIALS = 100

Row = Mapping[str, Any]


def plot_trials(path: str | Path, rows: Sequence[Row]) -> Path:
    """Draws the best latency so far, over the best that `LIGHT` finds in the end, against trials.

    Args:
        path: Where the picture goes.
        rows: As `search_table.summary` takes them.
    """
    places = sorted({point["trials"] for row in rows for point in row["curve"]})
    return _plot(path, rows, "measured programs", places, lambda point: float(point["trials"]))


def plot_seconds(path: str | Path, rows: Sequence[Row]) -> Path:
    """Draws the same against seconds, from the start of an empty process."""
    return _plot(path, rows, "seconds", SECONDS, lambda point: float(point["seconds"]))


def plot_stages(path: str | Path, rows: Sequence[Row]) -> Path:
    """Draws what a hundred trials cost each method, stage by stage, as the mean over its searches.

    Args:
        path: Where the picture goes.
        rows: With `method`, `trials` and `stages` (stage -> seconds).
    """
    from matplotlib.figure import Figure

    methods = list(dict.fromkeys(row["method"] for row in rows))
    figure = Figure(figsize=(8.0, 1.4 + 0.42 * len(methods)), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    furnish(axes, title="", x=f"seconds for {PER_TRIALS} trials", y="", title_size=10)
    lefts = [0.0] * len(methods)
    for number, stage in enumerate(STAGES):
        widths = [_seconds(rows, method, stage) for method in methods]
        colour = COLOURS[number] if number < len(COLOURS) else OTHER
        axes.barh(range(len(methods)), widths, 0.66, left=lefts, color=colour, label=stage)
        lefts = [left + width for left, width in zip(lefts, widths, strict=True)]
    axes.set_yticks(range(len(methods)), methods, fontsize=9)
    axes.invert_yaxis()
    axes.set_xlim(0.0, 1.03 * max(lefts))
    figure.legend(loc="outside lower center", ncols=len(STAGES), frameon=False, fontsize=9)
    return save(figure, path)


def _seconds(rows: Sequence[Row], method: str, stage: str) -> float:
    shares = [row["stages"].get(stage, 0.0) / row["trials"] for row in rows if row["method"] == method]
    return statistics.fmean(shares) * PER_TRIALS


def _plot(
    path: str | Path,
    rows: Sequence[Row],
    x: str,
    places: Sequence[int],
    place_of: Callable[[Mapping[str, Any]], float],
) -> Path:
    bases = base_curves(rows)
    curves = []
    for method in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == method and (row["workload"], row["seed"]) in bases]
        last = max((place_of(row["curve"][-1]) for row in own), default=0.0)
        points = []
        for place in (each for each in places if each <= last):
            logs = [
                math.log(best_us / bases[row["workload"], row["seed"]][-1]["best_us"])
                for row in own
                if (best_us := _until(row["curve"], place, place_of)) is not None
            ]
            if len(logs) == len(own):  # Of some of them a mean would go up and down with who is in.
                mean, error = gain_with_error(logs)
                points.append((place, mean, (mean or 0.0) * (error or 0.0)))
        if points:
            xs, ys, errors = zip(*points, strict=True)
            curves.append({"label": method, "x": xs, "y": ys, "se": errors})
    y = "latency / stock's best after its last trial"
    return plot_curves(path, {"": curves}, x=x, y=y, log=True)


def _until(
    curve: Sequence[Mapping[str, Any]], place: float, place_of: Callable[[Mapping[str, Any]], float]
) -> float | None:
    """The best latency there; None before the first program."""
    known = [point for point in curve if place_of(point) <= place]
    return float(known[-1]["best_us"]) if known else None
