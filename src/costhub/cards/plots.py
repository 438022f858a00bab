"""Draws the pictures of cards and reports: search curves, latencies by operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

Points = Sequence[Sequence[float]]

# Colours that stay apart for colour-blind readers and in grey (Okabe and Ito, 2008), the strongest first.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
OTHER = "#999999"
_INK, _FAINT = "#333333", "#dddddd"


def plot_tuning(
    path: str | Path, series: Mapping[str, Points], *, title: str = "", untuned_us: float | None = None
) -> Path:
    """Draws the best latency so far against the number of measured programs, and saves it as PNG.

    Args:
        path: Where the picture goes.
        series: Label -> (trial, ..., best latency in microseconds), trials rising.
        title: Above the picture, for example workload and device.
        untuned_us: The latency without tuning, drawn as a dashed line.
    """
    figure, axes = _canvas(title, "measured programs", "best latency so far (µs)")
    for (label, points), colour in zip(series.items(), _cycle(len(series)), strict=True):
        trials, best = [point[0] for point in points], [point[-1] for point in points]
        # A best-so-far value holds until the next trial improves it: steps, not slopes.
        reached = f"{label}: {_latency(best[-1])}" if best else f"{label}: no program ran"
        alone = "." if len(best) == 1 else None  # a search that had ended before has one point
        axes.step(trials, best, where="post", color=colour, linewidth=2, label=reached, marker=alone)
    if untuned_us is not None:
        axes.axhline(
            untuned_us, color=_INK, linestyle="--", linewidth=1.2, label=f"untuned: {_latency(untuned_us)}"
        )
    _log_axis(axes, "y")
    axes.set_xlim(left=0)
    if series or untuned_us is not None:
        axes.legend(frameon=False)
    return save(figure, path)


def plot_latencies(
    path: str | Path, latency_us: Mapping[str, npt.NDArray[np.floating]], *, title: str = ""
) -> Path:
    """Draws how the latencies of each operator are distributed, and saves it as PNG.

    Args:
        path: Where the picture goes.
        latency_us: Operator -> (n,) latencies in microseconds.
        title: Above the picture.
    """
    names = sorted(
        (name for name in latency_us if len(latency_us[name])), key=lambda n: float(np.median(latency_us[n]))
    )
    figure, axes = _canvas(
        title,
        "latency (µs)      circle: median, bar: middle half, line: 5 to 95 %",
        "",
        height=1.4 + 0.34 * max(len(names), 2),
    )
    for place, name in enumerate(names):
        values = np.asarray(latency_us[name], dtype=np.float64)
        low, quarter, middle, three, high = np.percentile(values, [5, 25, 50, 75, 95])
        axes.plot([low, high], [place, place], color=COLOURS[0], linewidth=1.5, solid_capstyle="round")
        axes.plot(
            [quarter, three], [place, place], color=COLOURS[0], linewidth=9, alpha=0.45, solid_capstyle="butt"
        )
        axes.plot(
            [middle],
            [place],
            "o",
            color="white",
            markeredgecolor=COLOURS[0],
            markeredgewidth=1.8,
            markersize=6,
        )
    axes.set_yticks(range(len(names)), [f"{name} ({len(latency_us[name])})" for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)  # the fastest on top
    _log_axis(axes, "x")
    return save(figure, path)


def plot_growth(path: str | Path, series: Mapping[str, Points], *, x: str, y: str, title: str = "") -> Path:
    """Draws how something grows with something else, both on logarithmic axes, and saves it as PNG.

    Args:
        path: Where the picture goes.
        series: Label -> (x, y), x rising; a straight line of slope 1 is growth in proportion.
        x: What the x axis shows, with its unit.
        y: What the y axis shows, with its unit.
        title: Above the picture.
    """
    figure, axes = _canvas(title, x, y)
    for (label, points), colour in zip(series.items(), _cycle(len(series)), strict=True):
        xs, ys = [point[0] for point in points], [point[1] for point in points]
        axes.plot(xs, ys, "o-", color=colour, linewidth=2, markersize=5, label=label)
    _log_axis(axes, "x")
    _log_axis(axes, "y")
    if series:
        axes.legend(frameon=False, loc="upper left")
    return save(figure, path)


def _canvas(title: str, x: str, y: str, *, height: float = 4.2) -> tuple[Figure, Axes]:
    """A figure of its own, free of pyplot's global state, so that threads and tests cannot meet in it."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, height), dpi=150, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    furnish(axes, title=title, x=x, y=y, title_size=11)
    return figure, axes


def furnish(axes: Axes, *, title: str, x: str, y: str, title_size: float) -> None:
    """Gives axes their texts, and the look that all pictures share: no frame, a faint grid behind."""
    axes.set_title(title, loc="left", color=_INK, fontsize=title_size)
    axes.set_xlabel(x, color=_INK)
    axes.set_ylabel(y, color=_INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_INK)
    axes.tick_params(colors=_INK)
    axes.grid(visible=True, color=_FAINT, linewidth=0.6)
    axes.set_axisbelow(True)


def _latency(us: float) -> str:
    """A latency with three digits that mean something."""
    return f"{us:,.0f} µs" if us >= 1000 else f"{us:.3g} µs"


def _log_axis(axes: Axes, which: str) -> None:
    """A logarithmic axis with plain numbers: 20 and 500 instead of powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    axis: Axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = axis.get_view_interval()
    # Within a few doublings 1-2-5 ticks are too few to read a value off; over many decades they are too many.
    decades = np.log10(high / low) if low > 0 else 1.0
    subs = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if decades < 1.2 else (1.0, 2.0, 5.0) if decades < 3 else (1.0,)
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.9g}"))
    axis.set_minor_formatter(NullFormatter())


def _cycle(n: int) -> list[str]:
    return [COLOURS[i % len(COLOURS)] for i in range(n)]


def save(figure: Figure, path: str | Path) -> Path:
    """Writes a picture, PNG or SVG by the suffix; equal data give equal bytes.

    Returns:
        The path.
    """
    from matplotlib import rc_context

    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    # Without a date or a version, and with ids that do not change from run to run.
    with rc_context({"svg.hashsalt": "costhub"}):
        figure.savefig(target, metadata={"Date" if target.suffix == ".svg" else "Software": None})
    return target
