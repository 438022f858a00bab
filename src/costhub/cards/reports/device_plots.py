"""Draws a device's measured limits, and how the time of a collection was spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costhub.cards.plots import INK, OTHER, PAPER, SERIES, diagram, log2_axis, log_axis, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_STAGES = {
    "llvm": ("LLVM", SERIES[0]),
    "run": ("timing programs", SERIES[1]),
    "lower": ("TVM lowering", SERIES[5]),
    "sample": ("sampling", SERIES[4]),
    "link": ("linking", SERIES[3]),
    "reference": ("reference kernel", SERIES[2]),
    "wait": ("waiting for quiet", SERIES[6]),
    "repeat": ("timing again", SERIES[7]),
    "other": ("start-up, idle", OTHER),
}
"""Stage -> its label and colour; the boldest colours are for stages that every collector needs.

Profiles of older versions have all that watching over the device took in `reference`.
"""


def plot_ladders(rows: Sequence[Mapping[str, Any]], path: str | Path) -> Path:
    """Draws the bandwidth ladders of probed devices on logarithmic axes, and saves them as PNG or SVG.

    Args:
        rows: Rows of the devices table. The caches of the first device are marked, summed over all its cores
            if each core has its own.
        path: Path of the picture; its suffix chooses the format.
    """
    figure, axes = diagram(4.4, x="size of the array, all cores together", y="GB/s read")
    for number, row in enumerate(rows):
        ladder = row["bandwidth_ladder"]
        sizes, speeds = [rung["bytes"] for rung in ladder], [rung["gbs"] for rung in ladder]
        colour = SERIES[number % len(SERIES)]
        axes.plot(sizes, speeds, "o-", color=colour, markersize=4, linewidth=1.8, label=row["device_id"])
    log2_axis(axes)
    axes.xaxis.set_major_formatter(lambda value, _: _size(value))
    log_axis(axes, "y")
    axes.set_ylim(top=1.3 * axes.get_ylim()[1])  # room for the names of the caches
    _mark_caches(axes, rows[0])
    axes.legend(framealpha=1, edgecolor="none")
    return save(figure, path)


def _mark_caches(axes: Axes, row: Mapping[str, Any]) -> None:
    """Draws a dashed line at the size of each known cache."""
    cores = row.get("cores") or 1
    own = {"l1d_bytes": cores, "l2_bytes": cores if row["kind"] == "cpu" else 1}
    for name, key in (("L1", "l1d_bytes"), ("L2", "l2_bytes"), ("L3", "l3_bytes")):
        if row.get(key):
            size = row[key] * own.get(key, 1)
            axes.axvline(size, color=INK, linestyle="--", linewidth=1)
            transform = axes.get_xaxis_transform()
            axes.text(size, 1.0, f" {name} {_size(size)}", transform=transform, color=INK, va="top", fontsize=8)


def _size(value: float) -> str:
    """Bytes in a readable unit: ``96 KiB``."""
    scale, unit = next((pair for pair in _UNITS if value >= pair[0]), (1, "bytes"))
    return f"{value / scale:g} {unit}"


def plot_profile(profiles: Mapping[str, Mapping[str, Any]], path: str | Path) -> Path:
    """Draws one bar per collection, core-seconds by stage, and saves it as PNG or SVG.

    Args:
        profiles: Label -> figures from `costhub.collector.collect.Profile.as_dict`.
        path: Path of the picture; its suffix chooses the format.
    """
    told = {stage for profile in profiles.values() for stage in profile["core_seconds"]}
    stages = {stage: drawn for stage, drawn in _STAGES.items() if stage in told}
    figure, axes = diagram(1.6 + 0.55 * len(profiles), x="share of the cores' time", grid="")
    for row, profile in enumerate(profiles.values()):
        total = profile["cores"] * profile["wall_s"]
        left = 0.0
        for stage, (name, colour) in stages.items():
            share = profile["core_seconds"].get(stage, 0.0) / total
            axes.barh(row, share, left=left, color=colour, label=None if row else name, edgecolor=PAPER)
            if share > 0.035:
                axes.text(left + share / 2, row, f"{share:.0%}", ha="center", va="center", color=PAPER)
            left += share
    axes.set_yticks(range(len(profiles)), list(profiles))
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter("{x:.0%}")
    axes.spines[["left"]].set_visible(False)
    axes.tick_params(left=False)
    figure.legend(loc="outside upper center", ncols=4, frameon=False)
    return save(figure, path)
