"""Submission and HiddenLatencies: files that anybody may have written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from costhub.dataset.hidden.submission import ABOUT, SCORES, HiddenLatencies, Submission
from costhub.errors import ArgumentError, DataError, ScoreError

KEYS = [("one", "a"), ("one", "b"), ("two", "a")]
KNOWN = {"model": "x", "trained_on": "nothing"}
LATENCIES = "device_id,workload_id,program_id,latency_s\none,w,a,1e-3\none,w,b,2e-3\ntwo,w,a,5e-4\n"


@pytest.fixture
def latencies(tmp_path: Path) -> HiddenLatencies:
    path = tmp_path / "kept.csv"
    path.write_text(LATENCIES)
    return HiddenLatencies.open(path)


@pytest.fixture
def mine(tmp_path: Path) -> Submission:
    scores = {key: float(number) for number, key in enumerate(KEYS)}
    return Submission.write(tmp_path / "mine", {"model": "Mine", "trained_on": "acme-one", "seed": 3}, scores)


def test_what_was_written_is_read(mine: Submission) -> None:
    found = Submission.open(mine.path)

    assert (found.model, found.about["seed"]) == ("Mine", 3)
    assert str(found) == repr(found) == f"Mine: 3 programs scored, in {mine.path}"
    assert found.scores == {("one", "a"): 0.0, ("one", "b"): 1.0, ("two", "a"): 2.0}


def test_scores_come_in_the_order_of_the_latencies(latencies: HiddenLatencies, mine: Submission) -> None:
    lines = (mine.path / SCORES).read_text().splitlines()
    (mine.path / SCORES).write_text("\n".join([lines[0], *lines[:0:-1]]) + "\n")

    scores = latencies.scores_of(Submission.open(mine.path))

    assert scores.tolist() == [0.0, 1.0, 2.0]
    programs = latencies.programs()
    assert programs.group.tolist() == [0, 0, 1]
    assert np.allclose(programs.latency_s, [1e-3, 2e-3, 5e-4])


def test_columns_may_come_in_any_order_with_others_beside_them(latencies: HiddenLatencies, mine: Submission) -> None:
    rows = ["note,score,program_id,device_id", *(f"x,{n},{key[1]},{key[0]}" for n, key in enumerate(KEYS))]
    (mine.path / SCORES).write_text("\n".join(rows) + "\n")

    assert latencies.scores_of(Submission.open(mine.path)).tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("device_id,program_id\none,a\n", "lacks the column score"),
        ("", "lacks the column device_id"),
        ("device_id,program_id,score\none,a,nan\n", "line 2: 'nan' is not a finite number"),
        ("device_id,program_id,score\none,a,inf\n", "not a finite number"),
        ("device_id,program_id,score\none,a,\n", "'' is not a finite number"),
        ("device_id,program_id,score\none,a,1,2\n", "line 2: 4 cells, but 3 columns"),
        ("device_id,program_id,score\none,a,1\none,a,2\n", "line 3: program a is scored a second time"),
        ("device_id,program_id,score\none,a,\xff\n", "is not CSV in UTF-8"),
        ("device_id,program_id,score\none,a," + "9" * 200_000 + "\n", "is not CSV in UTF-8"),
    ],
)
def test_wrong_scores_are_refused(mine: Submission, text: str, words: str) -> None:
    (mine.path / SCORES).write_bytes(text.encode("latin-1"))

    with pytest.raises(DataError, match=words):
        Submission.open(mine.path)


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "must hold an object with `model`"),
        ("{}", "must hold an object with `model`"),
        ('{"model": " "}', "must hold an object with `model`"),
        ('{"model": 3}', "must hold an object with `model`"),
        ('{"model": "x"}', r"about\.json does not say what the model has learned from"),
        ('{"model": "x", "trained_on": " "}', "add `trained_on`"),
        ('{"model": "x", "trained_on": ["acme-one"]}', "add `trained_on`, a text"),
        ('{"model": "x", "version": 2}', "Update costhub"),
    ],
)
def test_a_wrong_description_is_refused(mine: Submission, about: str, words: str) -> None:
    (mine.path / ABOUT).write_text(about)

    with pytest.raises(DataError, match=words):
        Submission.open(mine.path)


def test_a_folder_that_is_no_submission_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has no about\.json\. Expected a folder made by `costhub bench submit`\.$"):
        Submission.open(tmp_path)


def test_links_and_large_files_are_not_followed(mine: Submission) -> None:
    (mine.path / ABOUT).unlink()
    (mine.path / ABOUT).symlink_to("/etc/hostname")
    with pytest.raises(DataError, match="symbolic link"):
        Submission.open(mine.path)
    (mine.path / ABOUT).unlink()
    (mine.path / ABOUT).write_text(json.dumps({"model": "x" * (1 << 20)}))
    with pytest.raises(DataError, match="At most"):
        Submission.open(mine.path)


def test_every_program_and_no_other_is_scored(latencies: HiddenLatencies, tmp_path: Path) -> None:
    all_ = {key: 1.0 for key in KEYS}
    fewer = Submission.write(tmp_path / "fewer", KNOWN, {k: 1.0 for k in KEYS[1:]})
    with pytest.raises(DataError, match="does not score 1 of 3 programs, such as a on one"):
        latencies.scores_of(fewer)
    more = Submission.write(tmp_path / "more", KNOWN, {**all_, ("two", "z"): 1.0})
    with pytest.raises(DataError, match="scores program z on two, which the task does not have"):
        latencies.scores_of(more)


def test_a_submission_is_written_once_with_finite_scores(mine: Submission, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="mine exists"):
        Submission.write(mine.path, KNOWN, {})
    with pytest.raises(ScoreError, match="finite"):
        Submission.write(tmp_path / "nan", KNOWN, {KEYS[0]: float("nan")})
    assert not (tmp_path / "nan").exists()


def test_a_submission_that_does_not_say_what_its_model_knows_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="Say what the model has learned from: `trained_on`"):
        Submission.write(tmp_path / "silent", {"model": "x"}, {KEYS[0]: 1.0})
    assert not (tmp_path / "silent").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("device_id,program_id,latency_s\n", "lacks the column workload_id"),
        (LATENCIES.replace("2e-3", "0"), "line 3: '0' is not a latency"),
        (LATENCIES + "one,w,a,1e-3\n", "names a program twice"),
    ],
)
def test_other_files_are_no_latencies(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(text)

    with pytest.raises(DataError, match=words):
        HiddenLatencies.open(path)


def test_a_submission_has_a_size(mine: Submission, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("costhub.dataset.hidden.submission.MOST_SCORES", 2)
    with pytest.raises(DataError, match="scores more than 2 programs"):
        Submission.open(mine.path)

    (mine.path / ABOUT).write_text(json.dumps({"model": "x" * 500}))
    with pytest.raises(DataError, match="longer than 200 characters"):
        Submission.open(mine.path)


def test_lines_are_read_one_at_a_time_and_have_a_length(mine: Submission) -> None:
    with (mine.path / SCORES).open("ab") as file:
        file.truncate(1 << 29)  # holes, which would take gigabytes as text

    with pytest.raises(DataError, match="has a line of more than"):
        Submission.open(mine.path)
