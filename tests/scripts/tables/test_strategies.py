from __future__ import annotations

from typing import Any

import pytest

from scripts.tables.strategies import BASE, controller_table, selection_table, strategies_summary, strategies_table


def strategy_row(
    strategy: str, selection: str, best_us: float, seconds: float, curve: list[tuple[int, float, float]]
) -> dict[str, Any]:
    return {
        "workload": "w",
        "seed": 0,
        "strategy": strategy,
        "selection": selection,
        "trials": 64,
        "failures": 16,
        "seconds": seconds,
        "stages": {"evolution": 2.0, "building": 1.0},
        "best_us": best_us,
        "curve": curve,
    }


ROWS = [
    strategy_row(*BASE, 100.0, 10.0, [(16, 3.0, 150.0), (48, 8.0, 103.0), (60, 9.0, 100.0)]),
    strategy_row("annealing", "diverse", 80.0, 20.0, [(16, 5.0, 120.0), (32, 9.5, 110.0), (64, 18.0, 80.0)]),
    strategy_row("ppo", "ranked", 200.0, 2.0, [(16, 1.0, 200.0)]),
]


def test_gains_are_over_the_base_at_equal_trials_and_at_equal_seconds() -> None:
    base, annealing, ppo = strategies_summary(ROWS)

    assert (base["gain"], base["timed_gain"], base["gain_se"]) == (1.0, 1.0, None)
    assert annealing["gain"] == pytest.approx(1.25)
    assert annealing["timed_gain"] == pytest.approx(100 / 110)  # after ten seconds
    assert ppo["timed_gain"] is None  # the base had measured nothing when it ended


def test_convergence_is_to_a_search_s_own_best() -> None:
    base, annealing, ppo = strategies_summary(ROWS)

    assert [(line["to_5"], line["to_1"]) for line in (base, annealing, ppo)] == [(48, 60), (64, 64), (16, 16)]
    assert base["failures"] == 0.25


def test_errors_come_from_all_searches() -> None:
    again = [
        {**each, "seed": 1, "best_us": each["best_us"] * factor}
        for each, factor in zip(ROWS, (1.0, 2.0, 1.0), strict=True)
    ]

    _, annealing, ppo = strategies_summary([*ROWS, *again])

    assert annealing["gain"] == pytest.approx((1.25 * 0.625) ** 0.5)
    assert annealing["gain_se"] > 0.3
    assert ppo["gain_se"] == pytest.approx(0.0)


def test_a_search_without_its_base_has_no_gain() -> None:
    (line,) = strategies_summary(ROWS[1:2])

    assert (line["gain"], line["timed_gain"]) == (None, None)


def test_the_table_has_a_line_for_each() -> None:
    table = strategies_table({"summary": strategies_summary(ROWS)})

    assert "| annealing | diverse | 1 | 1.250 | - | 0.909 | - | 64.0 | 64.0 | 20 | 2 | 25.0% |" in table
    assert "| ppo | ranked | 1 | 0.500 | - | - | - |" in table


def line(method: str, batch: int, ahead: float) -> dict[str, object]:
    return {
        "source": "a",
        "target": "b",
        "batch": batch,
        "method": method,
        "workloads": 3,
        "ahead": ahead,
        "ahead_se": 0.01,
        "to_95": 12.0,
        "to_99": 30.5,
        "at_64": 0.98,
    }


def test_each_pair_and_size_of_batches_has_a_table() -> None:
    lines = [line("ranked", 8, 0.0), line("random", 8, -0.1), line("ranked", 16, 0.0)]

    table = selection_table({"summary": lines})

    assert table.count("**a to b**") == 2
    assert "batches of 8, 3 workloads" in table
    assert "| random | -0.100 | 0.010 | 12.0 | 30.5 | 0.980 |" in table


def rule_row(rule: str, half: int | None, saved: float) -> dict[str, object]:
    return {
        "pair": "a -> b",
        "rule": rule,
        "half": half,
        "searches": 6,
        "workloads": 2,
        "saved": saved,
        "lost": 0.0123,
        "lost_se": 0.001,
        "worst_workload": 0.05,
        "lost_by_fixed": 0.01,
    }


def test_the_lines_are_those_of_both_halves() -> None:
    table = controller_table({"rows": [rule_row("plateau", 0, 0.2), rule_row("plateau", None, 0.4)]})

    assert table.startswith("**a -> b**, 6 searches of 2 workloads")
    assert "| plateau | 40% | 1.23% | 0.10% | 5.0% | 1.00% |" in table
    assert "20%" not in table
