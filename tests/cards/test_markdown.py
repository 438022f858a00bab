from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.cards.markdown import MAX_CARD_CHARACTERS, check_card_text, join, split
from costhub.dataset.readme import readme_text
from costhub.errors import DataError

# YAML has no way to write lone surrogates, and neither has UTF-8.
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXT, VALUES, max_size=4))
def test_metadata_is_read_back_as_it_was_written(metadata: dict[str, Any]) -> None:
    assert split(join(metadata, "# Title\n\n---\nnot: metadata\n---\n")) == (
        metadata,
        "# Title\n\n---\nnot: metadata\n---\n",
    )


def test_what_yaml_would_misread_stays_text() -> None:
    metadata = {"country": "no", "version": "1.10", "date": "2026-11-20", "text": "---\nkey: value\n---\n"}

    assert split(join(metadata, "body"))[0] == metadata


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "does not begin with a block of YAML"),
        ("# Title\n", "does not begin with a block of YAML"),
        ("---\nlicense: mit\n", "does not begin with a block of YAML"),
        ("---\n- a\n---\n", "is not a mapping"),
        ("---\na: [\n---\n", "is not YAML"),
        ("---\n!!python/object/apply:os.system [ls]\n---\n", "is not YAML"),
        ("---\n" + "[" * 5000 + "\n---\n", "is not YAML"),
        ("---\nx: !!bool maybe\n---\n", "is not YAML: it holds a tag"),
        ('---\nx: !!int ""\n---\n', "is not YAML"),
        ("---\nx: !!timestamp a\n---\n", "is not YAML"),
        ("---\nx: 2026-13-45\n---\n", "is not YAML"),
        ("-" * (MAX_CARD_CHARACTERS + 1), "is longer than"),
    ],
)
def test_a_text_without_metadata_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        split(text)


def test_an_alias_is_refused_since_it_could_stand_for_gigabytes() -> None:
    with pytest.raises(DataError, match="it holds an alias"):
        split("---\na: &a [1]\nb: [*a, *a]\n---\n")


def test_numbers_to_the_base_60_are_text_and_take_no_time() -> None:
    long = "1" + ":1" * 100_000

    assert split(f"---\na: 1:30\nb: 1:30.5\nc: {long}\n---\n")[0] == {"a": "1:30", "b": "1:30.5", "c": long}


def test_a_value_that_occurs_twice_is_written_twice() -> None:
    shared = [1.5, "x"]

    assert split(join({"a": shared, "b": shared}, "body"))[0] == {"a": shared, "b": shared}


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
