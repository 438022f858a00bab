from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from costhub.dataset.check.texts import control_characters, empty_names, oversized_entries, oversized_texts


def rows(breaches: Any) -> list[int]:
    return sorted({int(row) for _, mask in breaches for row in np.flatnonzero(mask)})


def test_texts_far_beyond_what_their_column_is_for(batch: Any) -> None:
    made = batch(
        trace=["x" * 5000, "x" * (2 << 20), "", ""],
        session=["s", "s", "s" * 257, None],
        run_s=[[1.0]] * 3 + [[1.0] * 10_001],
    )

    assert rows(oversized_texts(made)) == [1, 2, 3]


@pytest.mark.parametrize(
    ("error", "found"), [("line\n\tline", []), ("\x1b[31m", [0]), ("a\x00b", [0]), ("naïve", []), (None, [])]
)
def test_characters_that_a_terminal_obeys(batch: Any, error: str | None, found: list[int]) -> None:
    assert rows(control_characters(batch(error=[error]))) == found


def test_a_name_of_two_lines(batch: Any) -> None:
    assert rows(control_characters(batch(session=["a\nb"]))) == [0]


def test_names_without_a_letter(batch: Any) -> None:
    assert rows(empty_names(batch(record_id=["r", ""], proposed_by=["random", "random"]))) == [1]


def test_entries_of_tables_are_bounded_too() -> None:
    row = {
        "name": "n" * 300,
        "shapes": "s" * 300,
        "aliases": ["a", "b" * 300],
        "flop": 1.0,
        "networks": [{"name": "n"}] * 10_001,
    }

    assert list(oversized_entries(row)) == [
        "name is longer than 256 characters.",
        "aliases is longer than 256 characters.",
        "networks has more than 10,000 entries.",
    ]
