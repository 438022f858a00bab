"""A page of HTML: texts of strangers stay texts, and nothing is fetched or run."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from costhub.cards.html import html_page, render_part
from costhub.cards.tables import TableColumn, number


class Tags(HTMLParser):
    """Notes tags and text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "a&b", '"><img src=x onerror=y>', "</style>"])
def test_texts_are_only_text(text: str) -> None:
    table = render_part("table", [{"name": text, "us": 1.25}], [TableColumn("name", text), number("us", "us", ".1f")])
    page = Tags(html_page(text, [table, render_part("figure", "<svg></svg>", text)]))

    assert not {"script", "img", "b"} & set(page.tags)
    assert page.tags.count("style") == 1
    assert page.text.count(text) == 5  # title, heading, head and cell of the table, caption


def test_it_may_load_and_run_nothing_and_knows_the_dark() -> None:
    page = html_page("a", [])

    assert "default-src 'none'" in page
    assert "prefers-color-scheme: dark" in page


def test_numbers_stand_on_the_right_and_gaps_are_dashes() -> None:
    table = render_part("table", [{"us": 1.25}, {}], [number("us", "us", ".1f")])

    assert '<td class="right">1.2</td>' in table
    assert '<td class="right">-</td>' in table
