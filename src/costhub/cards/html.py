"""Provides html_page, html_table and html_figure: one HTML file with nothing to fetch, light or dark."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any

from costhub.cards.plots import PAGE_COLOURS
from costhub.cards.tables import TableColumn, cell

_STYLE = """\
body { background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; } h3 { font-size: 1rem; }
svg { max-width: 100%; height: auto; } figure { margin: 0.5rem 0; overflow-x: auto; }
figcaption, .note { color: color-mix(in srgb, var(--ink) 75%, var(--paper)); font-size: 0.87rem; }
table { margin: 0.8rem 0; border-collapse: collapse; font-size: 0.87rem; font-variant-numeric: tabular-nums; }
th, td { padding: 0.15rem 0.9rem 0.15rem 0; text-align: left; border-bottom: 1px solid var(--faint); }
.right { text-align: right; } .scroll { overflow-x: auto; } summary { cursor: pointer; }
@media (max-width: 40rem) { figure svg { min-width: 34rem; } }
"""


def html_page(title: str, sections: Iterable[str], *, style: str = "", script: str = "", pictures: bool = False) -> str:
    r"""A page that loads nothing but what it is given; equal data give equal text.

    Args:
        title: Of the page; it is escaped.
        sections: HTML, in which all texts of others are escaped already.
        style: More rules for its style sheet.
        script: What it runs, and nothing else: the browser knows it by its sha256.
        pictures: Whether it shows files that lie beside it.

    Example:
        >>> html_page("a<b", ["<p>text</p>"]).endswith("<h1>a&lt;b</h1>\n<p>text</p>\n</body></html>\n")
        True
    """
    name = escape(title)
    head = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}</title>\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(script, pictures=pictures)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>\n{PAGE_COLOURS}{_STYLE}{style}</style></head>\n<body>\n<h1>{name}</h1>\n"
    )
    run = f"<script>{script}</script>\n" if script else ""
    return head + "\n".join(sections) + f"\n{run}</body></html>\n"


def _policy(script: str, *, pictures: bool) -> str:
    """What the browser may load and run.

    Example:
        >>> _policy("", pictures=True)
        "default-src 'none'; style-src 'unsafe-inline'; img-src 'self'"
    """
    rules = ["default-src 'none'", "style-src 'unsafe-inline'"]
    if pictures:
        rules.append("img-src 'self'")
    if script:
        digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
        rules.append(f"script-src 'sha256-{digest}'")
    return "; ".join(rules)


def html_figure(svg: str, caption: str) -> str:
    """A picture of `costhub.cards.plots.svg_text` with text under it."""
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def html_table(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[TableColumn],
    *,
    shown: Callable[[str], str] = escape,
) -> str:
    """The same table as `markdown_table`, every cell escaped; without a head where no column has a title.

    Args:
        rows: What it shows.
        columns: How.
        shown: Makes HTML of the text of a cell.

    Example:
        >>> print(html_table([{"name": "<b>"}], [Column("name", "name")]))
        <div class="scroll"><table>
        <tr><th scope="col">name</th></tr>
        <tr><td>&lt;b&gt;</td></tr>
        </table></div>
    """
    sides = [' class="right"' if column.align == "right" else "" for column in columns]
    titles = [shown(column.title) for column in columns]
    lines = [_line("th", titles, [f' scope="col"{side}' for side in sides])] if any(titles) else []
    lines += [_line("td", [shown(cell(row, column)) for column in columns], sides) for row in rows]
    return '<div class="scroll"><table>\n' + "\n".join(lines) + "\n</table></div>"


def _line(tag: str, cells: Sequence[str], attributes: Sequence[str]) -> str:
    parts = zip(cells, attributes, strict=True)
    return "<tr>" + "".join(f"<{tag}{more}>{text}</{tag}>" for text, more in parts) + "</tr>"
