"""The tables of models: which figures a line has, and how spread and error are taken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from scripts.bench.models.report import checked_rows
from scripts.tables.models.comparison import (
    LITERATURE,
    calibration_table,
    comparison_table,
    curves_table,
    learning_table,
    literature_table,
    model_headline_table,
    overview_table,
    paired_table,
    summaries,
    training_table,
    unseen_device_table,
)


def row(model: str, seed: int, values: list[float], **more: Any) -> dict[str, Any]:
    """One row of a benchmark: all metrics have the same values."""
    return {
        "dataset": "d",
        "device": "cpu0",
        "split": "s",
        "also": "",
        "fold": 0,
        "seed": seed,
        "model": model,
        "objective": "rank",
        "spec": "per_store@1",
        "variant": "",
        "train_s": 2.0,
        "predictions_per_s": 1000.0,
        "bytes": 2048,
        "workload_ids": [f"w{i}" for i in range(len(values))],
        "by_workload": {name: values for name in ("top_1", "top_5", "pairwise", "spearman")},
        **more,
    }


def test_a_summary_has_the_spread_over_seeds_and_the_error_over_workloads() -> None:
    (found,) = summaries([row("gbt", 0, [0.5, 0.7]), row("gbt", 1, [0.7, 0.9])])

    assert found["top_1"] == pytest.approx(0.7)
    assert found["top_1_std"] == pytest.approx(0.2 / 2**0.5)  # seeds: 0.6 and 0.8
    assert found["top_1_se"] == pytest.approx(0.1)  # workloads: 0.6 and 0.8
    assert (found["seeds"], found["workloads"]) == (2, 2)


def test_a_network_that_older_results_call_moses_has_the_name_of_what_it_is() -> None:
    old = row("mlp", 0, [0.5, 0.7], variant="2 x 512 (Moses)")

    (line,) = summaries([old, row("mlp", 1, [0.5, 0.7], variant="hidden 512")])

    assert (line["variant"], line["seeds"]) == ("hidden 512", 2)
    shown = comparison_table({"summary": [{**line, "variant": "2 x 512 (Moses)"}]})
    assert "hidden 512" in shown
    assert "Moses" not in shown


def test_rates_that_no_row_has_get_no_column() -> None:
    timed, untimed = row("gbt", 0, [0.5]), row("gbt", 0, [0.5], train_s=None, predictions_per_s=None)

    assert "training (s)" in comparison_table({"rows": [timed]})
    shown = comparison_table({"rows": [untimed]})
    assert "training (s)" not in shown
    assert "predictions / s" not in shown
    assert "size (KiB)" in shown


def test_folds_of_a_seed_are_put_together() -> None:
    folds = [row("gbt", 0, [0.4]), {**row("gbt", 0, [0.8]), "fold": 1, "workload_ids": ["v"]}]

    (found,) = summaries(folds)

    assert (found["top_1"], found["workloads"], found["seeds"]) == (pytest.approx(0.6), 2, 1)
    assert found["top_1_std"] is None


def test_a_seed_without_all_folds_is_left_out() -> None:
    folds = [{**row("gbt", seed, [value]), "fold": fold} for seed in (0, 1) for fold, value in ((0, 0.2), (1, 0.4))]

    found = summaries([*folds[:-1], row("mlp", 0, [0.9])])

    assert [(line["model"], line["seeds"]) for line in found] == [("gbt", 1)]
    assert found[0]["top_1"] == pytest.approx(0.3)


def test_the_comparison_has_the_best_first() -> None:
    rows = [row("mlp", 0, [0.5, 0.7]), row("gbt", 0, [0.7, 0.9]), row("gbt", 0, [0.9, 0.9], device="cpu1")]

    shown = comparison_table({"rows": rows}).splitlines()

    assert shown[0] == "**cpu0**, split `s`, 2 workloads"
    assert shown[4].startswith("| gbt rank | per_store@1 | 0.800 ± 0.100 |")
    assert "| 2 | 1,000 | 2 | 1 |" in shown[4]
    assert shown[5].startswith("| mlp rank |")
    assert "**cpu1**, split `s`, 2 workloads" in shown


def test_the_overview_shows_the_best_form_that_was_tried_everywhere() -> None:
    rows = [
        row("gbt", 0, [0.9, 0.9], variant="only here"),
        row("gbt", 0, [0.6, 0.6]),
        row("gbt", 0, [0.5, 0.5], objective="regression"),
        row("gbt", 0, [0.8, 0.8], device="cpu1"),
        row("gbt", 0, [0.5, 0.5], device="cpu1", objective="regression"),
    ]

    more = [row("gbt", 0, [0.7, 0.7], also="further")]
    shown = overview_table({"summary": summaries([*rows, *more])}).splitlines()

    assert shown[0] == "| device, split | gbt rank per_store@1 |"
    assert shown[2:] == [
        "| cpu0, s | 0.600 / 0.600 / 0.600 |",
        "| cpu1, s | 0.800 / 0.800 / 0.800 |",
        "| cpu0, s, with further | 0.700 / 0.700 / 0.700 |",
    ]


def test_the_headline_leaves_out_models_and_further_data() -> None:
    rows = [row("blend", 0, [0.5, 0.7]), row("gbt", 0, [0.9, 0.9]), row("blend", 0, [0.8, 0.8], also="more")]

    shown = model_headline_table({"summary": summaries(rows)})

    assert shown.splitlines()[2:] == ["| cpu0, s | 0.600 / 0.600 / 0.600 |"]


def test_totals_of_papers_are_shown_of_held_out_networks() -> None:
    totals = dict.fromkeys(LITERATURE, 0.25)
    rows = [{**row("gbt", seed, [0.5, 0.7], split="network-five"), **totals} for seed in (0, 1)]
    rows[1] |= {"top_1_tlp": 0.75}

    shown = literature_table({"summary": summaries([*rows, {**row("gbt", 0, [0.9, 0.9]), **totals}])})

    assert shown.splitlines()[2:] == ["| cpu0 | gbt rank per_store@1 | 0.250 | 0.250 | 0.500 | 0.250 |"]


def test_pairs_calibration_and_curves() -> None:
    pair = {
        "question": "rank - regression",
        "device": "cpu0",
        "split": "s",
        "metric": "top_1",
        "difference": 0.0123,
        "standard_error": 0.004,
        "workloads": 14,
    }
    more = {**pair, "metric": "pairwise", "difference": -0.1}
    ensemble = {
        "device": "cpu0",
        "member": "trees",
        "covered": {"0.5": 0.31},
        "rank_correlation": 0.2,
        "ratio": 2.0,
    }
    curve = {"device": "cpu0", "label": "gbt", "x": [8, 16, 24], "y": [0.5, 0.6, 0.7], "se": [0.0, 0.1, 0.2]}

    line = "| rank - regression | cpu0 | s | +0.012 ± 0.004 | -0.100 ± 0.004 | 14 |"
    assert line in paired_table({"pairs": [pair, more]})
    assert "within the 50% interval" in calibration_table({"rows": [ensemble]})
    assert "| 0.31 | 0.20 | 2.00 |" in calibration_table({"rows": [ensemble]})
    shown = curves_table({"x": "trials", "y": "best", "curves": [curve]})
    assert "| cpu0 | gbt | 8 / 16 / 24 | 0.500 ± 0.000 | 0.600 ± 0.100 | 0.700 ± 0.200 |" in shown


def test_learning_curves_have_a_line_for_each_size_and_their_slopes() -> None:
    def point(label: str, kind: str, size: str, programs: float, top_1: float) -> dict[str, Any]:
        about = {"device": "cpu0", "split": "s", "label": label, "kind": kind, "size": size, "tested": 40, "seeds": 3}
        figures = {"top_1": top_1, "top_1_se": 0.02, "pairwise": top_1 + 0.1, "pairwise_se": 0.01}
        return {**about, **figures, "programs": programs, "workloads": programs / 10}

    def slope(metric: str, part: str, points: float, error: float | None) -> dict[str, Any]:
        about = {"device": "cpu0", "split": "s", "label": "trees", "kind": "programs", "metric": metric, "part": part}
        return {**about, "points": points, "standard_error": error}

    rows = [("blend", "programs", "1/1", 1600.0, 0.8), ("trees", "programs", "1/1", 1600.0, 0.7)]
    rows += [("trees", "workloads", "1/2", 800.0, 0.65), ("trees", "programs", "1/4", 400.0, 0.6)]
    parts = [("before", 3.04, 1.0), ("last two doublings", 1.0, None), ("bend", -2.04, 1.0)]
    shown = learning_table(
        {
            "learned": [point(*each) for each in rows],
            "slopes": [slope(metric, *each) for metric in ("top_1", "pairwise") for each in parts],
        }
    )

    title, table, steep = shown.split("\n\n")
    assert title == "**cpu0**, split `s`, 40 workloads"
    assert table.splitlines()[2:] == [
        "| programs 1/4 | 400 | 40 | 3 | 0.600 ± 0.020 | 0.700 ± 0.010 | - | - |",
        "| programs 1/1 | 1,600 | 160 | 3 | 0.700 ± 0.020 | 0.800 ± 0.010 | 0.800 ± 0.020 | 0.900 ± 0.010 |",
        "| workloads 1/2 | 800 | 80 | 3 | 0.650 ± 0.020 | 0.750 ± 0.010 | - | - |",
    ]
    assert steep.splitlines()[0].startswith("| device | split | model | a doubling of the | top-1, before |")
    figures = "+3.0 ± 1.0 | +1.0 | -2.0 ± 1.0"
    assert steep.splitlines()[2:] == [f"| cpu0 | s | trees | programs | {figures} | {figures} |"]


def test_devices_that_were_left_out_have_a_line_per_method() -> None:
    figures = {name: value for m in ("top_1", "top_5", "pairwise") for name, value in ((m, 0.9), (f"{m}_std", 0.02))}
    rows = [{"device": device, "seed": seed} for device in "abc" for seed in (0, 1)]

    shown = unseen_device_table(
        {
            "summary": [{"test": "new workloads", "base": "gbt", "method": "told nothing", **figures}],
            "rows": rows,
        }
    )

    assert "| new workloads | gbt | none | 0.900 | 0.020 |" in shown
    assert "Means over 3 devices left out in turn and 2 seeds" in shown


DONE: dict[str, Any] = {"stage": "gbt", "programs": 951_360, "passes": 30, "seconds": 485.18, "peak_gib": 2}


def test_a_stage_shows_its_time_and_memory() -> None:
    lines = training_table({"rows": [DONE]}).splitlines()

    assert "| gbt | 951,360 | 30 | 485.2 |" in lines[-1]
    assert "| 2.00 |" in lines[-1]
    assert "ended by" not in lines[0]


def test_a_stage_that_ran_out_of_memory_says_so() -> None:
    lines = training_table({"rows": [DONE, {"stage": "mlp", "ended": "the limit of 8 GiB"}]}).splitlines()

    assert "the limit of 8 GiB" in lines[-1]


def test_a_row_without_a_required_key_is_refused_and_a_seed_without_a_fold_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    figures = dict.fromkeys(("top_1", "top_5", "pairwise", "spearman"), 0.5)
    about = {"dataset": "d", "device": "acme", "split": "fold-5", "model": "mine"}
    rows: list[dict[str, Any]] = [
        {**about, **figures, "seed": seed, "fold": fold, "workload_ids": [], "by_workload": {}}
        for seed, fold in ((0, 0), (0, 1), (1, 0))
    ]

    assert checked_rows(rows, Path("mine.jsonl")) == rows
    assert "lack folds: mine (seed 1, acme)." in capsys.readouterr().err
    del rows[1]["spearman"]
    with pytest.raises(click.ClickException, match=r"Line 2 of mine.jsonl lacks spearman"):
        checked_rows(rows, Path("mine.jsonl"))
