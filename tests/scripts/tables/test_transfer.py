"""What a part of a method is worth, on the pairs and seeds where both were tried."""

from __future__ import annotations

from typing import Any

import pytest

from scripts.tables.transfer import (
    LIVE_BASE,
    ablations_table,
    curves,
    differences,
    live_summary,
    live_transfer_table,
    mixture_table,
    sources_table,
    summaries,
    transfer_table,
)


def row(method: str, seed: int, top_1: float, trials: int = 64, part: str = "") -> dict[str, object]:
    return {
        "source": "a",
        "target": "b",
        "method": method,
        "part": part,
        "trials": trials,
        "seed": seed,
        "top_1": top_1,
        "top_5": 1.0,
        "pairwise": 0.5,
    }


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

    assert "**a to b**, 2 seeds; the standard error over them is 0.000 of pairwise and 0.050 of top-1" in table
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


def part_row(method: str, pairwise: float, seed: int = 0, trials: int = 32, part: str = "") -> dict[str, Any]:
    place = {"source": "a", "target": "b", "seed": seed, "trials": trials, "part": part}
    return {**place, "method": method, "pairwise": pairwise}


def test_only_what_was_tried_on_the_same_pair_and_seed_is_compared() -> None:
    rows = [
        part_row("base", 0.70),
        part_row("ticket", 0.71),
        part_row("base", 0.80, seed=1),
        part_row("ticket", 0.83, seed=1),
        part_row("ticket", 0.10, seed=2),
        part_row("ticket", 0.10, part="gbt"),
        part_row("other", 0.90),
    ]

    (line,) = differences(rows, ["ticket"], "base")

    assert (line["method"], line["trials"], line["count"]) == ("ticket", 32, 2)
    assert line["mean"] == pytest.approx(0.02)
    assert line["se"] == pytest.approx(0.01)


def test_lines_keep_the_order_of_the_methods_and_grow_in_trials() -> None:
    rows = [part_row(m, 0.5, trials=t) for t in (64, 32) for m in ("base", "x", "y")]

    lines = differences(rows, ["y", "x"], "base")

    assert [(line["method"], line["trials"]) for line in lines] == [
        ("y", 32),
        ("y", 64),
        ("x", 32),
        ("x", 64),
    ]


def test_the_table_shows_thousandths() -> None:
    lines = [
        {"method": "ticket", "trials": 32, "mean": 0.0204, "se": 0.0031, "count": 4},
        {"method": "ticket", "trials": 64, "mean": -0.004, "se": None, "count": 1},
    ]

    shown = ablations_table({"ablations": lines, "base": "fine-tune"})

    assert "| ticket | 4 | +20 ± 3 | -4 |" in shown
    assert shown.endswith("Thousandths of pairwise more than by fine-tune.")


def search_row(method: str, best_us: float, seconds: float, curve: list[tuple[int, float, float]]) -> dict[str, object]:
    return {
        "workload": "w",
        "seed": 0,
        "method": method,
        "best_us": best_us,
        "seconds": seconds,
        "curve": curve,
    }


ROWS = [
    search_row(LIVE_BASE, 100.0, 10.0, [(16, 3.0, 150.0), (48, 8.0, 100.0)]),
    search_row("better", 50.0, 5.0, [(8, 1.0, 100.5), (16, 2.0, 50.0)]),
    search_row("worse", 200.0, 10.0, [(8, 1.0, 200.0)]),
]


def test_gains_are_those_over_the_base_at_equal_trials() -> None:
    base, better, worse = live_summary(ROWS)

    assert (base["latency_gain"], base["cmat"], base["trials_gain"]) == (1.0, 0.0, 1.0)
    assert better["latency_gain"] == pytest.approx(2.0)
    assert better["cmat"] == pytest.approx(300.0)  # half the time and half the latency
    assert worse["cmat"] == pytest.approx(-50.0)


def test_trials_and_seconds_are_those_until_the_best_of_the_base() -> None:
    _, better, worse = live_summary(ROWS)

    assert better["reached"] == 1.0
    assert (better["trials_gain"], better["time_gain"]) == (pytest.approx(6.0), pytest.approx(8.0))
    assert (worse["reached"], worse["trials_gain"], worse["time_gain"]) == (0.0, None, None)


def test_the_table_shows_a_dash_for_what_was_never_reached() -> None:
    table = live_transfer_table({"summary": live_summary(ROWS)})

    assert "| better | 1 | 2.000 | - | 2.00 | 100% | 6.00 | 8.00 | 300.0 |" in table
    assert "| worse | 1 | 0.500 | - | 1.00 | 0% | - | - | -50.0 |" in table
