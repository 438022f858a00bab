"""Provides site_page: what a hub holds, as one HTML file for any static host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from costhub.cards.adaptation import PICTURES
from costhub.cards.card_html import card_html, picture_html
from costhub.cards.page import html_figure, html_page
from costhub.cards.site_assets import SCRIPT, STYLE
from costhub.cards.site_facts import Site, SiteDataset, SiteModel
from costhub.cards.site_plots import MOST_MODELS, figures_svg
from costhub.cards.site_tables import (
    coverage_table,
    datasets_table,
    devices_table,
    models_table,
    operators_table,
)
from costhub.versions import __version__

TITLE = "costhub: cost models and measured programs"
MARK = "<!-- costhub site -->"
"""Stands in every page that this module made, so that an older one may be replaced."""

_BAR = """\
<div class="bar"><div id="search" role="search" hidden><label for="q">Search</label>
<input type="search" id="q" autocomplete="off" spellcheck="false" placeholder="device, chip, model, operator">
<span id="said" class="note" role="status"></span></div>
<fieldset><legend>Paper</legend>
<label><input type="radio" name="theme" id="theme-system" value="system" checked> as the system</label>
<label><input type="radio" name="theme" id="theme-light" value="light"> light</label>
<label><input type="radio" name="theme" id="theme-dark" value="dark"> dark</label></fieldset></div>"""


def site_page(site: Site) -> str:
    """Renders the page; equal contents give equal text, and none of the hub's texts is more than text.

    Args:
        site: What the hub holds. Pictures of models are linked by the addresses given there.
    """
    return html_page(TITLE, _sections(site), style=STYLE, script=SCRIPT, pictures=True)


def _sections(site: Site) -> Iterator[str]:
    measured = sum(sum(dataset.rows.values()) for dataset in site.datasets)
    yield MARK
    yield (
        f"<p>Cost models: {len(site.models):,}; devices: {len(site.devices):,}; datasets: "
        f"{len(site.datasets):,}, with {measured:,} measurements. "
        f'<span class="note">By costhub {escape(__version__)}.</span></p>'
    )
    parts = dict(_parts(site))
    links = "".join(f'<a href="#{_id(title)}">{title}</a>' for title in parts)
    yield f'<nav aria-label="sections">{links}</nav>'
    yield _BAR
    yield "<main>"
    for title, html in parts.items():
        yield (
            f'<section id="{_id(title)}"><h2>{title}</h2>\n{html}\n'
            '<p class="nothing note">Nothing here fits the search.</p></section>'
        )
    yield "</main>"


def _parts(site: Site) -> Iterator[tuple[str, str]]:
    """Title and HTML of each section that has something to show."""
    if site.models or site.devices:
        yield "Models", _MODELS + models_table(site)
    judged = [model for model in site.models if model.figures]
    if judged:
        yield "Figures", _figures(judged)
    if any(model.pictures for model in site.models):
        yield "Curves", _curves(site.models)
    if site.datasets:
        yield "Data", _data(site)
    if site.devices:
        yield "Devices", _DEVICES + devices_table(site)
    cards = "\n".join(_cards(site))
    if cards:
        yield "Cards", cards


_MODELS = (
    "<p>Figures are means over workloads that a model was not trained on, as its folder records them: "
    "<code>top_1</code> is the best latency of a workload over that of the program ranked first, "
    "<code>top_5</code> over that of the best of the first five, <code>pairwise</code> the share of pairs "
    'put in the right order. Figures of models with different held-out workloads cannot be compared.</p>\n'
)  # fmt: skip
_DEVICES = "<p>Peak (float32) and memory bandwidth are what <code>costhub probe</code> measured.</p>\n"


def _figures(judged: Sequence[SiteModel]) -> str:
    more = len(judged) - MOST_MODELS
    rest = f" {more} more models are in the table only." if more > 0 else ""
    drawn = html_figure(figures_svg(judged), f"Bars: one standard error to either side.{rest}")
    if not any(model.operators for model in judged):
        return drawn
    heading = "<h3>top_1 by operator class</h3>\n<p>The stronger the colour, the better.</p>"
    return f"{drawn}\n{heading}\n{operators_table(judged)}"


def _curves(models: Sequence[SiteModel]) -> str:
    shown = []
    for model in models:
        for name, address in model.pictures.items():
            picture = picture_html(address, f"{model.name}: {PICTURES.get(name, name)}.")
            terms = escape(f"{model.name} {model.device_id} {model.arch}")
            shown.append(f'<div data-terms="{terms}">{picture}</div>')
    return '<div class="plots">' + "\n".join(shown) + "</div>"


def _data(site: Site) -> str:
    return (
        f"{datasets_table(site.datasets, len(site.models))}\n<h3>Coverage</h3>\n"
        "<p>Measurements and their workloads, by device and operator class; failed attempts count.</p>\n"
        f"{coverage_table(site.datasets)}"
    )


def _cards(site: Site) -> Iterator[str]:
    shown: list[SiteModel | SiteDataset] = [*site.models, *site.datasets]
    for place, item in enumerate(shown):
        if item.card is None:
            continue
        if isinstance(item, SiteModel):
            about, pictures = f"{item.device_id} {item.arch}", item.pictures
        else:
            about, pictures = " ".join(item.rows), {}
        yield (
            f'<details data-terms="{escape(f"{item.name} {about}")}">'
            f"<summary><h3>{escape(item.name)}</h3></summary>\n"
            f'<div class="card" id="card-{place}">{card_html(item.card, pictures)}</div></details>'
        )


def _id(title: str) -> str:
    return title.lower()
