"""The tables of AutoTVM's figure 8: what a source is worth, by hand."""

from __future__ import annotations

from typing import Any

import pytest

from scripts.tables.papers.autotvm import (
    FIGURE_8_BASE,
    figure_8_summary,
    figure_8_table,
    live_figure_8_summary,
    live_figure_8_table,
)


def searched(method: str, best: list[float], seed: int = 0) -> dict[str, Any]:
    about = {"device": "cpu0", "spec": "tiles@1", "workload": "c7", "programs": 192}
    return {**about, "method": method, "seed": seed, "best": best}


def test_a_method_is_ahead_by_its_mean_and_sooner_by_its_trials() -> None:
    base, own = figure_8_summary(
        [searched(FIGURE_8_BASE, [0.2, 0.4, 0.6, 0.8]), searched("residual", [0.6, 0.8, 0.8, 1.0])]
    )

    assert (base["ahead"], base["sooner"], base["reached"]) == (0.0, 1.0, 1.0)
    assert own["ahead"] == pytest.approx(0.3)
    assert own["sooner"] == pytest.approx(4 / 2)  # the base's end after 2 trials instead of 4
    assert own["at_8"] == 1.0  # a shorter search counts with its end


def test_a_search_that_never_comes_there_has_no_ratio() -> None:
    _, own = figure_8_summary([searched(FIGURE_8_BASE, [0.2, 0.8]), searched("random", [0.2, 0.3])])

    assert (own["reached"], own["sooner"]) == (0.0, None)
    assert own["ahead"] == pytest.approx(-0.25)


def test_searches_are_compared_with_the_base_of_their_seed() -> None:
    rows = [searched(FIGURE_8_BASE, [0.5], 0), searched(FIGURE_8_BASE, [0.9], 1), searched("frozen", [1.0], 1)]

    _, own = figure_8_summary(rows)

    assert own["ahead"] == pytest.approx(0.1)
    assert "| frozen |" in figure_8_table({"summary": figure_8_summary(rows)})


def test_live_searches_are_compared_by_latencies_measured_again() -> None:
    about = {"workload": "c7", "seed": 0}
    rows: list[dict[str, Any]] = [
        {**about, "method": FIGURE_8_BASE, "best_us": 100.0, "curve": [(16, 5.0, 200.0), (64, 20.0, 100.0)]},
        {**about, "method": "residual", "best_us": 80.0, "curve": [(16, 4.0, 100.5), (64, 20.0, 80.0)]},
    ]

    base, own = live_figure_8_summary(rows)

    assert (base["gain"], own["gain"]) == (1.0, pytest.approx(1.25))
    assert (own["trials"], own["seconds"], own["reached"]) == (4.0, pytest.approx(5.0), 1.0)
    assert "| residual | 1 | 1.250 |" in live_figure_8_table({"summary": [base, own]})
