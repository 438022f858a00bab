"""Draws what was measured of a device, and where the seconds of a collection went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costhub.cards.plots import COLOURS, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INK, _FAINT = "#333333", "#dddddd"
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def plot_ladders(rows: Sequence[Mapping[str, Any]], path: str | Path) -> Path:
    """Draws the bandwidth ladders of probed devices on logarithmic axes, and saves them as PNG or SVG.

    Args:
        rows: Rows of the devices table. The caches that are marked are those of the first one, of all its
            cores together as far as each has its own.
        path: Where the picture goes; its suffix chooses the format.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    figure = Figure(figsize=(8.0, 4.4), dpi=150, layout="constrained")
    axes = figure.add_subplot(xlabel="size of the array, all cores together", ylabel="GB/s read")
    for number, row in enumerate(rows):
        ladder = row["bandwidth_ladder"]
        sizes, speeds = [rung["bytes"] for rung in ladder], [rung["gbs"] for rung in ladder]
        colour = COLOURS[number % len(COLOURS)]
        axes.plot(sizes, speeds, "o-", color=colour, markersize=4, linewidth=1.8, label=row["device_id"])
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(LogLocator(base=2, subs=(1.0,), numticks=9))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _size(value)))
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(visible=True, color=_FAINT, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylim(top=1.3 * axes.get_ylim()[1])  # room for the names of the caches
    _mark_caches(axes, rows[0])
    axes.legend(framealpha=1, edgecolor="none")
    return save(figure, path)


def _mark_caches(axes: Axes, row: Mapping[str, Any]) -> None:
    """A dashed line at the end of each cache that the row knows."""
    cores = row.get("cores") or 1
    own = {"l1d_bytes": cores, "l2_bytes": cores if row["kind"] == "cpu" else 1}
    for name, key in (("L1", "l1d_bytes"), ("L2", "l2_bytes"), ("L3", "l3_bytes")):
        if row.get(key):
            size = row[key] * own.get(key, 1)
            axes.axvline(size, color=_INK, linestyle="--", linewidth=1)
            place = axes.get_xaxis_transform()
            axes.text(size, 1.0, f" {name} {_size(size)}", transform=place, color=_INK, va="top", fontsize=8)


def _size(value: float) -> str:
    """Bytes as people say them: ``96 KiB``."""
    scale, unit = next((pair for pair in _UNITS if value >= pair[0]), (1, "bytes"))
    return f"{value / scale:g} {unit}"


# What no collector can do without is drawn in strong colours, the rest in pale ones.
_STAGE_COLOURS = {
    "llvm": COLOURS[0],
    "run": COLOURS[1],
    "lower": COLOURS[5],
    "sample": COLOURS[4],
    "link": COLOURS[3],
    "reference": COLOURS[2],
    "other": "#bbbbbb",
}
_STAGE_LABELS = {
    "sample": "sampling",
    "lower": "TVM lowering",
    "llvm": "LLVM",
    "link": "linking",
    "run": "timing programs",
    "reference": "reference kernel",
    "other": "start-up, waiting",
}


def plot_profile(profiles: Mapping[str, Mapping[str, Any]], path: str | Path) -> Path:
    """Draws one bar per collection, core-seconds by stage, and saves it as PNG or SVG.

    Args:
        profiles: label -> figures as `costhub.collector.collect.Profile.as_dict` gives them.
        path: where the picture goes; its suffix chooses the format.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 1.6 + 0.55 * len(profiles)), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    for row, profile in enumerate(profiles.values()):
        total = profile["cores"] * profile["wall_s"]
        left = 0.0
        for stage, colour in _STAGE_COLOURS.items():
            share = profile["core_seconds"][stage] / total
            label = _STAGE_LABELS[stage] if row == 0 else None
            axes.barh(row, share, left=left, color=colour, label=label, edgecolor="white")
            if share > 0.035:
                axes.text(left + share / 2, row, f"{share:.0%}", ha="center", va="center", color="white")
            left += share
    axes.set_yticks(range(len(profiles)), list(profiles))
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of the cores' time")
    axes.xaxis.set_major_formatter("{x:.0%}")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(left=False)
    figure.legend(loc="outside upper center", ncols=4, frameon=False)
    return save(figure, path)
