"""Draws how cost models and searches compare: curves with bands, means with errors, stages."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costhub.cards.plots import INK, OTHER, SERIES, diagram, furnish, log2_axis, log_axis, new_figure, save
from costhub.cards.reports.tune_plots import STAGES
from scripts.tables.gains import gain_with_error
from scripts.tables.search import LIGHT, base_curves, seconds_a_trial, title_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
Curve = Mapping[str, Any]
SECONDS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
PER_TRIALS = 100
Row = Mapping[str, Any]


def plot_growth(
    path: str | Path, series: Mapping[str, Sequence[Sequence[float]]], *, x: str, y: str, title: str = ""
) -> Path:
    """Draws growth on logarithmic axes and saves it as PNG.

    Args:
        path: Where the picture goes.
        series: Label -> (x, y), x rising; a slope of 1 is proportional growth.
        x: What the x axis shows, with its unit.
        y: What the y axis shows, with its unit.
        title: Above the picture.
    """
    figure, axes = diagram(4.2, title=title, x=x, y=y)
    for (label, points), colour in zip(series.items(), itertools.cycle(SERIES), strict=False):
        xs, ys = [point[0] for point in points], [point[1] for point in points]
        axes.plot(xs, ys, "o-", color=colour, linewidth=2, markersize=5, label=label)
    log_axis(axes, "x")
    log_axis(axes, "y")
    if series:
        axes.legend(frameon=False, loc="upper left")
    return save(figure, path)


def plot_curves(path: str | Path, panels: Mapping[str, Sequence[Curve]], *, x: str, y: str, log: bool = False) -> Path:
    """Draws curves with bands of one standard error, a panel each for several devices, and saves them.

    Args:
        path: Where the picture goes; its suffix, png or svg, chooses the format.
        panels: Title -> curves: `label`, and lists `x`, `y` and `se` of equal length.
        x: What the x axis shows, with its unit.
        y: What the y axis shows; the panels share it.
        log: Whether the x axis is logarithmic.
    """
    from matplotlib.ticker import MaxNLocator

    figure, places = _panels(len(panels))
    labels = list(dict.fromkeys(curve["label"] for curves in panels.values() for curve in curves))
    for axes, (title, curves) in zip(places, panels.items(), strict=True):
        furnish(axes, title=title, x=x, y=y if axes is places[0] else "", title_size=10)
        for curve in curves:
            number = labels.index(curve["label"])
            colour, mark = SERIES[number % len(SERIES)], _MARKS[number % len(_MARKS)]
            low = [v - e for v, e in zip(curve["y"], curve["se"], strict=True)]
            high = [v + e for v, e in zip(curve["y"], curve["se"], strict=True)]
            axes.fill_between(curve["x"], low, high, color=colour, alpha=0.15, linewidth=0)
            axes.plot(
                curve["x"],
                curve["y"],
                color=colour,
                linewidth=1.8,
                marker=mark,
                markersize=4,
                label=curve["label"],
            )
        if log:
            log2_axis(axes)
        else:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _legend(figure, places)
    return save(figure, path)


def plot_intervals(path: str | Path, panels: Mapping[str, Sequence[Mapping[str, Any]]], *, x: str) -> Path:
    """Draws means with their standard errors, one line each, the highest on top, and saves them.

    Args:
        path: Where the picture goes; its suffix, png or svg, chooses the format.
        panels: Title -> rows: `label`, `value`, `error` (None for none) and perhaps `colour`, a number:
            rows of one number share a colour.
        x: What is shown.
    """
    most = max((len(rows) for rows in panels.values()), default=1)
    figure = new_figure(1.3 + 0.27 * most, width=4.2 * max(len(panels), 1) + 1.0)
    places = figure.subplots(1, max(len(panels), 1), squeeze=False)[0]
    for axes, (title, rows) in zip(places, panels.items(), strict=True):
        ranked = sorted(rows, key=lambda row: float(row["value"]))
        furnish(axes, title=title, x=x, y="", title_size=10)
        for place, row in enumerate(ranked):
            colour = SERIES[int(row.get("colour", 0)) % len(SERIES)]
            axes.errorbar(
                [row["value"]],
                [place],
                xerr=[row["error"] or 0.0],
                fmt="o",
                color=colour,
                markersize=5,
                capsize=3,
            )
        axes.set_yticks(range(len(ranked)), [row["label"] for row in ranked], fontsize=8)
        axes.set_ylim(-0.7, len(ranked) - 0.3)
    return save(figure, path)


def plot_calibration(path: str | Path, rows: Mapping[str, Mapping[str, Any]]) -> Path:
    """Draws nominal against actual coverage, and spread against error, and saves both.

    Args:
        path: Where the picture goes; its suffix, png or svg, chooses the format.
        rows: Label -> `covered` (nominal level as text -> share) and `bins` (spread, error), as
            `Calibration.to_json` has them.
    """
    figure, (left, right) = _panels(2, shared=False)
    furnish(left, title="", x="share that the interval should hold", y="share that it holds", title_size=10)
    furnish(right, title="", x="spread of the members", y="root mean square error", title_size=10)
    left.plot([0, 1], [0, 1], color=OTHER, linewidth=1, linestyle="--", label="right")
    for number, (label, row) in enumerate(rows.items()):
        colour, mark = SERIES[number % len(SERIES)], _MARKS[number % len(_MARKS)]
        levels = sorted(float(level) for level in row["covered"])
        shares = {float(level): share for level, share in row["covered"].items()}
        style: dict[str, Any] = {"color": colour, "marker": mark, "markersize": 5, "linewidth": 1.6}
        left.plot(levels, [shares[level] for level in levels], label=label, **style)
        right.plot([pair[0] for pair in row["bins"]], [pair[1] for pair in row["bins"]], **style)
    most = max((max(pair) for row in rows.values() for pair in row["bins"]), default=1.0)
    right.plot([0, most], [0, most], color=OTHER, linewidth=1, linestyle="--")
    left.set_xlim(0, 1)
    left.set_ylim(0, 1)
    right.set_xlim(left=0)
    right.set_ylim(bottom=0)
    _legend(figure, [left])
    return save(figure, path)


def _panels(count: int, *, shared: bool = True) -> tuple[Figure, list[Axes]]:
    """A figure of panels side by side, at most three in a row, free of pyplot's global state."""
    columns = min(max(count, 1), 3)
    lines = -(-max(count, 1) // columns)
    figure = new_figure(3.3 * lines + 0.7, width=3.4 * columns + 1.2)
    places = figure.subplots(lines, columns, squeeze=False, sharey=shared).ravel().tolist()
    for spare in places[count:]:
        spare.set_visible(False)
    return figure, places[:count]


def _legend(figure: Figure, places: Sequence[Axes]) -> None:
    """One legend below all panels for everything that any of them shows."""
    handles = {
        label: handle for axes in places for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    if handles:
        columns = min(len(handles), int(figure.get_figwidth() / 2.2))
        figure.legend(
            list(handles.values()),
            list(handles),
            loc="outside lower center",
            ncols=columns,
            frameon=False,
            fontsize=9,
        )


def plot_trials(path: str | Path, rows: Sequence[Row]) -> Path:
    """Draws the best latency so far over the final best of `LIGHT`, against trials.

    Args:
        path: Where the picture goes.
        rows: As `search.summary` takes them.
    """
    places = sorted({point["trials"] for row in rows for point in row["curve"]})
    return _plot_courses(path, rows, "measured programs", places, lambda point: float(point["trials"]))


def plot_seconds(path: str | Path, rows: Sequence[Row]) -> Path:
    """Draws the same against seconds, from the start of an empty process."""
    return _plot_courses(path, rows, "seconds", SECONDS, lambda point: float(point["seconds"]))


def plot_stages(path: str | Path, rows: Sequence[Row]) -> Path:
    """Draws the seconds of each method for a hundred trials, by stage, as means over its searches.

    Args:
        path: Where the picture goes.
        rows: With `method`, `trials` and `stages` (stage -> seconds).
    """
    methods = list(dict.fromkeys(row["method"] for row in rows))
    figure, axes = diagram(1.4 + 0.42 * len(methods), x=f"seconds for {PER_TRIALS} trials")
    lefts = [0.0] * len(methods)
    for number, stage in enumerate(STAGES):
        widths = [PER_TRIALS * seconds_a_trial(rows, method, stage) for method in methods]
        axes.barh(range(len(methods)), widths, 0.66, left=lefts, color=SERIES[number], label=stage)
        lefts = [left + width for left, width in zip(lefts, widths, strict=True)]
    axes.set_yticks(range(len(methods)), [title_of(method) for method in methods], fontsize=9)
    axes.invert_yaxis()
    axes.set_xlim(0.0, 1.03 * max(lefts))
    figure.legend(loc="outside lower center", ncols=len(STAGES), frameon=False, fontsize=9)
    return save(figure, path)


def _plot_courses(
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
            if len(logs) == len(own):  # A mean of some searches would jump as others join.
                mean, error = gain_with_error(logs, [row["workload"] for row in own])
                points.append((place, mean, (mean or 0.0) * (error or 0.0)))
        if points:
            xs, ys, errors = zip(*points, strict=True)
            curves.append({"label": title_of(method), "x": xs, "y": ys, "se": errors})
    y = "latency / stock's best after its last trial"
    return plot_curves(path, {"": curves}, x=x, y=y, log=True)


def _until(
    curve: Sequence[Mapping[str, Any]], place: float, place_of: Callable[[Mapping[str, Any]], float]
) -> float | None:
    """The best latency there; None before the first program."""
    reached = [point for point in curve if place_of(point) <= place]
    return float(reached[-1]["best_us"]) if reached else None


FRONT = {LIGHT: "stock MetaSchedule", "TenSet's MLP, fine-tuned": "TenSet's MLP", "costhub": "costhub"}
"""The methods of the front page's picture, and what they are called there."""
_STOCK = "#6b7280"


def plot_front(path: str | Path, rows: Sequence[Row]) -> Path:
    """Draws the searches of `FRONT` for the front page: few words, the names beside the curves.

    Args:
        path: Where the picture goes.
        rows: As `search.summary` takes them.
    """
    courses = {method: mean_course(rows, method) for method in FRONT}
    count = min(sum(row["method"] == method for row in rows) for method in FRONT)
    figure, axes = diagram(
        3.5,
        title=f"Best kernel so far, relative to stock's best after 512 trials (mean of {count} searches)",
        x="programs measured for one kernel",
        y="latency, lower is better",
        grid="y",
    )
    looks = (_STOCK, (62, 1.32)), (SERIES[3], (16.5, 1.34)), (SERIES[0], (16.5, 0.93))
    for (method, title), (colour, place) in zip(FRONT.items(), looks, strict=True):
        xs, ys, errors = zip(*courses[method], strict=True)
        low, high = ([y + sign * e for y, e in zip(ys, errors, strict=True)] for sign in (-1, 1))
        axes.fill_between(xs, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(xs, ys, color=colour, linewidth=2.6, marker="o", markersize=5)
        axes.text(*place, title, color=colour, fontsize=11, fontweight="bold")
    axes.axhline(1.0, color=INK, linewidth=1.0, linestyle=(0, (4, 3)))
    log2_axis(axes)
    axes.set_ylim(bottom=0.9)
    return save(figure, path)


def mean_course(rows: Sequence[Row], method: str) -> list[tuple[int, float, float]]:
    """Trials, mean latency over the base's last, its standard error: where all searches of a method have a point."""
    bases = base_curves(rows)
    own = [row for row in rows if row["method"] == method and (row["workload"], row["seed"]) in bases]
    logs: dict[int, list[float]] = {}
    for row in own:
        for point in row["curve"]:
            end = bases[row["workload"], row["seed"]][-1]["best_us"]
            logs.setdefault(point["trials"], []).append(math.log(point["best_us"] / end))
    workloads = [row["workload"] for row in own]
    whole = [
        (trials, gain_with_error(each, workloads)) for trials, each in sorted(logs.items()) if len(each) == len(own)
    ]
    return [(trials, mean or 0.0, (mean or 0.0) * (error or 0.0)) for trials, (mean, error) in whole]
