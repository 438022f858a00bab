"""The benchmark of hidden latencies: submissions written by hand, scored where TVM cannot be imported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from costhub.dataset.hidden.submission import Submission
from scripts.bench.models.hidden import WITHOUT_TVM, scored, write_by_hand
from scripts.tables.benchmark import hidden_table

KNOWN = {"model": "by hand", "trained_on": "nothing"}
ROWS = [("w0", "a", 1), ("w0", "b", 2), ("w1", "c", 1), ("w1", "d", 4)]
"""Workload, program and latency in ms."""


@pytest.fixture
def task(tmp_path: Path) -> Path:
    folder = tmp_path / "task"
    folder.mkdir()
    lines = [{"device_id": "acme", "workload_id": workload, "program_id": program} for workload, program, _ in ROWS]
    (folder / "programs.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    kept = [f"acme,{workload},{program},{milliseconds}e-3" for workload, program, milliseconds in ROWS]
    (tmp_path / "kept.csv").write_text("\n".join(["device_id,workload_id,program_id,latency_s", *kept]) + "\n")
    return folder


def by_hand(task: Path, name: str, wrong: str = "") -> Path:
    """A submission that ranks programs by their names, the first of which are fast, except for those named."""
    out = task.parent / name
    write_by_hand(
        task, out, {**KNOWN, "model": name}, lambda row: 9.0 if row["program_id"] in wrong else -ord(row["program_id"])
    )
    return out


def test_what_is_written_by_hand_is_a_submission(task: Path) -> None:
    found = Submission.open(by_hand(task, "mine"))

    assert found.about == {"model": "mine", "trained_on": "nothing"}
    assert found.scores == {("acme", program): -ord(program) for _, program, _ in ROWS}


def test_submissions_are_scored_without_tvm(task: Path) -> None:
    submitted = [by_hand(task, "wrong", wrong="d"), by_hand(task, "right")]

    rows = scored(submitted, task.parent / "kept.csv")

    assert [(row["model"], row["top_1"], row["pairwise"]) for row in rows] == [
        ("right", 1.0, 1.0),
        ("wrong", 0.625, 0.5),
    ]


def test_what_cannot_be_scored_is_a_sentence(task: Path) -> None:
    with pytest.raises(click.ClickException, match=r"could not be scored: .*about\.json"):
        scored([task], task.parent / "kept.csv")


@pytest.mark.parametrize("name", ["tvm", "tvm.tir", "tvm_ffi"])
def test_tvm_is_out_of_reach_there(name: str) -> None:
    blocked, found, _ = WITHOUT_TVM.partition("try:")
    assert found
    done = subprocess.run(
        [sys.executable, "-c", f"{blocked}\nimport {name}"], check=False, capture_output=True, text=True
    )

    assert f"ImportError: {name.partition('.')[0]} is blocked" in done.stderr


def test_a_table_names_one_device_and_counts_many() -> None:
    def row(model: str, trained_on: str, top_1: list[float], *, level: bool) -> dict[str, Any]:
        figures = {"top_1": top_1, "pairwise": [0.5, 0.5], "top_5": [1.0, 1.0]}
        return {"model": model, "trained_on": trained_on, "by_workload": figures, "level": level, "seconds": 1.25}

    rows = [row("one", "a", [1.0, 0.5], level=True), row("two", "a, b, c", [0.25, 0.75], level=False)]
    _, _, *lines = hidden_table({"rows": rows}).splitlines()

    assert lines == [
        "| one | a | 0.750 ± 0.250 | 0.500 ± 0.000 | 1.000 ± 0.000 | yes | 1.2 |",
        "| two | 3 devices | 0.500 ± 0.250 | 0.500 ± 0.000 | 1.000 ± 0.000 | no | 1.2 |",
    ]
