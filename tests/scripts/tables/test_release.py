"""Tables of a release show the figures of their files."""

from __future__ import annotations

from typing import Any

from scripts.tables.release import (
    choices_table,
    licences_table,
    mutations_table,
    package_table,
    release_headline,
    release_table,
    reproduced_table,
    shipped_table,
)


def test_models_are_shown_with_their_figures_and_the_size_of_all() -> None:
    figures = {"workloads": 4, "top_1": 0.5, "top_5": 0.75, "pairwise": 0.625, "equal": "no"}
    of_many = {"arch": "gbt", "model": "x/many-gbt", **figures, "bytes": 1_500_000}
    of_one = {"device": "a", "arch": "mlp", "model": "x/a-mlp", **figures, "bytes": 500_000}

    shown = release_table({"rows": [{"device": "a", **of_many}, {"device": "b", **of_many}, of_one]})

    assert "| a | gbt | 4 | 0.500 | 0.750 | 0.625 | no | 1.5 |" in shown
    assert shown.endswith("2 models for 2 devices, 2.0 MB in all.")


def test_the_headline_has_one_model_per_device_and_names_the_others() -> None:
    figures = {"workloads": 4, "top_1": 0.5, "top_5": 0.75, "pairwise": 0.625, "bytes": 500_000}
    good = {"arch": "gbt", "model": "x/many-gbt", "default": True, **figures}
    other = {"device": "a", "arch": "mlp", "model": "x/a-mlp", "default": False, **figures}

    shown = release_headline({"rows": [{"device": "a", **good}, {"device": "b", **good}, other]})

    assert "| a | gbt | 4 | 0.500 | 0.750 | 0.625 | mlp |" in shown
    assert "| b | gbt | 4 | 0.500 | 0.750 | 0.625 | - |" in shown
    assert "| a | mlp |" not in shown
    assert shown.endswith("2 models for 2 devices, 1.0 MB in all.")


def test_a_package_that_failed_says_where() -> None:
    row = {"python": "3.12.1", "package": "whl", "install_s": 61.4, "bytes": 2_000_000_000, "devices_s": 1.0}

    shown = package_table({"rows": [{**row, "failed": "pull: no"}], "sizes": {"x.whl": 1_000_000}})

    assert "| 3.12.1 | whl | 61 | 2.00 | 1.0 | - | - | - | pull: no |" in shown
    assert shown.endswith("x.whl 1.0 MB.")


def test_licences_are_listed() -> None:
    shown = licences_table({"licences": [{"name": "n", "version": "1", "licence": "MIT"}]})

    assert shown.endswith("| n | 1 | MIT |")


def test_what_is_outside_the_spread_is_counted() -> None:
    row = {"device": "a", "model": "gbt", "metric": "top_1", "here": 0.5, "mean": 0.6, "within": 0.05}

    shown = reproduced_table({"rows": [{**row, "verdict": "ok"}, {**row, "verdict": "outside"}]})

    assert "| a | gbt | top_1 | 0.500 | 0.600 | 0.050 | outside |" in shown
    assert shown.endswith("1 of 2 figures are within the table's spread, 1 outside.")


def test_a_wrong_implementation_is_shown_with_the_test_that_noticed_it_or_without() -> None:
    row = {"algorithm": "a", "wrong": "no clip"}
    noticed = {**row, "outcome": "noticed", "test": "papers/test_x.py::test_y[1/2]"}

    shown = mutations_table({"rows": [noticed, {**row, "outcome": "unnoticed", "test": None}]})

    assert "| a | no clip | `test_y[1/2]` |" in shown
    assert "| a | no clip | **unnoticed** |" in shown
    assert shown.endswith("1 of 2 are noticed; without any of them, all tests pass.")


def test_a_recipe_has_its_cost_and_a_line_per_split_and_device_with_their_mean_last() -> None:
    def line(variant: str, split: str, value: float, std: float | None, **more: Any) -> dict[str, Any]:
        figures = {name: v for m in ("top_1", "top_5", "pairwise") for name, v in ((m, value), (f"{m}_std", std))}
        return {"model": "any-cpu-conditioned", "variant": variant, "split": split, **figures, **more}

    cost = {"train_programs": 85_380, "train_workloads": 660, "seeds": 3, "threads": 2, "train_s": 600.4}
    cost |= {"train_s_highest": 700.0, "bytes": 4_732_175, "predictions_per_s": 7253.0, "with_features_per_s": 250.0}
    shipped, more = "as shipped", "more trees"
    plain, blocked = "workload-40-seed0", "blocked-40-seed0"
    summary = [
        line(shipped, plain, 0.8, 0.01, device="a", workloads=40),
        line(shipped, blocked, 0.92, 0.005, device="b", workloads=38),
        line(shipped, plain, 0.9, 0.02, device="b", workloads=40),
        line(more, plain, 0.7, None, device="a", workloads=40),
    ]
    over_devices = [
        line(shipped, plain, 0.85, 0.002, devices=2),
        line(shipped, blocked, 0.92, 0.005, devices=1),
        line(more, plain, 0.7, None, devices=1),
    ]
    costs = [{"model": "any-cpu-conditioned", "variant": variant, **cost} for variant in (shipped, more)]
    shown = shipped_table({"summary": summary, "over_devices": over_devices, "training_summary": costs})

    first, title, own, other_title, others, _ = shown.split("\n\n")
    assert "| any-cpu-conditioned | as shipped | 85,380 | 660 | 3 | 2 | 600 | 700 | 4.7 | 7,253 | 250 |" in first
    assert (title, other_title) == ("**any-cpu-conditioned**, as shipped", "**any-cpu-conditioned**, more trees")
    assert own.splitlines()[2:] == [
        "| plain layouts | a | 40 | 0.800 ± 0.010 | 0.800 ± 0.010 | 0.800 ± 0.010 |",
        "| plain layouts | b | 40 | 0.900 ± 0.020 | 0.900 ± 0.020 | 0.900 ± 0.020 |",
        "| plain layouts | mean of 2 devices | - | 0.850 ± 0.002 | 0.850 ± 0.002 | 0.850 ± 0.002 |",
        "| blocked layouts | b | 38 | 0.920 ± 0.005 | 0.920 ± 0.005 | 0.920 ± 0.005 |",
    ]
    assert others.splitlines()[2:] == ["| plain layouts | a | 40 | 0.700 | 0.700 | 0.700 |"]


def test_a_split_that_is_not_of_layouts_has_its_own_name() -> None:
    figures = {name: 0.5 for m in ("top_1", "top_5", "pairwise") for name in (m, f"{m}_std")}
    about = {"model": "m", "variant": "v", "split": "workload-12-seed0", **figures}
    result = {"summary": [{**about, "device": "a", "workloads": 12}], "over_devices": [{**about, "devices": 1}]}

    assert "| `workload-12-seed0` | a | 12 |" in shipped_table({**result, "training_summary": []})


def test_a_choice_shows_what_validation_prefers_and_how_both_settings_do_on_tested_workloads() -> None:
    place = {"device": "a", "split": "validation-40", "tested": "workload-40-seed0"}
    about = {**place, "workloads": 90, "seeds": 3, "choice": "bins", "model": "mlp", "shipped": "8", "lead_se": 0.004}
    on_tested = {"tested_chosen": 0.8, "tested_shipped": 0.81, "flattery_se": 0.005, "paired": True}
    lines = [
        {**about, "metric": "pairwise", "validation": {"8": 0.7, "16": 0.72}, "chosen": "16", "lead": 0.02},
        {**about, "metric": "top_1", "validation": {"8": 0.6, "16": 0.5}, "chosen": "8", "lead": 0.0},
        {**about, "metric": "pairwise", "validation": {"8": 0.7, "16": 0.72}, "chosen": "16", "lead": 0.02},
    ]
    flattery = (0.01, 0.0, -0.01)
    choices = [{**line, **on_tested, "flattery": value} for line, value in zip(lines, flattery, strict=True)]
    choices[2]["paired"] = False
    unknown = dict.fromkeys(("tested_chosen", "tested_shipped", "flattery", "flattery_se"))
    choices.append({**choices[2], **unknown})
    total = {**place, "model": "mlp", "metric": "pairwise", "choices": 4, "changed": 2, "flattery": 0.0}
    together = [{**total, "flattery_se": 0.005}, {**total, "metric": "top_1", "flattery_se": None}]

    title, table, sums, _ = choices_table({"choices": choices, "together": together}).split("\n\n")

    assert title == "**a**: 90 validation workloads (`validation-40`), 3 seeds; tested on those of `workload-40-seed0`"
    assert table.splitlines()[2:] == [
        "| bins | pairs | 8: 0.700, **16**: 0.720 | +0.020 ± 0.004 | 8 | 0.800 | 0.810 | +0.010 ± 0.005 |",
        "| bins | top-1 | **8**: 0.600, 16: 0.500 | - | 8 | 0.800 | 0.810 | - |",
        "| bins | pairs | 8: 0.700, **16**: 0.720 | +0.020 ± 0.004 | 8 | 0.800 | 0.810 | -0.010 ± 0.005 (unpaired) |",
        "| bins | pairs | 8: 0.700, **16**: 0.720 | +0.020 ± 0.004 | 8 | - | - | - |",
    ]
    assert sums.splitlines()[2:] == ["| mlp | pairs | 4 | 2 | +0.000 ± 0.005 |", "| mlp | top-1 | 4 | 2 | +0.000 |"]
