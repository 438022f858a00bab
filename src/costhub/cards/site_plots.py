"""Provides figures_svg: the figures of the models of a hub side by side."""

from __future__ import annotations

from collections.abc import Sequence

from costhub.cards.site_facts import METRICS, SiteModel
from costhub.cards.svg import INK, SERIES, figure, svg_text

MOST_MODELS = 40
_MARKERS = ("o", "s", "D")


def figures_svg(models: Sequence[SiteModel]) -> str:
    """Means over the held-out workloads, one line per model; bars are one standard error to either side.

    Args:
        models: Models with figures, in the order to show them; no more than MOST_MODELS are drawn.
    """
    shown = models[:MOST_MODELS]
    drawn, axes = figure(1.2 + 0.4 * len(shown), x="mean over held-out workloads; 1 is perfect", grid="x")
    for place, metric in enumerate(METRICS):
        having = [(row, model) for row, model in enumerate(shown) if metric in model.figures]
        axes.errorbar(
            [model.figures[metric] for _, model in having],
            # Apart a little, so that bars do not cover each other.
            [row + (place - 1) * 0.14 for row, _ in having],
            xerr=[model.errors.get(metric, 0.0) for _, model in having],
            fmt=_MARKERS[place],
            color=SERIES[place],
            markersize=5.5,
            elinewidth=1.3,
            label=metric,
        )
    axes.set_yticks(range(len(shown)), [f"{model.device_id[:40]} {model.arch[:20]}" for model in shown])
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_xlim(right=1.005)
    axes.spines[["left"]].set_visible(False)
    axes.tick_params(axis="y", length=0, labelcolor=INK)
    # Above the points: inside, it would cover some of them.
    drawn.legend(loc="outside upper center", ncols=len(METRICS), frameon=False, labelcolor=INK, fontsize=8)
    return svg_text(drawn, name="figures", label="top_1, top_5 and pairwise of every model")
