"""The mistakes: made in the folder that they name, and judged by the rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scripts.bench.command_line.mistake_list import MISTAKES, Mistake, make_folder
from scripts.bench.command_line.mistakes import attempt, is_right, summary
from scripts.bench.common.machine import ROOT

ROW: dict[str, Any] = {
    "words": "pull nvidia-h20",
    "names": "nvidia-h200",
    "expected": 2,
    "code": 2,
    "cpu_s": 0.2,
    "answer": "costhub: There is no device named 'nvidia-h20'. Did you mean nvidia-h200?",
    "loaded": "",
    "left": [],
}


def test_there_are_many_mistakes_and_none_twice() -> None:
    words = [mistake.words for mistake in MISTAKES]

    assert len(words) >= 60
    assert len(set(words)) == len(words)


def test_the_folder_holds_what_mistakes_name(tmp_path: Path) -> None:
    make_folder(tmp_path)

    assert {path.name for path in tmp_path.iterdir()} >= {"data", "model", "empty", "used", "broken.json", "text.pt2"}


def test_a_mistake_is_made_in_a_process_of_its_own() -> None:
    row = attempt(Mistake("pull", "pull nvidia-h20", "nvidia-h200"), ROOT / "src")

    assert (row["code"], row["loaded"], row["left"]) == (2, "", [])
    assert row["answer"].startswith("costhub: There is no device or model named 'nvidia-h20'. Did you mean nvidia-h200")
    assert 0 < row["cpu_s"] < 60


@pytest.mark.parametrize(
    "change",
    [
        {"code": 1},
        {"code": None},
        {"answer": "costhub: No."},
        {"answer": "a line, and nvidia-h200\nanother"},
        {"left": ["t"]},
    ],
)
def test_a_good_answer_is_one_sentence_about_the_mistake_with_its_code_and_nothing_left(change: dict[str, Any]) -> None:
    assert is_right(ROW)
    assert not is_right({**ROW, **change})


def test_the_summary_counts_what_was_accepted_and_loaded() -> None:
    found = summary([ROW, {**ROW, "code": 0, "cpu_s": 3.0, "loaded": "tvm torch"}])

    assert (found["mistakes"], found["right"], found["accepted"], found["heavy"]) == (2, 1, 1, 1)
    assert (found["median_cpu_s"], found["most_cpu_s"], found["under_0_5_s"]) == (1.6, 3.0, 1)
