from __future__ import annotations

import pytest

from costhub.cards.card_text import check_card_text
from costhub.dataset.readme import readme_text
from costhub.errors import DataError


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("<script>alert(1)</script>", "HTML"),
        ("<SVG/onload=alert(1)>", "HTML"),
        ("a <!-- hidden --> b", "HTML"),
        ("</div>", "HTML"),
        ("<?php", "HTML"),
        ("<iframe\nsrc=x>", "HTML"),
        ("[a](javascript:x)", "runs code"),
        ("[a](JAVASCRIPT :x)", "runs code"),
        ("[a](data:text/html,x)", "runs code"),
        ("![a](http://e.org/x.png)", "picture from elsewhere"),
        ("![a](//e.org/x.png)", "picture from elsewhere"),
        ("![a]( <https://e.org/x.png>)", "picture from elsewhere"),
        ("![a](../../other/x.png)", "picture from elsewhere"),
        ("![a][b]\n\n[b]: https://e.org/x.png", "picture by reference"),
        ("``` `\n<script>\n```", "HTML"),
        ("```\n```x\n```\n<script>\n```", "HTML"),
        ("- ```\n  x\n  ```\n<script>\n```", "HTML"),
        ("```\n<script>", "HTML"),
        ("\\`<script>`", "HTML"),
        ("a\x1b[31mb", "control character"),
        ("a\u202eb", "control character"),
    ],
)
def test_what_a_browser_would_run_or_fetch_is_refused(text: str, what: str) -> None:
    with pytest.raises(DataError, match=what):
        check_card_text(f"# Title\n\n{text}\n", "README.md")


@pytest.mark.parametrize(
    "text",
    [
        "1 < 2 and a<b, x<=y",
        "`<script>` and\n\n```\n<b>code</b>\n```\n",
        "list<item: string> and struct<a: int64>",
        "![plot](plot.png) and [a page](https://example.org)",
        "tables | with | <64 rows\ttab",
    ],
)
def test_what_cards_need_passes(text: str) -> None:
    check_card_text(text, "README.md")


def test_the_card_of_a_new_data_folder_passes() -> None:
    check_card_text(readme_text(), "README.md")


def test_a_long_line_of_brackets_takes_no_time() -> None:
    check_card_text("![" * 200_000 + "`" * 100_001, "README.md")
    check_card_text("`" * 200_000, "README.md")
    check_card_text("\n".join("`" * n for n in range(3, 600)), "README.md")
    check_card_text("![](" + " " * 200_000, "README.md")
