from __future__ import annotations

from costhub.cards.picked_table import picked_table


def test_a_line_says_what_choosing_again_gains_and_how_often_it_changes_nothing() -> None:
    rows = [
        {"database": "a", "said_us": 9.0, "picked_us": 10.0, "chosen_us": 10.0, "rank": 1},
        {"database": "a", "said_us": 9.0, "picked_us": 16.0, "chosen_us": 4.0, "rank": 3},
        {"database": "b", "said_us": 9.0, "picked_us": 9.0, "chosen_us": 10.0, "rank": 2},
    ]

    lines = picked_table({"rows": rows}).splitlines()

    assert lines[-2].startswith("| a | 2 | 1 | 2.000 |")
    assert lines[-1].startswith("| b | 1 | 0 | 0.900 |")
