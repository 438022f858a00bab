from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from costhub.cards.reports.stats import stats_text

make_stats: Any = runpy.run_path(str(Path(__file__).with_name("folder_of_stats.py")))["make_stats"]


def test_every_table_is_there() -> None:
    lines = [" ".join(line.split()) for line in stats_text(make_stats()).splitlines()]

    assert lines[0] == "768 measurements of 600 programs"
    assert "board-0 all 9 900 384" in lines
    assert "family2 3 600 330" in lines
    assert "run_error 6 0.8%" in lines
    assert "run_error no registers 0 20" in lines
    assert "board-1 repeats 90 1.00% 9.00%" in lines
    assert "board-0 0.27.0 - - 0.1 384" in lines
    assert "CC-BY-4.0 ann 768" in lines
    assert "board-0 1.2 2.0 3.0 40 500 6,000 7,000,000" in lines
    assert "family2 matmul.2x128x128 128 127 12.0 48 1,200 100 100.0" in lines


def test_it_fits_a_terminal_of_a_hundred_columns() -> None:
    text = stats_text(make_stats(name="a-name-longer-than-what-there-is-room-for-"))

    tables = [line for line in text.splitlines() if line.startswith(("family", "run_error"))]
    assert len(tables) > 10
    assert max(map(len, tables)) <= 100


def test_what_strangers_wrote_cannot_speak_to_the_terminal() -> None:
    text = stats_text(make_stats(name="\x1b[2J\x07"))

    assert all(letter.isprintable() or letter == "\n" for letter in text)
