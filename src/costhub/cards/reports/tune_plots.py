"""Draws a search: curves, latencies, and where the seconds went."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from costhub.cards.plots import INK, PAPER, SERIES, diagram, furnish, log_axis, new_figure, save, svg_text
from costhub.cards.tables import one_line


def plot_tuning(
    path: str | Path,
    series: Mapping[str, Sequence[Sequence[float]]],
    *,
    title: str = "",
    untuned_us: float | None = None,
) -> Path:
    """Draws the best latency so far against the number of measured programs, and saves it as PNG.

    Args:
        path: Where the picture goes.
        series: Label -> (trial, ..., best latency in microseconds), trials rising.
        title: Above the picture, for example workload and device.
        untuned_us: The latency without tuning, figure as a dashed line.
    """
    figure, axes = diagram(4.2, title=title, x="measured programs", y="best latency so far (µs)")
    for (label, points), colour in zip(series.items(), itertools.cycle(SERIES), strict=False):
        trials, best = [point[0] for point in points], [point[-1] for point in points]
        # A best-so-far value holds until the next trial improves it: steps, not slopes.
        reached = f"{label}: {_microseconds(best[-1])}" if best else f"{label}: no program ran"
        alone = "." if len(best) == 1 else None  # a search that had ended before has one point
        axes.step(trials, best, where="post", color=colour, linewidth=2, label=reached, marker=alone)
    if untuned_us is not None:
        axes.axhline(
            untuned_us, color=INK, linestyle="--", linewidth=1.2, label=f"untuned: {_microseconds(untuned_us)}"
        )
    log_axis(axes, "y")
    axes.set_xlim(left=0)
    if series or untuned_us is not None:
        axes.legend(frameon=False)
    return save(figure, path)


def _microseconds(us: float) -> str:
    """A latency with three digits that mean something."""
    return f"{us:,.0f} µs" if us >= 1000 else f"{us:.3g} µs"


STAGES = ("evolution", "features", "prediction", "learning", "building", "running", "other")
MOST_CURVES = 24
"""Workloads with a curve of their own."""
MOST_BARS = 24
_COLUMNS = 3


def latencies_svg(forms: Sequence[Mapping[str, Any]], *, name: str) -> str:
    """A bar for each form of a network, with a line over the middle half of the calls.

    Args:
        forms: With `form`, `median_us`, `low_us` and `high_us`.
        name: Starts the ids in the picture.
    """
    figure, axes = diagram(0.7 + 0.36 * len(forms), x="latency (ms)", grid="x")
    for place, form in enumerate(forms):
        low, middle, high = (form[key] / 1e3 for key in ("low_us", "median_us", "high_us"))
        axes.barh(place, middle, 0.62, color=SERIES[0 if form["form"].endswith(" tuned") else 5], linewidth=0)
        # On paper of its own: on a dark page the bar and the ink are both light.
        axes.plot([low, high], [place, place], color=PAPER, linewidth=4)
        axes.plot([low, high], [place, place], color=INK, linewidth=1.4)
        axes.annotate(
            f"{middle:,.3g}",
            (max(high, middle), place),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            color=INK,
            fontsize=8,
        )
    axes.set_yticks(range(len(forms)), [_short(form["form"], 24) for form in forms])
    axes.set_ylim(len(forms) - 0.5, -0.5)
    axes.set_xlim(0, 1.12 * max(max(form["high_us"], form["median_us"]) for form in forms) / 1e3)
    return svg_text(figure, name=name, label="latency of each form of the network")


def estimate_svg(points: Sequence[Sequence[float]]) -> str:
    """The latency of all kernels together against the trials of the search.

    Args:
        points: (trials, latency in us), trials rising.
    """
    figure, axes = diagram(2.6, x="measured programs", y="all kernels (ms)")
    trials, latency_ms = [point[0] for point in points], [point[1] / 1e3 for point in points]
    axes.step(trials, latency_ms, where="post", color=SERIES[0], linewidth=2)
    axes.set_xlim(left=0)
    log_axis(axes, "y")
    return svg_text(figure, name="estimate", label="latency of all kernels together against measured programs")


def curves_svg(rows: Sequence[Mapping[str, Any]]) -> str:
    """A small diagram for each workload: best latency against its trials, dashed where it began.

    Args:
        rows: With `workload`, `curve` and `untuned_us`; the first `MOST_CURVES` that have a curve are drawn.
    """
    shown = [row for row in rows if row["curve"]][:MOST_CURVES]
    columns = min(_COLUMNS, len(shown))
    lines = -(-len(shown) // columns)
    figure = new_figure(0.3 + 1.5 * lines)
    for place, row in enumerate(shown):
        axes = figure.add_subplot(lines, columns, place + 1)
        furnish(axes, grid="y")
        axes.tick_params(labelsize=7)
        axes.set_title(_short(row["workload"], 32), fontsize=7.5, color=INK, loc="left")
        trials, best = [point[0] for point in row["curve"]], [point[-1] for point in row["curve"]]
        alone = "." if len(best) == 1 else None
        axes.step(trials, best, where="post", color=SERIES[0], linewidth=1.5, marker=alone)
        if row["untuned_us"] is not None:
            axes.axhline(row["untuned_us"], color=INK, linestyle="--", linewidth=0.8)
        axes.set_xlim(left=0)
        log_axis(axes, "y")
    figure.supxlabel("measured programs", fontsize=8, color=INK)
    figure.supylabel("best latency (µs)", fontsize=8, color=INK)
    return svg_text(figure, name="curves", label="best latency of each workload against its measured programs")


def stages_svg(rows: Sequence[Mapping[str, Any]]) -> str:
    """A stacked bar of seconds for each workload, those with most of them first.

    Args:
        rows: With `workload` and `stages`, stage -> seconds; the first `MOST_BARS` by seconds are drawn.
    """
    ordered = sorted(rows, key=lambda row: -sum(row["stages"].values()))[:MOST_BARS]
    figure, axes = diagram(1.2 + 0.24 * len(ordered), x="seconds of the search", grid="x")
    for number, stage in enumerate(STAGES):
        if not any(row["stages"].get(stage) for row in ordered):
            continue  # a legend of what did not happen
        lefts = [sum(row["stages"].get(s, 0.0) for s in STAGES[:number]) for row in ordered]
        widths = [row["stages"].get(stage, 0.0) for row in ordered]
        axes.barh(
            range(len(ordered)),
            widths,
            0.7,
            left=lefts,
            color=SERIES[number],
            label=stage,
            edgecolor=PAPER,
            linewidth=0.4,
        )
    axes.set_yticks(range(len(ordered)), [_short(row["workload"], 40) for row in ordered], fontsize=8)
    axes.set_ylim(len(ordered) - 0.4, -0.6)
    # Above the bars: inside, it would cover some of them, or be higher than they are.
    figure.legend(loc="outside upper center", ncols=len(STAGES), frameon=False, labelcolor=INK, fontsize=8)
    return svg_text(figure, name="stages", label="seconds of the search by stage and workload")


def _short(text: str, most: int) -> str:
    """A label that fits, with the end that tells kernels apart; matplotlib finds no formula in it."""
    plain = one_line(text)
    if len(plain) > most:
        plain = f"{plain[: most - 8]}…{plain[-7:]}"
    return plain.replace("$", r"\$")
