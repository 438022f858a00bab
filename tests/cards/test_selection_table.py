from __future__ import annotations

from costhub.cards.selection_table import selection_table


def line(method: str, batch: int, ahead: float) -> dict[str, object]:
    return {
        "source": "a", "target": "b", "batch": batch, "method": method, "workloads": 3, "ahead": ahead,
        "ahead_se": 0.01, "to_95": 12.0, "to_99": 30.5, "at_64": 0.98,
    }  # fmt: skip


def test_each_pair_and_size_of_batches_has_a_table() -> None:
    lines = [line("ranked", 8, 0.0), line("random", 8, -0.1), line("ranked", 16, 0.0)]

    table = selection_table({"summary": lines})

    assert table.count("**a to b**") == 2
    assert "batches of 8, 3 workloads" in table
    assert "| random | -0.100 | 0.010 | 12.0 | 30.5 | 0.980 |" in table
