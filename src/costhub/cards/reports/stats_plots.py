"""Draws statistics of a data folder: coverage, spread, noise, failures, rooflines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from costhub.cards.plots import INK, PAPER, SERIES, diagram, legend, log_axis, save, svg_text
from costhub.cards.tables import one_line
from costhub.dataset.stats.folder_stats import CoverageCell, Failure, WorkloadStats
from costhub.dataset.stats.noise import PERCENTILES, DeviceNoise

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MOST_OPERATORS = 100
"""Limit per picture; costhub knows about twenty families, but an untrusted folder may name a million."""


def plot_latencies(path: str | Path, latency_us: Mapping[str, npt.NDArray[np.floating]], *, title: str = "") -> Path:
    """Draws how the latencies of each operator are distributed, and saves it as PNG.

    If there are more than `MOST_OPERATORS` operators, it draws those with the most programs.

    Args:
        path: Path of the picture.
        latency_us: Operator -> (n,) latencies in microseconds.
        title: Title above the picture.
    """
    measured = sorted((name for name in latency_us if len(latency_us[name])), key=lambda n: -len(latency_us[n]))
    names = sorted(measured[:MOST_OPERATORS], key=lambda n: float(np.median(latency_us[n])))
    explained = "latency (µs)      circle: median, bar: middle half, line: 5 to 95 %"
    figure, axes = diagram(1.4 + 0.34 * max(len(names), 2), title=_short(title, 80), x=explained)
    for place, name in enumerate(names):
        values = np.asarray(latency_us[name], dtype=np.float64)
        low, quarter, middle, three, high = np.percentile(values, [5, 25, 50, 75, 95])
        axes.plot([low, high], [place, place], color=SERIES[0], linewidth=1.5, solid_capstyle="round")
        axes.plot([quarter, three], [place, place], color=SERIES[0], linewidth=9, alpha=0.45, solid_capstyle="butt")
        axes.plot(
            [middle],
            [place],
            "o",
            color=PAPER,
            markeredgecolor=SERIES[0],
            markeredgewidth=1.8,
            markersize=6,
        )
    axes.set_yticks(range(len(names)), [f"{_short(name, 34)} ({len(latency_us[name])})" for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)  # the fastest on top
    log_axis(axes, "x")
    return save(figure, path)


MOST_WORKLOADS = 100
MOST_FAILURES = 12
_SMALLEST_SPREAD = 1e-4


def coverage_svg(cells: Sequence[CoverageCell]) -> str:
    """Operators by devices, darker where more programs ran; in each cell programs and workloads.

    If there are more than `MOST_OPERATORS` operators, it draws the first of them.
    """
    operators = {name: row for row, name in enumerate(list(dict.fromkeys(c.operator for c in cells))[:MOST_OPERATORS])}
    cells = [cell for cell in cells if cell.operator in operators]
    devices = sorted({cell.device_id for cell in cells})
    wide = len(devices) <= 3
    figure, axes = diagram((0.7 if wide else 1.3) + 0.36 * len(operators), grid="")
    most = max(1, *(cell.programs for cell in cells))
    for cell in cells:
        row, column = operators[cell.operator], devices.index(cell.device_id)
        shade = 0.06 + 0.64 * (cell.programs / most) ** 0.5
        axes.barh(row, 0.97, 0.92, column - 0.485, color=SERIES[0], alpha=shade, linewidth=0)
        text = (
            f"{cell.programs:,} programs of {cell.workloads} workloads"
            if wide
            else f"{cell.programs:,} / {cell.workloads}"
        )
        axes.text(column, row, text, ha="center", va="center", color=INK)
    axes.set_yticks(range(len(operators)), [_short(name, 30) for name in operators])
    axes.set_xticks(range(len(devices)), [_short(name, 34) for name in devices])
    axes.set_xlim(-0.5, len(devices) - 0.5)
    axes.set_ylim(len(operators) - 0.5, -0.5)
    axes.xaxis.tick_top()
    for label in () if wide else axes.get_xticklabels():
        label.set(rotation=18, horizontalalignment="left")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return svg_text(figure, name="coverage", label="programs that ran, by operator and device")


def spread_svg(workloads: Sequence[WorkloadStats], *, name: str) -> str:
    """Latencies of every workload of one device on one logarithmic axis, each operator in its colour."""
    ran = [w for w in workloads if w.best_us]
    # Within an operator the fast ones come first, so that the picture shows rising groups.
    shown = sorted(ran, key=lambda w: (w.operator, w.median_us or 0.0))[:MOST_WORKLOADS]
    figure, axes = diagram(0.9 + 0.17 * len(shown), x="latency (µs)", grid="x")
    colours = _colours([w.operator for w in shown])
    for place, w in enumerate(shown):
        low, quarter, middle, three, high = (
            w.best_us or 0.0,
            w.quarter_us or 0.0,
            w.median_us or 0.0,
            w.three_quarters_us or 0.0,
            w.worst_us or 0.0,
        )
        colour = colours[w.operator]
        axes.plot([low, high], [place, place], color=colour, linewidth=1.0)
        axes.plot([quarter, three], [place, place], color=colour, linewidth=6, alpha=0.45, solid_capstyle="butt")
        axes.plot(middle, place, "o", color=PAPER, markeredgecolor=colour, markeredgewidth=1.4, markersize=4.5)
    axes.set_yticks(range(len(shown)), [_short(w.name, 38) for w in shown], fontsize=7.5)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(shown) - 0.3, -0.7)
    log_axis(axes, "x")
    axes.tick_params(axis="x", labeltop=len(shown) > 30, labelbottom=True)
    return svg_text(figure, name=name, label="latencies of the programs of each workload")


def noise_svg(noise: Sequence[DeviceNoise]) -> str:
    """Share of the programs whose repeats differ by less than the value on the horizontal axis."""
    figure, axes = diagram(3.4, x="(highest - lowest) / median", y="share")
    levels = np.array(PERCENTILES) / 100
    for number, device in enumerate(noise):
        colour = SERIES[number % len(SERIES)]
        for spread, line, kind in ((device.repeats, "-", "repeats"), (device.again, "--", "measured again")):
            if spread.count:
                # Equal repeats cannot be placed on a logarithmic axis, so they are put at its left end.
                values = np.maximum(spread.percentiles, _SMALLEST_SPREAD)
                label = f"{_short(device.device_id, 40)}, {kind} ({spread.count:,})"
                axes.plot(values, levels, line, color=colour, linewidth=1.8, label=label)
    axes.set_ylim(0, 1.01)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    log_axis(axes, "x")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value * 100:g} %")
    legend(axes)
    return svg_text(figure, name="noise", label="how far repeats of one program lie apart, per device")


def failures_svg(failures: Sequence[Failure]) -> str:
    """The most frequent kinds of failure, with the first line of their error."""
    from matplotlib.ticker import MaxNLocator

    shown = failures[:MOST_FAILURES]
    figure, axes = diagram(0.8 + 0.42 * len(shown), x="measurements", grid="x")
    statuses = _colours([failure.status for failure in shown])
    axes.barh(
        range(len(shown)),
        [f.count for f in shown],
        0.34,
        color=[statuses[f.status] for f in shown],
        linewidth=0,
    )
    for place, failure in enumerate(shown):
        text = f"{failure.count:,}  {failure.status}: {_short(failure.error, 90)}"
        axes.text(0, place - 0.36, text, va="center", color=INK, fontsize=8)
    axes.set_yticks([])
    axes.set_ylim(len(shown) - 0.5, -0.8)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    return svg_text(figure, name="failures", label="kinds of failure")


def roofline_svg(workloads: Sequence[WorkloadStats], roof: dict[str, float], *, name: str) -> str:
    """Throughput of the best program of each workload below the probed limits of the device.

    The roofline of Williams, Waterman and Patterson (2009): the smaller of peak and intensity x bandwidth.
    Intensity counts every argument once, so a workload that stays in a cache may lie above the line of DRAM.
    """
    figure, axes = diagram(4.2, x="FLOP per byte of arguments", y="GFLOP/s of the best program")
    shown = [w for w in workloads if w.best_gflops and w.flop and w.bytes]
    for operator, colour in _colours([w.operator for w in shown]).items():
        points = [(w.flop / w.bytes, w.best_gflops) for w in shown if w.operator == operator and w.flop and w.bytes]
        xs, ys = zip(*points, strict=True)
        axes.scatter(xs, ys, s=26, color=colour, alpha=0.8, linewidths=0, label=_short(operator, 30))
    intensity = [w.flop / w.bytes for w in shown if w.flop and w.bytes]
    _roofs(axes, roof, min(intensity) / 2, max(intensity) * 2)
    log_axis(axes, "x")
    log_axis(axes, "y")
    legend(axes)
    return svg_text(figure, name=name, label="throughput against arithmetic intensity")


def _roofs(axes: Axes, roof: dict[str, float], low: float, high: float) -> None:
    peak = roof["peak_gflops"]
    levels = {key.removesuffix("_gbs").upper(): value for key, value in roof.items() if key.endswith("_gbs")}
    fastest = max(levels, key=lambda level: levels[level])
    xs = np.geomspace(low, high, 200)
    for level in dict.fromkeys([fastest, "DRAM"]):
        if level in levels:
            style = "-" if level == "DRAM" else "--"
            text = f"{level} {levels[level]:,.0f} GB/s, peak {peak:,.0f} GFLOP/s"
            axes.plot(xs, np.minimum(peak, xs * levels[level]), style, color=INK, linewidth=1.1, label=text)


def _colours(names: Sequence[str]) -> dict[str, str]:
    """A colour for each name; colours repeat if there are more names than colours."""
    known = sorted(set(names))
    return {name: SERIES[number % len(SERIES)] for number, name in enumerate(known)}


def _short(text: str, most: int) -> str:
    """A label that fits, without unprintable characters or text that matplotlib takes for a formula."""
    plain = one_line(text)
    return (plain if len(plain) <= most else f"{plain[: most - 1]}…").replace("$", r"\$")
