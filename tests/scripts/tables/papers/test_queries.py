"""How many scores a strategy asks for, by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from scripts.tables.papers.queries import BASE, queries_summary, queries_table


def searched(strategy: str, course: list[tuple[int, float]], workload: str = "w") -> dict[str, Any]:
    """A course of throughputs, which the rows have as logarithms."""
    logs = [(asked, math.log(value)) for asked, value in course]
    return {"workload": workload, "strategy": strategy, "seed": 0, "asked": 100, "course": logs}


ROWS = [
    searched(BASE, [(1, 0.1), (40, 0.97), (80, 1.0)]),
    searched("ppo", [(1, 0.3), (10, 0.499), (20, 0.5)]),
]


def test_a_search_has_converged_near_its_own_best() -> None:
    base, ppo = queries_summary(ROWS)

    assert (base["own_5"], base["own_1"]) == (40, 80)
    assert (ppo["own_5"], ppo["own_1"]) == (10, 10)
    assert ppo["fewer"] == pytest.approx(80 / 10)


def test_a_search_that_converges_early_on_a_bad_program_is_behind_the_best_one() -> None:
    base, ppo = queries_summary(ROWS)

    assert (base["behind"], base["near"], base["near_queries"]) == (pytest.approx(0.0), 1.0, 40)
    assert (ppo["behind"], ppo["near"], ppo["near_queries"]) == (pytest.approx(0.5), 0.0, None)


def test_workloads_have_bests_of_their_own() -> None:
    _, _, other = queries_summary([*ROWS, searched("random", [(5, 0.01)], workload="v")])

    assert (other["behind"], other["fewer"]) == (pytest.approx(0.0), None)
    assert "| random | 1 | 100 | 5 |" in queries_table({"summary": [other]})
