from __future__ import annotations

from costhub.cards.passes_table import passes_table


def test_a_line_says_how_far_passes_are_apart() -> None:
    row = {"passes": "1 and 2", "programs": 327, "shift": -0.01, "median": 0.009, "p90": 0.04, "worst": 0.12}

    assert passes_table({"rows": [row]}).splitlines()[-1] == "| 1 and 2 | 327 | -1.0% | 0.9% | 4.0% | 12.0% |"
