"""Tests of the tables of transfers between GPUs and to a new chip."""

from __future__ import annotations

from typing import Any

import pytest

from scripts.tables.gpus import (
    TrialCosts,
    device_vector_table,
    gpu_mixtures_table,
    gpu_transfer_table,
    moses_summaries,
    moses_table,
    new_chip_table,
)

FIGURES = {"top_1": 0.9, "top_5": 0.95, "pairwise": 0.8}


def line(source: str, target: str, method: str, trials: int, **others: Any) -> dict[str, Any]:
    return {**FIGURES, "source": source, "target": target, "method": method, "trials": trials, "seeds": 2, **others}


def test_the_own_model_of_a_gpu_is_on_the_diagonal_and_gaps_are_dashes() -> None:
    lines = [
        line("k80", "v100", "frozen", 0, pairwise=0.7),
        line("", "v100", "all of the target", 0),
        line("", "v100", "random", 0, pairwise=0.5),
        line("k80", "v100", "corrected", 32, pairwise=0.71),
        line("k80", "v100", "corrected", 128, pairwise=0.72),
        line("", "v100", "scratch blend", 32, pairwise=0.6),
        line("v100", "k80", "frozen", 0, pairwise=0.65),
    ]

    shown = gpu_transfer_table({"summary": lines})

    assert "| v100 | *0.900 / 0.950 / 0.800* | 0.900 / 0.950 / 0.650 |" in shown
    assert "| random order | 0.900 / 0.950 / 0.500 | - |" in shown
    assert "| k80 to v100 | 0.700 | 0.710 / 0.720 | 0.600 |" in shown
    assert "means over 2 seeds" in shown


def test_a_tenth_of_the_trials_is_set_beside_all_of_them() -> None:
    lines = [
        line("k80", "v100", "frozen", 0, pairwise=0.7),
        line("k80", "v100", "corrected", 256, pairwise=0.72, pairwise_se=0.004),
        line("k80", "h200", "frozen", 0, pairwise=0.7),
        line("k80", "h200", "corrected", 256, pairwise=0.72, pairwise_se=None),
        line("a100", "v100", "frozen", 0, pairwise=0.66),
        line("a100", "v100", "corrected", 256, pairwise=0.68, pairwise_se=0.002),
        line("", "v100", "scratch blend", 2560, pairwise=0.7, pairwise_se=0.001),
        line("k80", "v100", "corrected", 32, pairwise=0.71),
        line("", "v100", "scratch blend", 256, pairwise=0.65, pairwise_se=0.002),
    ]

    shown = gpu_transfer_table({"summary": lines})

    assert "| k80 to v100 | 0.700 | 0.720 ± 0.004 | 0.650 ± 0.002 | 0.700 ± 0.001 | yes |" in shown
    assert "| k80 to h200 | 0.700 | 0.720 ± 0.000 | - | - | - |" in shown
    assert "| a100 to v100 | 0.660 | 0.680 ± 0.002 | 0.650 ± 0.002 | 0.700 ± 0.001 | no |" in shown
    assert "| k80 to v100 | 0.700 | 0.710 |" in shown  # the other table has neither 256 nor 2,560


def test_each_method_shows_the_trials_that_it_has() -> None:
    lines = [
        line("k80", "v100", "frozen", 0, pairwise=0.7),
        line("k80", "v100", "corrected", 32, pairwise=0.71),
        line("k80", "v100", "guarded", 32, pairwise=0.72),
        line("k80", "v100", "guarded", 64, pairwise=0.73),
    ]

    shown = gpu_transfer_table({"summary": lines})

    assert "corrected, 32 trials | guarded, 32 / 64 trials" in shown
    assert "| k80 to v100 | 0.700 | 0.710 | 0.720 / 0.730 |" in shown


def test_a_layout_is_set_beside_device_1_and_numbers_that_are_not_known_are_dashes() -> None:
    before = {f"{name}_gain{end}": 0.0 for name in FIGURES for end in ("", "_se")}
    gains = {**before, "pairwise_gain": -0.0125, "pairwise_gain_se": 0.002, "top_1_gain_se": None}
    about = {**FIGURES, "target": "k80", "seeds": 3}
    numbers = [{"device": "k80", "thread_warp_size": 32}, {"device": "other", "thread_warp_size": None}]

    shown = device_vector_table(
        {
            "each": 32,
            "numbers": numbers,
            "summary": [{**about, **before, "layout": "device@1"}, {**about, **gains, "layout": "device@2"}],
        }
    )

    assert "| k80 | 32 |" in shown
    assert "| other | - |" in shown
    assert "| k80 | device@1 | 3 | 0.900 / 0.950 / 0.800 |  |  |  |" in shown
    assert "| k80 | device@2 | 3 | 0.900 / 0.950 / 0.800 | +0.000 ± 0.000 | +0.000 ± 0.000 | -0.013 ± 0.002 |" in shown
    assert "up to 32 of each workload" in shown


def test_mixtures_show_an_error_only_where_there_are_several_seeds() -> None:
    errors = {"top_1_se": 0.01, "top_5_se": None, "pairwise_se": 0.002}

    shown = gpu_mixtures_table(
        {"summary": [{"form": "and the A100", "programs": 6400, "seeds": 3, **FIGURES, **errors}]}
    )

    assert "| and the A100 | 6,400 | 0.900 ± 0.010 | 0.950 | 0.800 ± 0.002 |" in shown


def test_a_new_chip_has_a_table_for_each_device_with_means_over_seeds() -> None:
    rows = [
        {
            **FIGURES,
            "device": device,
            "method": "corrected",
            "trials": 64,
            "seed": seed,
            "pairwise": share,
            "workloads": 40,
        }
        for device in ("zen4-1c", "zen4-2c")
        for seed, share in enumerate((0.8, 0.9))
    ]
    rows.append({**rows[0], "method": "unchanged", "trials": 0, "seed": ""})

    shown = new_chip_table({"rows": rows})

    assert shown.count("| corrected | ") == 2
    assert "| corrected | - | 0.900 / 0.950 / 0.850 |" in shown
    assert "| unchanged | 0.900 / 0.950 / 0.800 | - |" in shown


COSTS = TrialCosts({"v100": 3.0}, assumed_s=0.5, otherwise="v100")


def searched(target: str, method: str, learning_s: float) -> dict[str, Any]:
    """A search of four batches with eight programs each, with predictions that vary."""
    batches = [[1e-3 + 1e-4 * (batch + place) for place in range(8)] for batch in range(4)]
    about = {"source": "k80", "target": target, "seed": 0, "workload": "w", "method": method, "pool_best_s": 1e-3}
    scores = [[float(place % 3) for place in range(8)]] * 4
    return {**about, "latency_s": batches, "scores": scores, "learning_s": [learning_s] * 4}


def by_method(pair: dict[str, Any], name: str) -> dict[str, Any]:
    (line,) = [row for row in pair["rows"] if row["method"] == name]
    return dict(line)


def test_learning_weighs_less_where_a_trial_takes_longer() -> None:
    rows = [searched(target, *method) for target in ("v100", "a100") for method in (("fine-tune", 0), ("ticket", 4))]

    measured, assumed = moses_summaries(rows, COSTS)["pairs"]

    # 32 trials, and 16 seconds of learning that fine-tuning does not need.
    assert by_method(measured, "ticket")["cmat"] == pytest.approx(100 * (96 / (96 + 16) - 1))
    assert by_method(assumed, "ticket")["cmat"] == pytest.approx(100 * (16 / (16 + 16) - 1))
    assert by_method(assumed, "ticket")["otherwise_cmat"] == pytest.approx(100 * (96 / (96 + 16) - 1))
    assert "otherwise_cmat" not in by_method(measured, "ticket")


def test_a_pair_says_whether_the_seconds_of_a_trial_are_measured_or_assumed() -> None:
    rows = [searched(target, *method) for target in ("v100", "a100") for method in (("fine-tune", 0), ("ticket", 4))]
    where = {"machine": "Xeon", "device": "xeon-2c", "date": "2026-01-02T03:04:05"}

    shown = moses_table(moses_summaries(rows, COSTS))
    measured, assumed = shown.split("**k80 to a100**")

    assert "**k80 to v100**, 3.00 s a trial (the median of its log)" in measured
    assert "CMAT (%) at" not in measured
    assert ", 0.50 s a trial (assumed)" in assumed
    assert "CMAT (%) at the v100's 3.00 s a trial | se |" in assumed
    assert "Xeon" not in shown
    assert "learning: Xeon (xeon-2c), 2026-01-02." in moses_table({**moses_summaries(rows, COSTS), "searched": where})


def test_the_cost_of_a_trial_is_the_median_over_all_operators() -> None:
    rows = [
        {"device": "v100", "operator": name, "median_s": seconds} for name, seconds in (("conv", 9.0), ("all", 3.0))
    ]

    assert TrialCosts.of({"rows": rows}, 0.5, "v100") == COSTS
