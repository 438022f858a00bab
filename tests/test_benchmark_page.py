"""The script of docs/benchmark.md, run as it stands there."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from costhub.models.evaluate import Evaluation, WorkloadScore
from scripts.tables.models.comparison import summaries

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/benchmark.md").read_text(encoding="utf-8")
SCRIPT, COMPARISON, FOLDS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
COSTHUB = Path(sys.executable).with_name("costhub")
[COMMAND] = re.findall(r"^    costhub (train .*)$", PAGE, re.MULTILINE)


@pytest.mark.slow  # the features of a whole device
def test_the_script_prints_the_figures_of_its_task_and_writes_a_line_of_them(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COSTHUB_CACHE": str(tmp_path)}
    (tmp_path / "docs").symlink_to(ROOT / "docs")

    def run(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    said = run("-c", f"{SCRIPT}\n{COMPARISON}")

    assert "40 workloads on amd-epyc-zen5-2c" in said
    figures = dict(re.findall(r"^(\w+) +(0\.\d+) ±0\.\d+$", said, re.MULTILINE))
    assert list(figures)[:3] == ["top_1", "top_5", "pairwise"]
    assert float(figures["top_1"]) > 0.6  # random order has 0.35
    lines = [json.loads(line) for line in (tmp_path / "mine.jsonl").read_text(encoding="utf-8").splitlines()]
    (summary,) = summaries(lines)
    assert (summary["model"], summary["split"], summary["workloads"]) == ("my model", "workload-40-seed0", 40)
    assert (summary["seeds"], summary["spec"]) == (3, "tiles@1")
    assert f"{lines[0]['top_1']:.3f}" == figures["top_1"]
    # The command says the same of the same model, and the table begins with a mean over seeds near it.
    [mean] = re.findall(r"^mean of 40 .*$", run(str(COSTHUB), *shlex.split(COMMAND)), re.MULTILINE)
    assert mean.split()[-4:-1] == [figures[name] for name in ("top_1", "top_5", "pairwise")]
    table = re.findall(r"^\| (\w+) \| (0\.\d+) \| (0\.\d+) \| ([+-]0\.\d+) ± 0\.\d+ \|$", said, re.MULTILINE)
    assert [row[0] for row in table] == ["top_1", "top_5", "pairwise"]
    for _, mine, base, difference in table:
        assert abs(float(mine) - float(base) - float(difference)) < 0.0015
    assert float(table[2][3]) > 0.05  # of the pairs, on these features


@pytest.mark.slow
def test_the_folds_of_the_gpu_task_are_compared_with_the_same_recipe(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COSTHUB_CACHE": str(tmp_path)}
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    # What the folds take from the scripts before them, without the figures of the CPU task.
    names = ("model", "lines", "line")
    kept = [
        node
        for node in ast.parse(f"{SCRIPT}\n{COMPARISON}").body
        if isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef)
        or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in names)
    ]
    code = f"{ast.unparse(ast.Module(kept, []))}\n{FOLDS}"
    # Features without TVM and small trees: a second each in place of minutes.
    for now, quick in (
        ("workloads=set(side))", 'workloads=set(side), spec="trace_decisions@1")'),
        ("feature_spec='tiles@1'", "feature_spec='trace_decisions@1'"),
        ("objective='log'", "objective='log', rounds=20"),
    ):
        assert code.count(now) == 1
        code = code.replace(now, quick)

    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "mine.jsonl").read_text(encoding="utf-8").splitlines()]
    (summary,) = summaries(lines)
    assert (summary["split"], summary["workloads"], summary["seeds"]) == ("fold-5", 47, 3)
    table = re.findall(r"^\| (\w+) \| (0\.\d+) \| (0\.\d+) \| ([+-]0\.\d+) ± 0\.\d+ \|$", done.stdout, re.MULTILINE)
    assert [row[0] for row in table] == ["top_1", "top_5", "pairwise"]
    for (_, mine, base, difference), published in zip(table, published_figures("GPU", "TVM's recipe"), strict=True):
        assert abs(float(mine) - float(base) - float(difference)) < 0.0015
        assert abs(float(base) - published) < 0.001
    assert float(table[2][1]) > 0.55, "these features tell a pair's order more often than chance"


def test_the_script_writes_lines_that_the_tables_read() -> None:
    lines = [json.loads(line) for line in (ROOT / "docs/results/models.jsonl").read_text().splitlines()]
    ours = next(line for line in lines if line["device"] == "nvidia-h200")
    evaluation = Evaluation(
        (WorkloadScore("0123456789abcdef", "nvidia-h200", 9, 0.91234, 1, 0.8, 0.7, 1, 1, 1),), 0.02, ()
    )
    about = {"dataset": "nvidia-h200", "device": "nvidia-h200", "split": "fold-5", "fold": 0, "seed": 0}

    row = evaluation.row({**about, "model": "my model", "spec": "tiles@1"})

    assert row.keys() <= ours.keys()
    assert row["workload_ids"] == ["0123456789ab"]
    assert row["by_workload"]["top_1"] == [0.9123]
    [summary] = summaries([row])
    assert (summary["model"], summary["seeds"], summary["workloads"]) == ("my model", 1, 1)
    assert set(about) <= set(re.findall(r"`(\w+)`", PAGE.partition("## Submit a result")[2]))


def lines_of(device: str, split: str, **line: str) -> list[dict[str, Any]]:
    """What the comparison calls `base`."""
    rows = [json.loads(text) for text in (ROOT / "docs/results/models.jsonl").read_text().splitlines()]
    chosen = {"device": device, "split": split, **line}
    return [row for row in rows if chosen.items() <= row.items()]


def test_each_row_of_the_table_is_chosen_by_the_keys_beside_it() -> None:
    *_, keys = re.findall(r"^\| row \| (.*) \|$", PAGE, re.MULTILINE)
    names = re.findall(r"`(\w+)`", keys)
    _, _, table = PAGE.partition(f"| row | {keys} |")
    choices = [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.split("\n\n")[0].splitlines()[2:]]
    [published] = re.findall(r"^\*\*CPU\*\*.*?(?=^\*\*Networks)", PAGE, re.MULTILINE | re.DOTALL)
    assert len(choices) == 7
    for label, *cells in choices:
        line = dict(zip(names, (cell.strip("`") for cell in cells), strict=True))

        base = lines_of("amd-epyc-zen5-2c", "workload-40-seed0", **line, also="")

        assert sorted(row["seed"] for row in base) == [0, 1, 2], label
        (summary,) = summaries(base)
        [row] = [row for row in published.splitlines() if row.startswith(f"| {label} | ")]
        assert row.split(" | ")[2].strip("*").startswith(f"{summary['top_1']:.3f}"), label


def test_the_page_says_how_many_programs_each_task_tests() -> None:
    [told] = re.findall(r"^Programs that are tested: (.*)$", PAGE, re.MULTILINE)
    tasks = re.findall(r"^\| (\w[\w ]+) \| `([\w-]+)` \| `([\w-]+)`", PAGE.partition("## The tasks")[2], re.MULTILINE)
    assert [task for task, *_ in tasks] == ["CPU", "Networks", "Second CPU", "GPU"]
    for task, device, split in tasks:
        name = "fold-5" if split.startswith("fold-5") else split
        rows = [
            row
            for row in lines_of(device, name, model="gbt", objective="log", spec="tiles@1", also="")
            if row["seed"] == 0
        ]
        assert f"{task} {sum(row['test_programs'] for row in rows):,}" in told
        assert len(rows) == (5 if name == "fold-5" else 1)


def published_figures(task: str, model: str) -> list[float]:
    """Top-1, top-5 and pairs in the right order of a row of the table of a task."""
    [row] = re.findall(rf"^\*\*{task}\*\*.*?^\| {model} (.*?)$", PAGE, re.MULTILINE | re.DOTALL)
    return [float(figure) for figure in re.findall(r"(0\.\d+)\*{0,2} ±", row)]


def baseline() -> dict[str, str]:
    """What the comparison calls `line`."""
    [line] = re.findall(r"^line = (\{.*\})$", COMPARISON, re.MULTILINE)
    found: dict[str, str] = ast.literal_eval(line)
    return found


def test_the_baseline_of_the_script_is_one_model() -> None:
    assert len(lines_of("amd-epyc-zen5-2c", "workload-40-seed0", **baseline())) == 3


def test_the_comparison_takes_the_means_over_all_folds_and_seeds() -> None:
    found: dict[str, Any] = {}
    functions = [node for node in ast.parse(COMPARISON).body if isinstance(node, ast.Import | ast.FunctionDef)]
    exec(compile(ast.Module(functions, []), "docs/benchmark.md", "exec"), found)  # noqa: S102 - of our own page
    base = lines_of("nvidia-h200", "fold-5", **baseline())

    assert {(row["seed"], row["fold"]) for row in base} == {(seed, fold) for seed in range(3) for fold in range(5)}
    assert len(base) == 15
    published = published_figures("GPU", "TVM's recipe")
    for metric, figure in zip(("top_1", "top_5", "pairwise"), published, strict=True):
        means = found["by_workload"](base, metric)
        assert means.shape == (47,)
        assert abs(float(means.mean()) - figure) < 0.001, metric


def test_the_script_is_short() -> None:
    assert len([line for line in SCRIPT.splitlines() if line.strip()]) <= 14
