"""A card as HTML: it reads well, and nothing in it is more than text."""

from __future__ import annotations

import runpy
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.cards.markdown import MAX_CARD_CHARACTERS, split
from costhub.cards.site.card_html import card_html
from costhub.hub.catalogue.hubs import dataset_folders, list_models

HOSTILE: str = runpy.run_path(str(Path(__file__).with_name("site_of_strangers.py")))["HOSTILE"]
outline: Any = runpy.run_path(str(Path(__file__).parents[1] / "page_outline.py"))["outline"]
TAGS = {
    *("h4", "h5", "h6", "p", "ul", "li", "pre", "code", "div", "table", "tr", "th", "td"),
    *("figure", "a", "img", "figcaption", "em", "strong", "span", "br", "ol", "thead", "tbody"),
}


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("# T\n## U\n##### V", "<h4>T</h4> <h5>U</h5> <h6>V</h6>"),
        ("one\ntwo\n\nthree", "<p>one two</p> <p>three</p>"),
        ("- a\n  b\n- `c`", "<ul> <li>a b</li> <li><code>c</code></li> </ul>"),
        ("*a* **b** top_1", "<p><em>a</em> <strong>b</strong> top_1</p>"),
        ("```python\n# x\n\n<y>\n```\nz", '<pre class="scroll" tabindex="0"># x &lt;y&gt; </pre> <p>z</p>'),
        ("    select 1\n    from x", '<pre class="scroll" tabindex="0">select 1 from x </pre>'),
        ("~~~~\n~~~\n~~~~", '<pre class="scroll" tabindex="0">~~~ </pre>'),
        ("```\nopen", '<pre class="scroll" tabindex="0">open</pre>'),
        ("| no | table |", "<p>| no | table |</p>"),
        ("a `b", "<p>a `b</p>"),
        ("[x](y) <z> [a]: b", "<p>[x](y) &lt;z&gt; [a]: b</p>"),
        ("", ""),
    ],
)
def test_blocks(text: str, html: str) -> None:
    assert " ".join(card_html(text, {}).split()) == html


def test_a_table_keeps_sides_bars_and_code() -> None:
    table = card_html("| a | b |\n|:---|---:|\n| x \\| y | `z` |", {})

    assert '<th>a</th>\n<th class="right">b</th>' in table
    assert '<td>x | y</td>\n<td class="right"><code>z</code></td>' in table


def test_a_table_without_titles_has_no_head() -> None:
    assert "<th" not in card_html("|  |  |\n|:---|:---|\n| device | one |", {})


def test_pictures_of_the_folder_are_shown_and_others_are_not() -> None:
    text = "![A curve](adaptation.png)\n\n![spy](http://example.org/x.png)"
    html = card_html(text, {"adaptation.png": "pictures/0a.png"})

    assert '<img src="pictures/0a.png" alt="A curve" loading="lazy">' in html
    assert html.count("<img") == 1
    assert "Picture http://example.org/x.png, not shown: spy" in html


def test_a_hostile_card_is_text() -> None:
    page = outline(card_html(HOSTILE, {}))

    assert set(page.tags) <= TAGS
    assert {name for name, _ in page.attributes} <= {"class", "tabindex", "scope"}
    assert "<script>document.title='pwned'</script>" in page.text


@given(st.text(alphabet=st.sampled_from("#|-`~!<>[]()& \nab\\:"), max_size=200))
def test_any_text_gives_sound_html_of_known_tags(text: str) -> None:
    page = outline(card_html(text, {"a": "b"}))

    assert set(page.tags) <= TAGS


@pytest.mark.parametrize(
    "unit", ["|", "-", "`", "#", "|\n", "- \n", "[](", "```\n", "|-", pytest.param("![", marks=pytest.mark.slow)]
)
def test_the_longest_card_takes_no_time_and_gives_no_more_than_it_holds(unit: str) -> None:
    text = (unit * MAX_CARD_CHARACTERS)[:MAX_CARD_CHARACTERS]
    start = time.process_time()
    html = card_html(text, {})

    assert time.process_time() - start < 20
    assert len(html) < 60 * len(text)


def test_the_cards_of_the_embedded_hub_are_rendered_whole() -> None:
    folders = [*(model.folder for model in list_models()), *dataset_folders().values()]
    for folder in folders:
        _, body = split((folder / "README.md").read_text(encoding="utf-8"))
        page = outline(card_html(body, {}))

        assert {"h4", "h5", "table", "pre", "code"} <= set(page.tags)
        assert "|---" not in page.text
