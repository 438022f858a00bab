from __future__ import annotations

import os

import pytest

from costhub.terminal_text import clean, first_few, for_stream, wrapped


def test_what_a_terminal_would_interpret_is_replaced() -> None:
    assert clean("\x1b[1mbold\x9b", 100) == "?[1mbold?"
    assert clean("ä\n", 9) == "??"
    assert clean("x" * 200, 16) == "x" * 16


def test_names_are_few() -> None:
    assert first_few(["a"], 1) == "a"
    assert first_few(["a"], 2) == "a, ..."


def test_messages_break_between_words_and_never_inside_a_command() -> None:
    text = "amd-epyc-zen5-2c is not probed, so models get the average: run `costhub probe --isa avx2` (25 s).\nLast."

    lines = wrapped(text, 60).split("\n")

    assert max(map(len, lines)) <= 60
    assert any("`costhub probe --isa avx2`" in line for line in lines)
    assert " ".join(lines[:-1]) + "\n" + lines[-1] == text


def test_a_message_is_left_whole_where_nothing_shows_it_in_lines() -> None:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream, os.fdopen(reader):
        assert for_stream("word " * 40, stream) == "word " * 40


def test_a_terminal_gets_lines_of_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((40, 24)))
    reader, writer = os.openpty()
    with os.fdopen(writer, "w") as stream, os.fdopen(reader):
        assert max(map(len, for_stream("word " * 40, stream).split("\n"))) <= 40
