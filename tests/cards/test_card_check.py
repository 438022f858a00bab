"""The cards of strangers: what a browser, a terminal or another parser would run, fetch or hide is refused."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costhub.cards.card_check import (
    MAX_BODY_CHARACTERS,
    MAX_DEPTH,
    MAX_INLINE_CHARACTERS,
    check_card,
    check_card_text,
)
from costhub.cards.markdown import CARD, join
from costhub.dataset.readme import readme_text
from costhub.errors import DataError
from costhub.hub.catalogue.hubs import dataset_folders, list_models

LINK, PICTURE, HTML, PASSES = "a link to", "a picture from elsewhere", "HTML", "may pass for a link"
HIDDEN, DEEP, LONG, OPEN = "control character", "deep", "more than", "without an end"
REFUSED = [
    # HTML of every kind that CommonMark knows, and some that it does not
    ("<script>alert(1)</script>", HTML),
    ("<SVG/onload=alert(1)>", HTML),
    ("a <!-- hidden --> b", HTML),
    ("</div>", HTML),
    ("<?php", HTML),
    ("<![CDATA[x]]>", HTML),
    ("<!DOCTYPE html>", HTML),
    ("<iframe\nsrc=x>", HTML),
    ("a <b onmouseover=alert(1)>b</b>", HTML),
    ("- <img src=x>", HTML),
    ("| a | b |\n|---|---|\n| `x | <script>alert(1)</script>` |", HTML),
    ("| a |\n|---|\n| `x | <script>alert(1)</script>` |", "more cells"),
    ("> > <details open ontoggle=alert(1)>", HTML),
    # code that is none, because its fence or span does not end where it seems to
    ("``` `\n<script>\n```", HTML),
    ("```\n```x\n```\n<script>\n```", HTML),
    ("- ```\n  x\n  ```\n<script>\n```", HTML),
    ("```\n<script>", OPEN),
    ("- ~~~\n  x\n\nend", OPEN),
    ("\\`<script>`", HTML),
    ("``<script>`", HTML),
    # addresses that run code or read files
    ("[x](javascript:alert(1))", LINK),
    ("[x](JaVaScRiPt:alert(1))", LINK),
    ("[x](java&#115;cript:alert(1))", LINK),
    ("[x](javascript&colon;alert(1))", LINK),
    ("[x](java&Tab;script:alert(1))", LINK),
    ("[x](java&NewLine;script:alert(1))", LINK),
    ("[x](&#x6A;avascript:alert(1))", LINK),
    ("[x](&#0000106avascript:alert(1))", LINK),
    ("[x](javascript\\:alert(1))", LINK),
    ("[x](<javascript:alert(1)>)", LINK),
    ("[x](<java\tscript:alert(1)>)", LINK),
    ("[x](< javascript:alert(1)>)", LINK),
    ("[x](\njavascript:alert(1)\n)", LINK),
    ("[a](JAVASCRIPT :x)", PASSES),
    ("[x](vbscript:x)", LINK),
    ("[x](data:text/html,x)", LINK),
    ("[x](data:text/html;base64,PHNjcmlwdD4=)", LINK),
    ("[x](file:///etc/passwd)", LINK),
    ("[x](blob:x)", LINK),
    ("[x](view-source:javascript:1)", LINK),
    ("[x](ftp://e.org/x)", LINK),
    ("[x](mailto:a@e.org)", LINK),
    ("[x](tel:+1)", LINK),
    ("<javascript:alert(1)>", LINK),
    ("<java&#115;cript:alert(1)>", HTML),
    ("<mailto:a@e.org>", LINK),
    ("<a@e.org>", LINK),
    ("[x]: javascript:alert(1)", LINK),
    ("[x]\n\n[x]: java&#115;cript:alert(1)", LINK),
    ("[a][x]\n\n[x]:\n  <javascript:alert(1)>\n  'title'", LINK),
    ("[x]: https://e.org\n[x]: javascript:alert(1)", LINK),
    ("> [x]: javascript:alert(1)", LINK),
    ("text\n[x]: javascript:alert(1)", PASSES),
    ("[a [b](javascript:x) c](https://e.org)", PASSES),
    ("[a [b](javascript:x) c](d)", LINK),
    ("[![p](p.png)](javascript:x)", LINK),
    ("![[x](javascript:x)](p.png)", LINK),
    ("*[x](javascript:x)*", LINK),
    ("# [x](javascript:x)", LINK),
    ("[x](javascript:x\n", PASSES),
    ("$\\href{javascript:alert(1)}{x}$", PASSES),
    # addresses that are not what they seem
    ("[x](//e.org)", LINK),
    ("[x](/\\\\e.org)", LINK),
    ("[x](\\\\\\\\e.org)", LINK),
    ("[x](/settings)", LINK),
    ("[x](../../other)", LINK),
    ("[x](%2e%2e/other)", LINK),
    ("[x](https:e.org)", LINK),
    ("[x](https://huggingface.co@e.org)", LINK),
    ("[x](https://e.org\\@huggingface.co)", LINK),
    ("[x](https://xn--e1awd7f\u0430.org)", LINK),
    ("[x](" + "https://e.org/" + "x" * 2000 + ")", LINK),
    # pictures that tell another server who reads
    ("![a](http://e.org/x.png)", PICTURE),
    ("![a](https://e.org/x.png)", PICTURE),
    ("![x](&#104;ttps://e.org/x.png)", PICTURE),
    ("![a](//e.org/x.png)", PICTURE),
    ("![a]( <https://e.org/x.png>)", PICTURE),
    ("![a [b] c](https://e.org/x.png)", PICTURE),
    ("![a\\]b](https://e.org/x.png)", PICTURE),
    ("![a\nb](https://e.org/x.png)", PICTURE),
    (f"![{'a' * 501}](https://e.org/x.png)", PICTURE),
    ("![](https://e.org/x.png)", PICTURE),
    ("![a](https://e.org/x.png 'title')", PICTURE),
    ("![x]\n\n[x]: https://e.org/x.png", PICTURE),
    ("![x][]\n\n[x]: https://e.org/x.png", PICTURE),
    ("![a][b]\n\n[b]: https://e.org/x.png", PICTURE),
    ("![a [b]][c]\n\n[c]: https://e.org/x.png", PICTURE),
    ("[![a](https://e.org/x.png)](https://e.org)", PICTURE),
    ("![a ![b](https://e.org/x.png)](p.png)", PICTURE),
    ("| ![a](https://e.org/x.png) |\n|---|\n", PICTURE),
    ("![a](https://e.org/a b.png)", PASSES),
    ("text\n[x]: https://e.org/x.png\n![x]", PASSES),
    ("![a](../../other/x.png)", PICTURE),
    ("![a](/x.png)", PICTURE),
    ("![a](\\\\\\\\e.org/x.png)", PICTURE),
    ("![a](%2e%2e/x.png)", PICTURE),
    ("![a](.git/x.png)", PICTURE),
    ("![a](x.svg)", PICTURE),
    ("![a](x.png?u=1)", PICTURE),
    ("![a](data:image/png;base64,AAAA)", PICTURE),
    ("![a](file:x.png)", PICTURE),
    # characters that a terminal obeys, or that hide and reorder what people read
    ("a\x1b[31mb", HIDDEN),
    ("a\x9b31mb", HIDDEN),
    ("a\x07b", HIDDEN),
    ("a\rb", HIDDEN),
    ("a\x00b", HIDDEN),
    ("a\u202eb", HIDDEN),
    ("a\u2066b", HIDDEN),
    ("a\u200fb", HIDDEN),
    ("a\u061cb", HIDDEN),
    ("a\u200bb", HIDDEN),
    ("a\ufeffb", HIDDEN),
    ("a\u2028b", HIDDEN),
    ("a\U000e0041b", HIDDEN),
    ("```\na\x1b[2J\n```", HIDDEN),
    ("a&#27;[31mb", HIDDEN),
    ("a&#x1b;b", HIDDEN),
    ("a&#x202e;b", HIDDEN),
    ("a&rlm;b", HIDDEN),
    ("[a](https://e.org 'a&#x202e;b')", HIDDEN),
    ("![a&#x202e;b](p.png)", HIDDEN),
    # what takes long, or lies so deep that parsers leave it out
    (">" * (MAX_DEPTH + 1) + " <script>", DEEP),
    (">" * 200 + " <script>", DEEP),
    ("- " * 100 + "a", DEEP),
    ("![" * 50 + "a" + "](p.png)" * 50, DEEP),
    ("a" * (MAX_INLINE_CHARACTERS + 1), LONG),
    ("a\n\n" * (MAX_BODY_CHARACTERS // 3 + 1), LONG),
]
ACCEPTED = [
    "`<script>alert(1)</script>` and `[x](javascript:alert(1))`",
    "~~~ y\n<script>\n~~~",
    "```\n<b>code</b> ![x](https://e.org/x.png)\n```",
    "> ````\n> ```\n> <b>\n> ````",
    "    <script>indented()",
    "1 < 2 and a<b, x<=y, and data: a, file: b",
    "list<item: string> and struct<a: int64>",
    "&lt;b&gt; and \\<b> and 3 &lt; 4",
    "![plot](plot.png) and ![one](./pictures/a-b_1.PNG 'title')",
    "[![plot](plot.png)](https://e.org/plot)",
    "![x][p]\n\n[p]: plot.png",
    "[a page](https://example.org/a?b=c&amp;d#e) and [one](http://example.org:8080)",
    "<https://example.org/a>, https://example.org and someone@example.org",
    "[figures](evaluation.json), [here](#limits), [there](docs/page.md#x), [nothing]()",
    "tables | with | <64 rows\ttab",
    "| a | b |\n|:---|---:|\n| `x` | 1 |",
    "x[1](2) and [not a link] and ![not a picture]",
    "1. a\n   - b\n     > c",
    "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645, \u65e5\u672c\u8a9e, \U0001f469\u200d\U0001f4bb and 20 \u00b5s",
    "a\r\nb\r\n",
    "",
]


@pytest.mark.parametrize(("text", "what"), REFUSED, ids=[repr(text)[:40] for text, _ in REFUSED])
def test_what_a_card_does_not_need_is_refused(text: str, what: str) -> None:
    with pytest.raises(DataError, match=re.escape(what)) as refused:
        check_card_text(f"# Title\n\n{text}\n", "README.md")
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("text", ACCEPTED, ids=lambda text: repr(text)[:40])
def test_what_cards_need_passes(text: str) -> None:
    check_card_text(f"# Title\n\n{text}\n", "README.md")


@pytest.mark.parametrize(
    "value",
    ["a\x1b[2Jb", "a\x9bb", "a\u202eb", "a\x00b", "javascript:alert(1)", " VBScript:x", "data:text/html,x", "\x01"],
)
def test_values_of_the_yaml_are_looked_at_as_they_are_read(value: str) -> None:
    for metadata in ({"title": value}, {"deep": [{"er": [value]}]}, {value: 1}):
        with pytest.raises(DataError, match=r"control character|runs code"):
            check_card(join(metadata, "# Title\n"), "README.md")


@pytest.mark.parametrize(
    "raw", ["# a\u202eb", "a: 1 # \u2066", 'title: "\\u202e"', 'title: "\\e[1m"', "title: '\u200b'"]
)
def test_the_block_itself_hides_nothing_either(raw: str) -> None:
    with pytest.raises(DataError, match="control character"):
        check_card(f"---\nlicense: mit\n{raw}\n---\n# Title\n", "README.md")


def test_plain_metadata_passes() -> None:
    check_card(join({"title": "Data: measured", "url": "https://e.org", "n": [1, 2.5, None]}, "# Title\n"), "README.md")


def cards_of_costhub() -> list[Path]:
    models = [Path(entry.folder) for entry in list_models()]
    return [folder / CARD for folder in [*models, *map(Path, dataset_folders())] if (folder / CARD).is_file()]


@pytest.mark.parametrize("card", cards_of_costhub(), ids=lambda path: path.parent.name)
def test_every_shipped_card_passes(card: Path) -> None:
    check_card(card.read_text(encoding="utf-8"), "README.md")


def test_the_card_of_a_new_data_folder_passes() -> None:
    check_card(readme_text(), "README.md")


REPEATED = {
    "brackets": "[",
    "pictures": "![",
    "links": "[a](",
    "empty pictures": "![](",
    "definitions": "[a]: b 'c\n",
    "opened": "[a\n",
    "spans": "`a``b",
    "stars": "*a **b _c ",
    "comments": "<!--",
    "tags": "<a ",
    "quotations": "> a\n",
    "items": "1. a\n",
    "tables": "a|b\n",
    "bars": "|",
    "entities": "&#1",
    "blanks": " ",
    "paragraphs": "a\n\n",
    "escapes": "\\[",
    "schemes": "]( [a]: ",
}


SLOWEST = ("brackets", "pictures", "empty pictures", "opened", "quotations", "items")


@pytest.mark.parametrize(
    "part",
    [pytest.param(part, marks=[pytest.mark.slow] * (name in SLOWEST), id=name) for name, part in REPEATED.items()],
)
def test_no_text_takes_long(part: str) -> None:
    text = "# Title\n\n" + part * (MAX_BODY_CHARACTERS // len(part))
    started = time.process_time()
    for each in (text[: MAX_BODY_CHARACTERS - 1], text[:MAX_INLINE_CHARACTERS]):
        with contextlib.suppress(DataError):
            check_card_text(each, "README.md")
    # Of the processor, and several times what the slowest takes: what grows with the cube takes hours.
    assert time.process_time() - started < 60


def test_as_many_backticks_as_fit_take_no_time() -> None:
    check_card_text("\n".join("a " + "`" * n for n in range(3, 150)), "README.md")


PARTS = "``` ~~~ |-| <b> x.png [x]: &lt; &#115; javascript:x //e.org/x https://e.org".split(" ")
PARTS += "[]()!<>`:a|*\\'\n"
PARTS += ["\n\n", "- ", "> ", "    "]


@settings(max_examples=300)
@given(st.lists(st.sampled_from(PARTS), max_size=14).map("".join))
def test_what_passes_renders_as_nothing_that_acts(text: str) -> None:
    from markdown_it import MarkdownIt

    try:
        check_card_text(text, "README.md")
    except DataError:
        return
    for preset in ("commonmark", "js-default"):
        parser = MarkdownIt(preset, {"html": True})
        setattr(parser, "validateLink", lambda address: True)  # noqa: B010
        page = parser.render(text)
        assert not re.search(r"<(?:b|script)\b|<!", page)
        assert not re.search(r'(?:href|src)="(?!https?://e\.org|x\.png|a|#|")', page)
        assert not re.search(r'src="(?!x\.png"|[\w/]*x\.png")', page)
