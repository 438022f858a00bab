"""Provides site_page: what a hub holds, as one HTML file for any static host."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from costhub.cards.adaptation import PICTURES
from costhub.cards.html import html_figure, html_page
from costhub.cards.plots import DARK, INK, LIGHT, SERIES, page_figure, svg_text
from costhub.cards.site.card_html import card_html, picture_html
from costhub.cards.site.facts import METRICS, Site, SiteDataset, SiteModel
from costhub.cards.site.site_tables import coverage_table, datasets_table, devices_table, models_table, operators_table
from costhub.versions import __version__

MOST_MODELS = 40
_MARKERS = ("o", "s", "D")


def figures_svg(models: Sequence[SiteModel]) -> str:
    """Means over the held-out workloads, one line per model; bars are one standard error to either side.

    Args:
        models: Models with figures, in the order to show them; no more than MOST_MODELS are drawn.
    """
    shown = models[:MOST_MODELS]
    drawn, axes = page_figure(1.2 + 0.4 * len(shown), x="mean over held-out workloads; 1 is perfect", grid="x")
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


STYLE = f"""\
:root:has(#theme-light:checked) {{ {LIGHT} color-scheme: light; }}
:root:has(#theme-dark:checked) {{ {DARK} color-scheme: dark; }}
body {{ max-width: 78rem; }}
a {{ color: var(--series-0); }} :target {{ scroll-margin-top: 5rem; }}
nav a {{ margin-right: 1rem; white-space: nowrap; }}
.bar {{ display: flex; flex-wrap: wrap; gap: 0.6rem 2rem; align-items: center; padding: 0.6rem 0;
  position: sticky; top: 0; z-index: 2; background: var(--paper); border-bottom: 1px solid var(--faint); }}
.bar fieldset {{ border: 0; margin: 0; padding: 0; display: flex; gap: 0.7rem; flex-wrap: wrap; }}
.bar legend {{ float: left; padding: 0; margin-right: 0.7rem; }}
input[type=search] {{ font: inherit; width: min(22rem, 90vw); padding: 0.25rem 0.5rem; color: var(--ink);
  background: var(--paper); border: 1px solid color-mix(in srgb, var(--ink) 60%, var(--paper));
  border-radius: 4px; }}
.under {{ display: block; font-weight: normal; }} [hidden] {{ display: none !important; }}
.nothing {{ display: none; }} .empty > .nothing {{ display: block; }} .empty > .scroll {{ display: none; }}
.sort {{ width: 100%; border-collapse: separate; border-spacing: 0; }}
.sort th, .sort td {{ vertical-align: top; padding: 0.3rem 0.7rem; }}
.sort th[scope=row] {{ position: sticky; left: 0; background: var(--paper); overflow-wrap: anywhere;
  min-width: 8.5rem; }}
.sort td {{ background: color-mix(in srgb, var(--series-0) var(--shade, 0%), var(--paper)); }}
.sort td .under {{ white-space: nowrap; }} .sort td[style] .under {{ color: inherit; }}
.sort td:has(.copy) {{ white-space: nowrap; }}
.sort thead button {{ all: unset; cursor: pointer; }}
.sort thead button:hover {{ text-decoration: underline; }}
th[aria-sort=ascending] button::after {{ content: " \\2191"; }}
th[aria-sort=descending] button::after {{ content: " \\2193"; }}
.copy {{ font: inherit; font-size: 0.8rem; cursor: pointer; color: var(--ink); background: var(--paper);
  border: 1px solid color-mix(in srgb, var(--ink) 60%, var(--paper)); border-radius: 4px; }}
:focus-visible {{ outline: 2px solid var(--series-0) !important; outline-offset: 2px; }}
details {{ border-bottom: 1px solid var(--faint); padding: 0.4rem 0; }} summary h3 {{ display: inline; }}
.card {{ padding: 0 1rem 1rem; overflow-wrap: anywhere; }} .card h4 {{ font-size: 1.05rem; }}
.card h5, .card h6 {{ font-size: 0.95rem; margin: 1.4rem 0 0.4rem; }} pre {{ overflow-wrap: normal; }}
img {{ max-width: 100%; height: auto; background: #ffffff; border-radius: 4px; }}
.plots {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(min(30rem, 100%), 1fr));
  gap: 1rem; }}
@media (max-width: 40rem) {{ body {{ margin-top: 1rem; }}
  .bar {{ position: static; }} .sort th[scope=row] {{ min-width: 8rem; max-width: 9rem; }} }}
"""
"""What the page adds to the style sheet of all pages."""

SCRIPT = """\
"use strict";
(() => {
  const all = (what) => [...document.querySelectorAll(what)];
  const box = document.getElementById("q"), said = document.getElementById("said");
  const found = all("[data-terms]").map((item) => {
    const text = item.dataset.terms + (item.tagName === "TR" ? " " + item.textContent : "");
    return [item, text.toLowerCase()];
  });

  function filter() {
    const words = box.value.toLowerCase().split(/\\s+/).filter(Boolean);
    let fit = 0;
    for (const [item, text] of found) {
      item.hidden = !words.every((word) => text.includes(word));
      fit += item.hidden ? 0 : 1;
    }
    for (const group of all("section")) {
      const items = [...group.querySelectorAll("[data-terms]")];
      group.classList.toggle("empty", items.length > 0 && items.every((item) => item.hidden));
    }
    said.textContent = words.length ? `${fit} of ${found.length} entries fit` : "";
  }

  function keep() {
    const address = new URL(location.href);
    if (box.value.trim()) address.searchParams.set("q", box.value.trim());
    else address.searchParams.delete("q");
    try { history.replaceState(null, "", address); } catch { /* some browsers fix the address of a file */ }
  }

  function sortBy(table, head, column) {
    const numbers = head.classList.contains("right");
    const before = head.getAttribute("aria-sort");
    const down = before ? before === "ascending" : numbers;
    const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
    const rows = [...table.tBodies[0].rows].sort((left, right) => {
      const [a, b] = [key(left), key(right)];
      if (a === "-" || b === "-") return (a === "-" ? 1 : 0) - (b === "-" ? 1 : 0);
      const order = numbers ? Number(a) - Number(b) : a.localeCompare(b, "en", {numeric: true});
      return down ? -order : order;
    });
    table.tBodies[0].append(...rows);
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
  }

  for (const table of all("table.sort")) {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      button.addEventListener("click", () => sortBy(table, head, column));
      head.replaceChildren(button);
    });
  }

  for (const button of all("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(button.dataset.copy);
        button.textContent = "copied";
        setTimeout(() => { button.textContent = "copy"; }, 1500);
      } catch {
        getSelection().selectAllChildren(button.previousElementSibling);
      }
    });
  }

  for (const choice of all("[name=theme]")) {
    try {
      if (localStorage.getItem("costhub-theme") === choice.value) choice.checked = true;
      choice.addEventListener("change", () => localStorage.setItem("costhub-theme", choice.value));
    } catch { break; /* a browser that keeps nothing */ }
  }

  document.getElementById("search").hidden = false;
  box.value = new URL(location.href).searchParams.get("q") ?? "";
  box.addEventListener("input", () => { filter(); keep(); });
  filter();
})();
"""
"""What the page runs; without it all is shown, unsorted, and the papers can still be chosen."""


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
    "put in the right order. Figures of models with different held-out workloads cannot be compared.</p>\n"
)
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
