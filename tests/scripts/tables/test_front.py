"""The tables of the front page: the best of a row is bold, and recipes are compared on the same workloads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scripts.bench.common.machine import RESULTS
from scripts.tables.front import ENGINES, ENGINES_BF16, box, engines_front, network_front, ranking_front, recipe_on
from scripts.tables.search import LIGHT

ABOUT = {"machine": "m", "date": "2026-01-02T03:04:05", "versions": {"costhub": "1.0"}}


def searched(network: str, method: str, trials: int, tuned: float, **more: float) -> dict[str, Any]:
    latencies = {"tuned": tuned, "torch": 4.0, **more}
    return {
        "network": network,
        "method": method,
        "trials": trials,
        "error": None,
        "seconds": 90.0 if trials == 16 else 600.0,
        "latencies": {form: {"median_us": 1e3 * ms} for form, ms in latencies.items()},
    }


def test_the_best_of_a_network_is_bold_and_a_library_nobody_ran_has_no_column(tmp_path: Path) -> None:
    rows = [
        searched(network, method, trials, tuned, **{"torch.compile": 3.0})
        for network, fast in (("resnet-18", 2.0), ("mobilenet-v2", 5.0), ("bert-small", 2.5))
        for method, trials, tuned in ((LIGHT, 64, 6.0), ("costhub", 16, fast), ("costhub", 32, fast + 0.1))
    ]
    (tmp_path / "networks_tuned.json").write_text(json.dumps({**ABOUT, "rows": rows}))

    shown = network_front(tmp_path).splitlines()

    assert "OpenVINO" not in shown[0]
    assert shown[2] == "| ResNet-18 | 4.0 | 3.0 | 6.0 (10 min) | **2.0** (90 s) | 2.1 (10 min) |"
    assert shown[3] == "| MobileNet-V2 | 4.0 | **3.0** | 6.0 (10 min) | 5.0 (90 s) | 5.1 (10 min) |"
    assert shown[-1] == "<sub>`docs/results/networks_tuned.json`: m, 2026-01-02, costhub 1.0.</sub>"


def test_equal_figures_are_bold_alike(tmp_path: Path) -> None:
    rows = [
        searched(network, method, trials, tuned)
        for network in ("resnet-18", "mobilenet-v2", "bert-small")
        for method, trials, tuned in ((LIGHT, 64, 2.02), ("costhub", 16, 2.04), ("costhub", 32, 2.06))
    ]
    (tmp_path / "networks_tuned.json").write_text(json.dumps({**ABOUT, "rows": rows}))

    shown = network_front(tmp_path).splitlines()

    assert shown[2] == "| ResNet-18 | 4.0 | **2.0** (10 min) | **2.0** (90 s) | 2.1 (10 min) |"


def test_engines_are_lines_and_the_best_of_a_network_is_bold(tmp_path: Path) -> None:
    spent = {"reading_s": 5.0, "seconds": 80.0, "compile_s": 10.0}
    rows: list[dict[str, Any]] = [
        {"network": network, "engine": engine, "precision": precision, "latency": {"median_us": 1e3 * ms}, **more}
        for network, engine, precision, ms, more in (
            ("ResNet-18", "openvino-f32", "float32", 13.3, {}),
            ("ResNet-18", "openvino", "bfloat16", 1.0, {}),
            ("ResNet-18", "costhub", "float32", 13.22, spent),
            ("GPT-2, 1 token after 128", "openvino-f32", "float32", 1.01, {}),
            ("GPT-2, 1 token after 128", "costhub", "float32", 1.04, {**spent, "seconds": 120.0}),
        )
    ]
    rows.append({"network": "ResNet-18", "engine": "torch", "precision": "float32", "latency": None})
    (tmp_path / f"{ENGINES}.json").write_text(json.dumps({**ABOUT, "rows": rows}))
    both = [
        {"network": "ResNet-18", "engine": engine, "precision": precision, "latency": {"median_us": 1e3 * ms}, **more}
        for engine, precision, ms, more in (
            ("torch", "float32", 0.1, {}),
            ("openvino", "bfloat16", 2.4, {}),
            ("costhub-bf16", "bfloat16", 2.6, spent),
        )
    ]
    (tmp_path / f"{ENGINES_BF16}.json").write_text(json.dumps({**ABOUT, "rows": both}))

    title, _, *lines = engines_front(tmp_path).splitlines()

    assert title == "| ms, 2 threads | ResNet-18 | GPT-2, 1 token |"
    assert lines[:2] == ["| OpenVINO | 13.3 | **1.0** |", "| costhub | **13.2** (95 s) | **1.0** (2 min) |"]
    assert lines[2:4] == ["| OpenVINO, bfloat16 | **2.4** | - |", "| costhub, bfloat16 | 2.6 (95 s) | - |"]
    assert lines[4] == ""
    assert f"{ENGINES_BF16}.json" in lines[5]


def test_the_front_page_bolds_every_figure_that_is_printed_as_the_best_of_its_row() -> None:
    lines = ranking_front(RESULTS).splitlines()[2:]
    rows = [line for line in lines if line.startswith("| ")]

    assert rows
    for row in rows:
        pairs = [cell.split(" / ") for cell in row.strip("| ").split(" | ")[2:5]]
        for column in zip(*pairs, strict=True):
            best = max(text.strip("*") for text in column)
            assert [text.startswith("**") for text in column] == [text.strip("*") == best for text in column]


def test_the_ranking_names_the_files_of_the_models_and_of_the_recipes() -> None:
    last = ranking_front(RESULTS).splitlines()[-1]

    assert last.startswith("<sub>`docs/results/release.json`: ")
    assert last.endswith(" The two recipes: `docs/results/models.jsonl`.</sub>")


def test_a_recipe_is_judged_on_the_held_out_workloads_alone() -> None:
    ids = [f"{name * 12}" for name in "abc"]
    row = {
        "split": "fold-5",
        "workload_ids": ids,
        "by_workload": {"top_1": [0.5, 0.7, 0.0], "pairwise": [0.6, 0.8, 0.0]},
    }
    other_split = {**row, "split": "network-x", "by_workload": {"top_1": [0.0] * 3, "pairwise": [0.0] * 3}}

    found = recipe_on({ids[0] + "rest", ids[1] + "rest"}, [row, other_split])

    assert found == (pytest.approx(0.6), pytest.approx(0.7))
    with pytest.raises(ValueError, match="1 of 2 workloads"):
        recipe_on({ids[0], "d" * 12}, [row])


def test_the_box_names_where_imported_data_are_from() -> None:
    lines = {line.split("`")[1]: line for line in box(RESULTS).splitlines()[2:]}

    assert "[lac-dcc/bennu](https://github.com/lac-dcc/bennu)" in lines["nvidia-a100"]
    assert "[microsoft/nnfusion](https://github.com/microsoft/nnfusion)'s logs" in lines["nvidia-v100"]
    assert "*Roller*" in lines["nvidia-v100"]
    assert "authors are not recorded" in lines["nvidia-h200"]
