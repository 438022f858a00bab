from __future__ import annotations

from costhub.cards.operators_table import operators_table


def test_a_line_shows_medians_and_the_last_one_the_mean_of_the_ratios() -> None:
    rows = [
        {"workload": "a", "best_us": 10.0, "torch_us": us, "seconds": 5.0} for us in (30.0, 40.0, 90.0)
    ] + [{"workload": "b", "best_us": 10.0, "torch_us": 10.0, "seconds": 5.0}]

    lines = operators_table({"rows": rows}).splitlines()

    assert "| a | 3 | 10.0 | 40.0 | 4.00 | 3.00 to 9.00 | 5 |" in lines
    assert "2.00" in lines[-1]
    assert lines[-1].startswith("| geometric mean |")
