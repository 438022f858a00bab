from __future__ import annotations

import pytest

from costhub.cards.transfer_tables import (
    curves,
    mixture_table,
    sources_table,
    summaries,
    transfer_table,
)


def row(method: str, seed: int, top_1: float, trials: int = 64, part: str = "") -> dict[str, object]:
    return {
        "source": "a", "target": "b", "method": method, "part": part, "trials": trials, "seed": seed,
        "top_1": top_1, "top_5": 1.0, "pairwise": 0.5,
    }  # fmt: skip


def test_seeds_become_a_mean_and_its_standard_error() -> None:
    [first, second] = summaries([row("x", 0, 0.5), row("y", 0, 0.2), row("x", 1, 0.7)])

    assert (first["method"], first["seeds"], second["method"], second["seeds"]) == ("x", 2, "y", 1)
    assert first["top_1"] == pytest.approx(0.6)
    assert first["top_1_se"] == pytest.approx(0.1)
    assert (first["top_5_se"], second["top_1_se"]) == (0.0, None)


def test_the_table_has_a_line_for_each_method_and_a_column_for_each_number_of_trials() -> None:
    rows = [row("x", seed, 0.5 + seed / 10, trials) for seed in (0, 1) for trials in (32, 1024)]

    whole = [row("all of the target", seed, 0.7, 3000 + seed) for seed in (0, 1)]
    table = transfer_table({"summary": summaries([*rows, *whole, row("x", 0, 0.9, 32, "mlp")])})

    assert (
        "**a to b**, 2 seeds; the standard error over them is 0.000 of pairwise and 0.050 of top-1" in table
    )
    assert "| method | 32 trials | 1,024 trials | all |" in table
    assert "| x | 0.550 / 1.000 / 0.500 | 0.550 / 1.000 / 0.500 | - |" in table
    assert "| all of the target | - | - | 0.700 / 1.000 / 0.500; 0.700 / 1.000 / 0.500 |" in table
    assert "mlp" not in table


def test_many_sources_are_counted_rather_than_named() -> None:
    rows = [{**row("x", 0, 0.5), "source": "a+b+c"}]

    assert "**3 other devices to b**" in transfer_table({"summary": summaries(rows)})


def test_curves_follow_the_trials_and_levels_are_drawn_across() -> None:
    rows = [row("fine-tune", 0, 0.5, 32), row("fine-tune", 0, 0.6, 64), row("frozen", 0, 0.4, 0)]

    found = curves(summaries([*rows, row("fine-tune", 0, 0.1, 32, "mlp")]), "top_1", ["frozen", "fine-tune"])

    assert found == {
        "a\nto b": [
            {"label": "frozen", "x": [32, 64], "y": [0.4, 0.4], "se": [0.0, 0.0]},
            {"label": "fine-tune", "x": [32, 64], "y": [0.5, 0.6], "se": [0.0, 0.0]},
        ]
    }


def test_what_choosing_a_source_costs_is_a_line_for_each_number_of_programs() -> None:
    line = {"probed": 32, "mean": 0.001, "p90": 0.004, "worst": 0.02, "within": 0.99, "top_1": 0.002}

    assert "| 32 | 0.001 | 0.004 | 0.020 | 99% | 0.002 |" in sources_table({"summary": [line]})


def test_ways_to_begin_stand_beside_each_other() -> None:
    line = {"task": "cpu", "probed": 32, "choice": "telling", "made": None}
    found = [
        {**line, "method": "single", "mean": 0.001, "worst": 0.03, "within": 0.996},
        {**line, "method": "mixture", "mean": -0.0004, "worst": 0.008, "made": 0.09},
        {**line, "method": "all", "mean": 0.002, "worst": 0.02},
    ]

    table = mixture_table({"summary": found})

    assert "| cpu | 32 | telling | 99.6% | 0.0010 / 0.030 | -0.0004 / 0.008 | 0.0020 / 0.020 | 9% |" in table
    assert len(table.splitlines()) == 3
