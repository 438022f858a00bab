"""What a card says of the figures of the workloads: by operator and by device."""

from __future__ import annotations

from typing import Any

import pytest

from costhub.cards.model_card import from_results, model_card_body
from costhub.cards.model_facts import held_out_figures


def row(workload: str, device: str = "", operator: str = "conv", **more: Any) -> dict[str, Any]:
    figures = {"top_1": 0.5, "top_5": 1.0, "pairwise": 0.75, "spearman": 0.7, **more}
    return {"workload_id": workload, "operator": operator, "programs": 8, "device_id": device or None, **figures}


def test_one_device_has_no_table_of_devices() -> None:
    found = held_out_figures([row("a", "one"), row("b", "one", top_1=1.0)])

    assert found["held_out"] == {"workloads": 2, "devices": 1, "programs": 16}
    assert [(r["operator"], r["workloads"], r["programs"], r["top_1"]) for r in found["operators"]] == [
        ("conv", 2, 16, 0.75)
    ]
    assert found["devices"] == []


def test_a_workload_on_several_devices_counts_once() -> None:
    found = held_out_figures([row("a", "two", top_1=1.0), row("a", "one"), row("b", "one", "norm")])

    assert found["held_out"] == {"workloads": 2, "devices": 2, "programs": 24}
    assert [(r["operator"], r["workloads"], r["top_1"]) for r in found["operators"]] == [
        ("conv", 1, 0.75),
        ("norm", 1, 0.5),
    ]
    assert [(r["device_id"], r["workloads"], r["top_1"]) for r in found["devices"]] == [
        ("one", 2, 0.5),
        ("two", 1, 1.0),
    ]


def test_figures_have_the_digits_that_a_card_shows() -> None:
    found = held_out_figures([row("a", top_1=1 / 3), row("b", top_1=1 / 3)])

    assert found["operators"][0]["top_1"] == 0.333


def test_no_rows_are_no_figures() -> None:
    assert held_out_figures([]) == {
        "held_out": {"workloads": 0, "devices": 0, "programs": 0},
        "operators": [],
        "devices": [],
    }


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_what_has_no_figure_is_left_out_of_the_mean(missing: float | None) -> None:
    found = held_out_figures([row("a", pairwise=missing), row("b")])["operators"][0]
    assert found["pairwise"] == 0.75
    assert held_out_figures([row("a", pairwise=missing)])["operators"][0]["pairwise"] is None


def test_the_mean_of_an_operator_leaves_out_what_has_no_figure(
    config: dict[str, Any], evaluation: dict[str, Any]
) -> None:
    evaluation["workloads"][0]["pairwise"] = float("nan")

    assert "| conv2d | 2 | 104 | 0.850 | 0.990 | 0.850 | 0.800 |" in model_card_body(from_results(config, evaluation))
