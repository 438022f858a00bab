from __future__ import annotations

from costhub.terminal_text import clean, first_few


def test_what_a_terminal_would_interpret_is_replaced() -> None:
    assert clean("\x1b[1mbold\x9b", 100) == "?[1mbold?"
    assert clean("ä\n", 9) == "??"
    assert clean("x" * 200, 16) == "x" * 16


def test_names_are_few() -> None:
    assert first_few(["a"], 1) == "a"
    assert first_few(["a"], 2) == "a, ..."
