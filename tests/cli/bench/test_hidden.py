"""`costhub bench hide`, `submit` and `score`: from measurements to a table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

KNOWN = ("--about", "trained_on=nothing")
MODEL = """
import numpy as np

class Mine:
    feature_spec = "trace_tokens@1"

    def predict(self, rows, counts):
        return np.arange(float(len(counts)))
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MODEL)
    return tmp_path


def test_from_measurements_to_a_table(place: Path, costhub: Any) -> None:
    made = costhub("bench", "hide", "nvidia-h200", "--split", "fold-5-seed0-1", "--out", "t", "--latencies", "l.csv")
    assert made.code == 0
    assert made.out.startswith("t: 537 programs of 10 workloads on nvidia-h200")
    assert "Keep l.csv" in made.err

    sent = costhub("bench", "submit", "t", "--model", "mine.py:Mine", "--out", "mine", *KNOWN)
    assert (sent.code, sent.out) == (0, "Mine: 537 programs scored, in mine\n")
    assert json.loads(Path("mine/about.json").read_text())["trained_on"] == "nothing"

    silent = costhub("bench", "submit", "t", "--model", "mine.py:Mine", "--out", "silent")
    assert silent.code == 2
    assert "Nothing says what Mine has learned from" in silent.err
    assert not Path("silent").exists()

    again = costhub("bench", "submit", "t", "--model", "mine.py:Mine", "--out", "again", "--json", *KNOWN)
    assert json.loads(again.out) == {"version": 1, "task": "t", "model": "Mine", "spec": "trace_tokens@1"} | {
        "trained_on": "nothing",
        "programs": 537,
        "out": "again",
    }
    options = ("--split", "fold-5-seed0-1", "--out", "u", "--latencies", "m.csv", "--json")
    facts = json.loads(costhub("bench", "hide", "nvidia-h200", *options).out)
    assert (facts["programs"], facts["workloads"], facts["devices"]) == (537, 10, ["nvidia-h200"])

    table = costhub("bench", "score", "mine", "--latencies", "l.csv")
    assert table.code == 0
    assert table.out.splitlines()[0].split()[:2] == ["model", "top_1"]
    assert table.out.splitlines()[1].startswith("Mine ")
    row = json.loads(costhub("bench", "score", "mine", "--latencies", "l.csv", "--json").out)
    assert f"{row['top_1']:.3f}" in table.out
    assert row["level"] is True


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("submit", "t", "--model", "mine.py:Mine", "--out", "x"), "t has no task.json"),
        (("submit", "t", "--model", "mine.py:Mine", "--out", "x", "--about", "hello"), "is not KEY=VALUE"),
        (("score", "nothing", "--latencies", "l.csv"), "l.csv cannot be read"),
        (("hide", "no-such-data", "--out", "t", "--latencies", "l.csv"), "no-such-data"),
    ],
)
def test_a_wrong_argument_is_a_sentence(place: Path, costhub: Any, arguments: tuple[str, ...], words: str) -> None:
    done = costhub("bench", *arguments)

    assert done.code != 0
    assert words in done.err
    assert "Traceback" not in done.err
