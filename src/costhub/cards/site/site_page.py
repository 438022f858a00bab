"""Provides site_page: renders the contents of a hub as one HTML file for any static host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from costhub.cards.adaptation import PICTURES
from costhub.cards.html import html_page, render_template
from costhub.cards.model_plots import EVALUATION_CAPTION, EVALUATION_PICTURE
from costhub.cards.plots import INK, SERIES, diagram, svg_text
from costhub.cards.site.card_html import card_html
from costhub.cards.site.facts import METRICS, Site, SiteDataset, SiteModel
from costhub.cards.site.site_tables import (
    coverage_table,
    datasets_table,
    devices_table,
    leaderboard_tables,
    models_table,
    operators_table,
    origin_text,
    replay_tables,
)
from costhub.versions import __version__

TITLE = "costhub: cost models and measured programs"
MARK = "<!-- costhub site -->"
"""Marker in every page written by this module, so that `costhub site` may replace an older one."""
MOST_MODELS = 40
"""Maximum number of models in the picture of the figures."""
_MARKERS = ("o", "s", "D")


def site_page(site: Site) -> str:
    """Renders the page; equal contents give equal text, and the hub's texts never become markup.

    Args:
        site: The contents of the hub. Pictures of models are linked by the addresses given there.
    """
    judged = [model for model in site.models if model.figures]
    cards = list(_cards(site))
    more = len(judged) - MOST_MODELS
    rest = f" {more} more models are in the table only." if more > 0 else ""
    board = site.leaderboard
    replay = board.replay if board else None
    parts = {
        "Leaderboard": board and board.tracks,
        "Searches": replay and replay.tracks,
        "Models": site.models or site.devices,
        "Figures": judged,
        "Curves": any(model.pictures for model in site.models),
        "Data": site.datasets,
        "Devices": site.devices,
        "Cards": cards,
    }
    tables = {
        "models": models_table(site),
        "operators": operators_table(judged) if any(model.operators for model in judged) else "",
        "datasets": datasets_table(site.datasets, len(site.models)),
        "coverage": coverage_table(site.datasets),
        "devices": devices_table(site),
    }
    values = {
        "site": site,
        "sections": [title for title, content in parts.items() if content],
        "tables": tables,
        "cards": cards,
        "captions": {**PICTURES, EVALUATION_PICTURE: EVALUATION_CAPTION},
        "tracks": list(zip(board.tracks, leaderboard_tables(board), strict=True)) if board else [],
        "origin": origin_text(board) if board else "",
        "replay_tracks": list(zip(replay.tracks, replay_tables(replay), strict=True)) if replay else [],
        "replay_origin": origin_text(replay) if replay else "",
        "has_added": any(entry.source for track in (replay.tracks if replay else ()) for entry in track.entries),
        "figures_svg": figures_svg(judged) if judged else "",
        "figures_caption": f"Bars: one standard error to either side.{rest}",
        "measurements": sum(sum(dataset.rows.values()) for dataset in site.datasets),
        "mark": MARK,
        "version": __version__,
    }
    content = render_template("site.html", values).strip()
    return html_page(TITLE, [content], style="site.css", script="site.js", pictures=True)


def _cards(site: Site) -> Iterator[dict[str, Any]]:
    """The cards of models and datasets, numbered to match the links in the tables."""
    items: list[SiteModel | SiteDataset] = [*site.models, *site.datasets]
    for number, item in enumerate(items):
        if item.card is None:
            continue
        about = f"{item.device_id} {item.arch}" if isinstance(item, SiteModel) else " ".join(item.rows)
        pictures = item.pictures if isinstance(item, SiteModel) else {}
        html = card_html(item.card, pictures)
        yield {"number": number, "name": item.name, "terms": f"{item.name} {about}", "html": html}


def figures_svg(models: Sequence[SiteModel]) -> str:
    """Means over the held-out workloads, one line per model; bars show one standard error to either side.

    Args:
        models: Models with figures, in the order to show them; at most MOST_MODELS are drawn.
    """
    shown = models[:MOST_MODELS]
    figure, axes = diagram(1.2 + 0.4 * len(shown), x="mean over held-out workloads; 1 is perfect", grid="x")
    for place, metric in enumerate(METRICS):
        having = [(row, model) for row, model in enumerate(shown) if metric in model.figures]
        axes.errorbar(
            [model.figures[metric] for _, model in having],
            # Slightly offset, so that bars do not cover each other.
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
    # Above the plot: inside, it would cover some of the points.
    figure.legend(loc="outside upper center", ncols=len(METRICS), frameon=False, labelcolor=INK, fontsize=8)
    return svg_text(figure, name="figures", label="top_1, top_5 and pairwise of every model")
