from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.cards.markdown import MAX_CARD_CHARACTERS, join, split
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
