"""A report says the same in Markdown and in HTML."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from costhub.cards.reports.blocks import (
    Block,
    Code,
    Details,
    Figure,
    Heading,
    Paragraph,
    Table,
    html_report,
    markdown_report,
)
from costhub.cards.tables import TableColumn

outline: Any = runpy.run_path(str(Path(__file__).parents[1] / "page_outline.py"))["outline"]
TABLE = Table([{"a": "<i>x</i>"}], (TableColumn("a", "title"),))
BLOCKS: list[Block] = [
    Heading("<b>Result</b>"),
    Paragraph("Faster & better.", is_strong=True),
    Paragraph("A note.", is_note=True),
    TABLE,
    Code("print('<p>')"),
    Figure(lambda: "<svg></svg>", "A curve", ["curve.png"]),
    Details("More", [TABLE]),
]


def test_markdown() -> None:
    assert markdown_report("Title", BLOCKS).split("\n\n") == [
        "# Title",
        "## <b>Result</b>",
        "**Faster & better.**",
        "A note.",
        "| title |\n|:---|\n| <i>x</i> |",
        "```python\nprint('<p>')\n```",
        "![curve.png](curve.png)",
        "More",
        "| title |\n|:---|\n| <i>x</i> |\n",
    ]


def test_html_shows_texts_as_texts_and_draws_the_pictures() -> None:
    page = outline(html_report("Title", BLOCKS))

    tags = ["h1", "h2", "p", "strong", "p", "div", "table", "tr", "th", "tr", "td", "pre", "figure", "svg"]
    assert [tag for tag in page.tags if tag in {*tags, "details"}][: len(tags)] == tags
    assert {"b", "i"}.isdisjoint(page.tags)
    for text in ("<b>Result</b>", "Faster & better.", "<i>x</i>", "print('<p>')", "A curve", "More"):
        assert text in page.text
    assert ("class", "note") in page.attributes


def test_a_picture_is_not_drawn_for_markdown() -> None:
    def fail() -> str:
        raise AssertionError("drawn")

    assert markdown_report("T", [Figure(fail, "caption")]) == "# T\n"
