"""What schedule rules add, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from scripts.tables.papers.composition import ALL_RULES, composition_summary, composition_table


def searched(rules: str, seed: int, best_us: float) -> dict[str, Any]:
    return {"workload": "w", "rules": rules, "seed": seed, "measured": 64, "best_us": best_us}


def test_latencies_are_over_those_with_all_rules_and_the_same_seed() -> None:
    rows = [searched("tiling", 0, 40.0), searched("tiling", 1, 10.0), searched(ALL_RULES, 0, 10.0)]

    tiling, whole = composition_summary(rows)

    assert (tiling["best_us"], tiling["times_all"], tiling["se"]) == (pytest.approx(20.0), pytest.approx(4.0), None)
    assert (whole["searches"], whole["times_all"]) == (1, 1.0)
    assert "| w | tiling | 2 | 64 | 20.0 | 4.00 | - |" in composition_table({"summary": [tiling, whole]})


def test_a_set_without_a_search_in_all_rules_has_no_ratio() -> None:
    (tiling,) = composition_summary([searched("tiling", 0, 40.0)])

    assert tiling["times_all"] is None
