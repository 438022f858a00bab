"""Draws the pictures of a model folder: its figures on held-out workloads, and how it was adapted."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costhub.cards.adaptation import ADAPTED, CURVE_PICTURE, MASKS_PICTURE, Shares, by_layer
from costhub.cards.plots import OTHER, SERIES, diagram, furnish, new_figure, save
from costhub.isolation.scratch import ScratchFolder

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EVALUATION_PICTURE = "evaluation.png"
"""File in the model folder."""
EVALUATION_CAPTION = "top_1 and pairwise of each held-out workload, and their means, by operator"
_SHOWN = {"top_1": (SERIES[0], -0.14), "pairwise": (SERIES[1], 0.14)}
"""Metric -> its colour, and its offset from the operator's line."""


def draw_evaluation(evaluation: Mapping[str, Any]) -> dict[str, bytes]:
    """The picture of an evaluation, for the model folder.

    Args:
        evaluation: The content of `evaluation.json`.

    Returns:
        File name -> PNG; empty if no workload has a figure.
    """
    rows = [row for row in evaluation.get("workloads") or () if any(_has(row, key) for key in _SHOWN)]
    if not rows:
        return {}
    with ScratchFolder() as scratch:
        return {EVALUATION_PICTURE: plot_evaluation(scratch.path / EVALUATION_PICTURE, rows).read_bytes()}


def plot_evaluation(path: str | Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Draws top_1 and pairwise by operator: a faint point for each workload, a bold one for the mean.

    Args:
        path: Where the picture goes; its suffix, png or svg, chooses the format.
        rows: For each workload `operator`, `top_1` and `pairwise`, in [0, 1]; None or NaN if there is none.
    """
    groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        groups[str(row.get("operator") or "other")].append(row)
    names = sorted(groups)
    figure, axes = diagram(1.5 + 0.34 * max(len(names), 2), x="1 is perfect; for pairwise, 0.5 is chance")
    for key, (colour, shift) in _SHOWN.items():
        for place, name in enumerate(names):
            values = [float(row[key]) for row in groups[name] if _has(row, key)]
            places = [place + shift] * len(values)
            axes.plot(values, places, "o", color=colour, markersize=5, alpha=0.25, markeredgewidth=0)
            if values:
                label = key if place == 0 else None
                axes.plot(statistics.fmean(values), place + shift, "D", color=colour, markersize=7, label=label)
    # Long names, or names containing a dollar sign, are shown unchanged.
    labels = [f"{name[:40]} ({len(groups[name])})".replace("$", r"\$") for name in names]
    axes.set_yticks(range(len(names)), labels)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(-0.02, 1.02)
    figure.legend(loc="outside upper right", ncols=2, frameon=False, fontsize=9)
    return save(figure, path)


def _has(row: Mapping[str, Any], key: str) -> bool:
    value = row.get(key)
    return isinstance(value, int | float) and math.isfinite(value)


SMOOTHED = 4
"""Batches in a running mean; at four workloads a batch, these are the sixteen workloads used by the guard."""

# The source is dashed, to show the line beneath: a method that changes nothing ranks like the source.
_LINES = {ADAPTED: (SERIES[0], "-"), "source": (SERIES[1], "--"), "local": (SERIES[2], "-")}
_COLUMNS = 4
_TICKS = 9


def draw_adaptation(adaptation: Mapping[str, Any]) -> dict[str, bytes]:
    """The pictures of a transfer, for its model folder.

    Args:
        adaptation: The content of `adaptation.json`.

    Returns:
        File name -> PNG: the curve, and the masks if the method has any.
    """
    with ScratchFolder() as scratch:
        found = {CURVE_PICTURE: plot_adaptation(scratch.path / CURVE_PICTURE, adaptation["curve"])}
        if any(adaptation["transferable"]):
            path = scratch.path / MASKS_PICTURE
            found[MASKS_PICTURE] = plot_masks(path, adaptation["transferable"], adaptation["kept"])
        return {name: path.read_bytes() for name, path in found.items()}


def plot_adaptation(path: str | Path, curve: Sequence[Mapping[str, Any]]) -> Path:
    """Plots how well each candidate ranked new batches against the amount measured, and saves the picture.

    Faint points are single batches. Lines are running means over `SMOOTHED` batches, over the batches that all
    candidates ranked, so that they are comparable. Where the guard chose another candidate than the adapted model
    after a batch, the batch is shown on that candidate's colour.

    Args:
        path: Where the picture goes; its suffix, png or svg, chooses the format.
        curve: For each batch, the `trials` before it, the candidate `chosen` after it, and `pairwise`:
            candidate -> share of the batch's pairs that it ranked correctly before learning from them.
    """
    figure, axes = diagram(
        4.4,
        title="Pairs of each new batch ranked right, before learning from it",
        x="programs measured on the target before the batch",
        y=f"share of pairs (lines: means of {SMOOTHED} batches)",
    )
    names = [name for name in _LINES if any(name in batch["pairwise"] for batch in curve)]
    by_all = [batch for batch in curve if all(name in batch["pairwise"] for name in names)]
    for name in names:
        colour, style = _LINES[name]
        own = [batch for batch in curve if name in batch["pairwise"]]
        axes.plot(*_points(own, name), "o", color=colour, markersize=5, alpha=0.3, markeredgewidth=0)
        trials, shares = _points(by_all, name)
        means = running_means(shares, SMOOTHED)
        # With a marker, since a single batch makes no line.
        axes.plot(trials, means, style, color=colour, linewidth=2.2, marker=".", markersize=6, label=name)
    axes.axhline(0.5, color=OTHER, linewidth=1, linestyle=":", label="chance")
    _mark_choices(axes, curve)
    trials = [batch["trials"] for batch in curve]
    axes.set_xticks(trials[:: -(-len(trials) // _TICKS) or 1])
    figure.legend(loc="outside lower center", ncols=6, frameon=False, fontsize=9)
    return save(figure, path)


def plot_masks(path: str | Path, transferable: Sequence[Sequence[Shares]], kept: Sequence[Sequence[Shares]]) -> Path:
    """Draws how much of each layer was transferable, and how much of that stayed so from epoch to epoch.

    Random masks would keep just the transferable share of a layer: the further the line lies above the
    area, the more a parameter that was transferable once remains so.

    Args:
        path: Where the picture goes; its suffix, png or svg, chooses the format.
        transferable: For each network, the share of every layer, for all epochs; means over networks are drawn.
        kept: For each network, from its second epoch on, the share of transferable parameters that still are.
    """
    from matplotlib.ticker import MaxNLocator

    shares, stayed = by_layer(transferable), by_layer(kept)
    lines = -(-len(shares) // _COLUMNS)
    figure = new_figure(1.45 * lines + 1.0, width=1.9 * _COLUMNS + 0.6)
    places = figure.subplots(lines, _COLUMNS, squeeze=False, sharex=True, sharey=True).ravel().tolist()
    for axes, (layer, values) in zip(places, shares.items(), strict=False):
        furnish(axes, title=layer, title_size=8)
        _draw_layer(axes, values, stayed.get(layer, []))
    places[0].set(xlim=(0.5, max(map(len, shares.values())) + 0.5), ylim=(0, 1.05), yticks=(0, 0.5, 1))
    places[0].xaxis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 5, 10], integer=True, min_n_ticks=1))
    for axes in places[max(0, len(shares) - _COLUMNS) : len(shares)]:
        axes.tick_params(labelbottom=True)  # also where a panel is missing below
    for spare in places[len(shares) :]:
        spare.set_visible(False)
    figure.supxlabel("epoch", fontsize=9)
    figure.legend(
        *places[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False, fontsize=9
    )
    return save(figure, path)


def _draw_layer(axes: Axes, shares: Sequence[float], stayed: Sequence[float]) -> None:
    """The shares of one layer, epoch by epoch; `stayed` begins with the second one."""
    epochs = range(1, len(shares) + 1)
    axes.fill_between(epochs, shares, color=SERIES[1], alpha=0.35, linewidth=0)
    # With markers, since a single epoch makes no line.
    axes.plot(
        epochs,
        shares,
        ".-",
        color=SERIES[1],
        linewidth=1.2,
        markersize=2,
        label="transferable share of the layer",
    )
    axes.plot(
        range(2, len(stayed) + 2),
        stayed,
        ".-",
        color=SERIES[0],
        linewidth=1.6,
        markersize=3,
        label="share that stayed transferable since the epoch before",
    )
    axes.tick_params(labelsize=8)


def running_means(values: Sequence[float], window: int) -> list[float]:
    """The running mean of each value and those before it, over at most `window` values.

    Example:
        >>> running_means([1.0, 2.0, 6.0, 4.0], 2)
        [1.0, 1.5, 4.0, 5.0]
    """
    return [statistics.fmean(values[max(0, i - window) : i]) for i in range(1, len(values) + 1)]


def _points(batches: Sequence[Mapping[str, Any]], name: str) -> tuple[list[int], list[float]]:
    """The trials before each batch, and the share of its pairs that a candidate ranked correctly."""
    return [batch["trials"] for batch in batches], [batch["pairwise"][name] for batch in batches]


def _mark_choices(axes: Axes, curve: Sequence[Mapping[str, Any]]) -> None:
    """Shades the batches after which the guard chose another candidate with that candidate's colour."""
    edges = _edges([batch["trials"] for batch in curve])
    named = set()
    place = 0
    for chosen, run in itertools.groupby(batch["chosen"] for batch in curve):
        end = place + len(list(run))
        if chosen != ADAPTED:
            label = None if chosen in named else f"guard chose {chosen}"
            axes.axvspan(edges[place], edges[end], color=_LINES[chosen][0], alpha=0.14, linewidth=0, label=label)
            named.add(chosen)
        place = end
    axes.set_xlim(edges[0], edges[-1])


def _edges(trials: Sequence[int]) -> list[float]:
    """The start of each batch's interval, and the end of the last one.

    Example:
        >>> _edges([0, 32, 64])
        [-16.0, 16.0, 48.0, 80.0]
        >>> _edges([0])
        [-0.5, 0.5]
    """
    middles = [(a + b) / 2 for a, b in itertools.pairwise(trials)]
    first, last = (middles[0], middles[-1]) if middles else (trials[0] + 0.5, trials[0] - 0.5)
    return [2 * trials[0] - first, *middles, 2 * trials[-1] - last]
