"""What a part of a method is worth, on the pairs and seeds where both were tried."""

from __future__ import annotations

from typing import Any

import pytest

from costhub.cards.ablation_table import ablations_table, differences


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
