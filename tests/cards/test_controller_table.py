from __future__ import annotations

from costhub.cards.controller_table import controller_table


def rule_row(rule: str, half: int | None, saved: float) -> dict[str, object]:
    return {
        "pair": "a -> b", "rule": rule, "half": half, "searches": 6, "workloads": 2, "saved": saved,
        "lost": 0.0123, "lost_se": 0.001, "worst_workload": 0.05, "lost_by_fixed": 0.01,
    }  # fmt: skip


def test_the_lines_are_those_of_both_halves() -> None:
    table = controller_table({"rows": [rule_row("plateau", 0, 0.2), rule_row("plateau", None, 0.4)]})

    assert table.startswith("**a -> b**, 6 searches of 2 workloads")
    assert "| plateau | 40% | 1.23% | 0.10% | 5.0% | 1.00% |" in table
    assert "20%" not in table
