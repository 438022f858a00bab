"""Draws a search: programs and the best so far, for each workload and for all together."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costhub.cards.plots import INK, SERIES, file_text, furnish, new_figure, svg_text, write_svg
from costhub.cards.tables import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


STAGES = ("evolution", "features", "prediction", "learning", "building", "running", "other")
MOST_CURVES = 12
"""Number of workloads whose curve is shown without a click."""
_PICTURES = 2 * MOST_CURVES
"""How many pictures of each kind are kept."""
_COLUMNS = 3
_MOST_DOTS = 400
"""Maximum number of programs drawn per workload; if there are more, only every second or third."""
_MOST_RATIO = 2.5
"""Upper end of a curve's scale, as a multiple of the best latency: the region near the best is what matters."""
_LEAST_RATIO = 1.1


def together_svg(points: Sequence[Sequence[float]]) -> str:
    """The latency of all kernels together along a search.

    Args:
        points: (programs of each kernel, latency in us), in increasing order of programs.
    """
    return _drawn_together(_data(points), of_page=True)


def plot_together(points: Sequence[Sequence[float]], path: str | Path) -> Path:
    """Writes the picture of `together_svg` to a file, following the reader's light or dark theme."""
    return write_svg(_drawn_together(_data(points), of_page=False), path)


# A report is written twice, before and after its networks are compiled, with the same pictures.


def _data(drawn: Any) -> str:
    """What a picture shows, as a key."""
    return json.dumps(drawn)


@lru_cache(_PICTURES)
def _drawn_together(data: str, *, of_page: bool) -> str:
    figure, label = _together(json.loads(data)), "latency of all kernels against measured programs"
    return svg_text(figure, name="together", label=label) if of_page else file_text(figure, label=label)


def _together(points: Sequence[Sequence[float]]) -> Figure:
    from matplotlib.ticker import MaxNLocator

    figure = new_figure(2.5, width=5.2)
    axes = figure.add_subplot()
    furnish(axes, x="programs of each", y="all together (ms)")
    trials, latency_ms = [point[0] for point in points], [point[1] / 1e3 for point in points]
    axes.step(trials, latency_ms, where="post", color=SERIES[0], linewidth=2)
    axes.set_xlim(0, trials[-1])
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    low, high = latency_ms[-1], min(max(latency_ms), _MOST_RATIO * latency_ms[-1])
    axes.set_ylim(low - 0.1 * (high - low or low), high + 0.05 * (high - low or low))
    return figure


def curve_svg(row: Mapping[str, Any], *, name: str) -> str:
    """A small diagram of a workload: its programs in the order measured, and the best latency so far.

    Args:
        row: Row with `workload`, `curve` and, if known, the `measured_us` of all programs.
        name: Prefix of the ids in the picture.
    """
    return _drawn_curve(_data_of([row]), name)


def _data_of(rows: Sequence[Mapping[str, Any]]) -> str:
    return _data([{key: row.get(key) for key in ("workload", "trials", "curve", "measured_us")} for row in rows])


@lru_cache(_PICTURES)
def _drawn_curve(data: str, name: str) -> str:
    (row,) = json.loads(data)
    figure = new_figure(1.6, width=3.1)
    figure.set_layout_engine("none")  # one for each kernel: fixed margins take a third of the time
    axes = figure.add_axes((0.17, 0.15, 0.81, 0.79))
    _draw_curve(axes, row)
    return svg_text(figure, name=name, label=f"latency (µs) of {one_line(row['workload'])} by measured programs")


def plot_curves(rows: Sequence[Mapping[str, Any]], path: str | Path) -> Path:
    """Writes the diagrams of `curve_svg` to one file, those of the first `MOST_CURVES` workloads with a curve."""
    shown = [row for row in rows if row["curve"]][:MOST_CURVES]
    return write_svg(_drawn_curves(_data_of(shown)), path)


@lru_cache(_PICTURES)
def _drawn_curves(data: str) -> str:
    shown = json.loads(data)
    columns = max(1, min(_COLUMNS, len(shown)))
    figure = new_figure(0.3 + 1.75 * -(-len(shown) // columns), width=3.1 * columns)
    for place, row in enumerate(shown):
        axes = figure.add_subplot(-(-len(shown) // columns), columns, place + 1)
        _draw_curve(axes, row)
        axes.set_title(_short(row["workload"], 38), fontsize=7.5, color=INK, loc="left")
    figure.supxlabel("programs", fontsize=8, color=INK)
    figure.supylabel("latency (µs)", fontsize=8, color=INK)
    return file_text(figure, label="latency of each workload by measured programs")


def _draw_curve(axes: Axes, row: Mapping[str, Any]) -> None:
    """Draws the programs and the best so far, on a scale that ends above the middle half of the programs."""
    from matplotlib.ticker import MaxNLocator

    furnish(axes, grid="y")
    axes.tick_params(labelsize=8)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    curve = row["curve"]
    trials, best = [point[0] for point in curve], [point[-1] for point in curve]
    falls = [place for place, us in enumerate(best) if not place or us < best[place - 1]]
    ran = [(trial, us) for trial, us in enumerate(row.get("measured_us") or (), start=1) if us is not None]
    low, high = scale_of([us for _, us in ran] or best)
    ran = ran[:: -(-len(ran) // _MOST_DOTS) or 1]
    near, far = [each for each in ran if each[1] <= high], [each for each in ran if each[1] > high]
    if near:
        axes.plot(*zip(*near, strict=True), ".", color=SERIES[5], markersize=4, zorder=2)
    if far:
        axes.plot([trial for trial, _ in far], [high] * len(far), "^", color=SERIES[5], markersize=3, clip_on=False)
    alone = "." if len(best) == 1 else None  # a search that had already ended has one point
    last = max(row["trials"], trials[-1])
    steps = [(trials[place], best[place]) for place in falls] + [(last, best[-1])]
    axes.step(*zip(*steps, strict=True), where="post", color=SERIES[0], linewidth=1.7, marker=alone)
    axes.set_xlim(0, last * 1.03)
    axes.set_ylim(low, high)


def scale_of(latencies_us: Sequence[float]) -> tuple[float, float]:
    """The lowest and highest latency that a curve shows: near the best, regardless of the slowest programs.

    The scale ends where the middle half of the programs ends, at most one interquartile range above it; at
    least a tenth and at most one and a half times above the best.

    Example:
        >>> scale_of([10.0, 11.0, 12.0, 13.0, 900.0])
        (9.5, 15.0)
        >>> scale_of([10.0])
        (9.9, 11.0)
    """
    best = min(latencies_us)
    high = best
    if len(latencies_us) > 1:
        low, _, high = statistics.quantiles(latencies_us, n=4, method="inclusive")
        high += high - low
    high = min(max(high, _LEAST_RATIO * best), _MOST_RATIO * best)
    return best - 0.1 * (high - best), high


def _short(text: str, most: int) -> str:
    """A label that fits and keeps the end that tells kernels apart, escaped so that matplotlib sees no formula."""
    plain = one_line(text)
    if len(plain) > most:
        plain = f"{plain[: most - 8]}…{plain[-7:]}"
    return plain.replace("$", r"\$")
