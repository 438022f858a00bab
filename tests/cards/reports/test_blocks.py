"""A report says the same in Markdown and in HTML."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from costhub.cards.reports.blocks import (
    Bar,
    Bars,
    Block,
    Code,
    Details,
    Figure,
    Gallery,
    Heading,
    Paragraph,
    Parts,
    Table,
    html_report,
    markdown_report,
)
from costhub.cards.tables import TableColumn, number, one_line

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
        "## &lt;b>Result&lt;/b>",
        "**Faster &amp; better.**",
        "A note.",
        "| title |\n|:---|\n| &lt;i>x&lt;/i> |",
        "```python\nprint('<p>')\n```",
        "![curve.png](curve.png)",
        "More",
        "| title |\n|:---|\n| &lt;i>x&lt;/i> |\n",
    ]


BARS = Bars(
    [
        Bar("<b>ours</b>", 2.0, "2 ms", is_ours=True),
        Bar("theirs", 4.0, "4 ms", "twice as long", low=3.0, high=5.0, span="3 to 5"),
    ],
    ("form", "latency", "span", "beside"),
    "The <i>caption</i>",
    "the line is a span",
)


def test_bars_are_as_wide_as_their_values_and_a_table_in_markdown() -> None:
    page = outline(html_report("T", [BARS]))
    widths = [value for name, value in page.attributes if name == "style"]

    assert widths == ["width: 40.00%", "width: 80.00%", "left: 60.00%; width: 40.00%"]
    assert {"b"}.isdisjoint(page.tags)
    assert all(
        text in page.text
        for text in ("<b>ours</b>", "2 ms", "twice as long", "The <i>caption</i>; the line is a span.")
    )
    assert markdown_report("T", [BARS]).splitlines()[2:] == [
        "| form | latency | span | beside |",
        "|:---|:---|:---|:---|",
        "| &lt;b>ours&lt;/b> | 2 ms |  |  |",
        "| theirs | 4 ms | 3 to 5 | twice as long |",
        "",
        "The &lt;i>caption&lt;/i>.",
    ]


@pytest.mark.parametrize("block", [Bars([], ("a", "b", "c", "d")), Parts([]), Gallery([], "caption")])
def test_nothing_to_show_is_no_error(block: Block) -> None:
    assert markdown_report("T", [block])
    assert "<h1>T</h1>" in html_report("T", [block])


def test_parts_share_one_bar() -> None:
    block = Parts([("a", 1.0, "1 s"), ("b", 3.0, "3 s")])
    page = outline(html_report("T", [block]))

    widths = [value.split(";")[0] for name, value in page.attributes if name == "style" and "width" in value]
    assert widths == ["width: 25.00%", "width: 75.00%"]
    assert markdown_report("T", [block]) == "# T\n\na: 1 s; b: 3 s.\n"


def test_small_pictures_have_their_names_and_markdown_one_picture() -> None:
    figures = [Figure(lambda: "<svg></svg>", f"conv_{place}.<b>") for place in range(3)]
    block = Gallery(figures, "Three.", ["plots/a.svg"])
    page = outline(html_report("T", [block]))

    assert page.tags.count("svg") == 3
    assert "conv_0.<b>" in page.text
    assert "b" not in page.tags
    assert markdown_report("T", [block]) == "# T\n\n![plots/a.svg](plots/a.svg)\n"


def test_a_share_is_drawn_beside_the_largest_and_details_are_marked() -> None:
    columns = (number("a", "share", ".0%", is_share=True), number("b", "more", "d", is_detail=True))
    page = outline(html_report("T", [Table([{"a": 0.2, "b": 1}, {"a": 0.4}, {"a": None}, {}], columns)]))

    assert [value for name, value in page.attributes if name == "style"] == ["--part: 0.500", "--part: 1.000"]
    assert page.attributes.count(("class", "right detail")) == 5


def test_only_a_report_with_lines_to_copy_has_a_script() -> None:
    assert "script" not in outline(html_report("T", [TABLE])).tags
    page = html_report("T", [Code("print()")])
    assert outline(page).tags.count("script") == 1
    assert "script-src 'sha256-" in page


HOSTILE = [
    "<img src=x onerror=alert(1)>.json",
    "a | b",
    "`code` and ``more``",
    "```",
    "~~~",
    "line\n\n# heading\n- item\n> quote",
    "1. item",
    "- item",
    "[text](javascript:alert(1))",
    "![picture](x)",
    "*strong* __init__ ~~gone~~",
    "&lt;b&gt; &copy;",
    "back\\slash \\` \\|",
    "https://example.com and www.example.com",
    "$x^2$",
    "***",
    "[a]: x",
]


def tokens(parsed: Any) -> list[Any]:
    return [each for token in parsed for each in [token, *tokens(token.children or [])]]


@pytest.mark.parametrize("name", HOSTILE)
def test_markdown_shows_texts_letter_by_letter(name: str) -> None:
    """No name makes HTML, a link, a picture, code or a cell of its own; a reader sees its letters."""
    blocks = [
        Heading(name),
        Paragraph(name),
        Paragraph(name, is_strong=True),
        Table([{"a": name, "b": "x"}], (TableColumn("a", "first"), TableColumn("b", "second"))),
        Details(name, []),
    ]
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    found = tokens(parser.parse(markdown_report(name, blocks)))

    expected = ["h1", "h2", "p", "p", "strong", "table", "thead", "tr", "th", "th", "tbody", "tr", "td", "td", "p"]
    assert [token.tag for token in found if token.nesting == 1] == expected
    assert not {"html_block", "html_inline", "image", "code_inline", "fence"} & {token.type for token in found}
    texts = ["".join(t.content for t in tokens([token])[1:]) for token in found if token.type == "inline"]
    assert texts == [*[one_line(name)] * 4, "first", "second", one_line(name), "x", one_line(name)]


@pytest.mark.parametrize("name", ["```\n# heading", "a`b"])
def test_lines_of_python_stay_inside_their_fence(name: str) -> None:
    found = MarkdownIt("commonmark").parse(markdown_report("T", [Code(name)]))

    assert [(token.tag, token.content) for token in found[3:]] == [("code", f"{name}\n")]


def test_the_address_of_a_picture_is_only_an_address() -> None:
    name = "a b](x) <i>.svg"
    (picture,) = [
        token
        for token in tokens(MarkdownIt("commonmark").parse(markdown_report("T", [Figure(str, "c", [name])])))
        if token.type == "image"
    ]

    assert picture.attrs["src"] == "a%20b%5D%28x%29%20%3Ci%3E.svg"
    assert picture.content.count("]") == 1


def test_html_shows_texts_as_texts_and_draws_the_pictures() -> None:
    page = outline(html_report("Title", BLOCKS))

    tags = ["h1", "h2", "p", "p", "div", "table", "tr", "th", "tr", "td", "div", "pre", "figure", "svg"]
    assert [tag for tag in page.tags if tag in {*tags, "details"}][: len(tags)] == tags
    assert {"b", "i"}.isdisjoint(page.tags)
    for text in ("<b>Result</b>", "Faster & better.", "<i>x</i>", "print('<p>')", "A curve", "More"):
        assert text in page.text
    assert {("class", "lead"), ("class", "note")} <= set(page.attributes)


def test_a_picture_is_not_drawn_for_markdown() -> None:
    def fail() -> str:
        raise AssertionError("drawn")

    assert markdown_report("T", [Figure(fail, "caption")]) == "# T\n"
