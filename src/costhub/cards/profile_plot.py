"""Provides plot_profile: where the seconds of a collection went."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from costhub.cards.plots import COLOURS, save

# What no collector can do without is drawn in strong colours, the rest in pale ones.
_COLOURS = {
    "llvm": COLOURS[0],
    "run": COLOURS[1],
    "lower": COLOURS[5],
    "sample": COLOURS[4],
    "link": COLOURS[3],
    "reference": COLOURS[2],
    "other": "#bbbbbb",
}
_LABELS = {
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
        profiles: label -> figures as `costhub.collector.profile.Profile.as_dict` gives them.
        path: where the picture goes; its suffix chooses the format.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, 1.6 + 0.55 * len(profiles)), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    for row, profile in enumerate(profiles.values()):
        total = profile["cores"] * profile["wall_s"]
        left = 0.0
        for stage, colour in _COLOURS.items():
            share = profile["core_seconds"][stage] / total
            label = _LABELS[stage] if row == 0 else None
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
