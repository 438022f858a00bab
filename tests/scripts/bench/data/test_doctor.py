"""What the benchmark makes of an answer of the doctor, and a few damages of a real search."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest

from costhub.dataset.metaschedule.lines import RECORDS_FILE, WORKLOADS_FILE
from scripts.bench.data import doctor_damages as damages
from scripts.bench.data.doctor import Answer, Whole, empty_cache, examined, failures, judged, rows_of
from scripts.bench.data.doctor_damages import Database, Entry
from scripts.bench.data.doctor_folders import RealDatabase, read_database

LINES = RealDatabase("db", [b"w"], [b"a", b"b", b"c", b"d"], 4)
COPIES = {1: ("h", "a"), 2: ("h", "b"), 3: ("h", "c")}
"""The doctor leaves out the last record of the undamaged database."""
WHOLE = Whole(LINES, COPIES, Answer(findings=[("DB06", f"{RECORDS_FILE} line 4", "error")], counts={"DB06": 1}))
AT_2 = ("DB01", f"{RECORDS_FILE} line 2", "error")
AT_4 = ("DB06", f"{RECORDS_FILE} line 4", "error")


def damaged() -> Database:
    """The second of four records is damaged."""
    texts = [Entry(text, number) for number, text in enumerate(LINES.records, 1)]
    texts[1] = Entry(b"?", None, ("DB01",))
    return Database([Entry(b"w", 1)], texts, {1, 2, 3}, {}, {1}, random.Random(0))


GOOD = Answer(findings=[AT_2, AT_4], counts={"DB01": 1, "DB06": 1}, copy=Counter([COPIES[1], COPIES[3]]))


def test_a_right_answer_misses_nothing() -> None:
    row = judged(damaged(), WHOLE, GOOD)

    assert row == {"expected": 1, "missed": [], "lost": 0, "left": 0, "false_alarms": []}


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        (Answer(findings=[AT_4], counts={"DB06": 1}, copy=GOOD.copy), {"missed": [f"DB01 {RECORDS_FILE} line 2"]}),
        (Answer(findings=GOOD.findings, counts=GOOD.counts, copy=Counter([COPIES[1]])), {"lost": 1}),
        (Answer(findings=GOOD.findings, counts=GOOD.counts, copy=GOOD.copy + Counter([("h", "?")])), {"left": 1}),
        (
            Answer(
                findings=[*GOOD.findings, ("DB05", f"{RECORDS_FILE} line 3", "error")],
                counts={**GOOD.counts, "DB05": 1},
                copy=GOOD.copy,
            ),
            {"false_alarms": [f"DB05 {RECORDS_FILE} line 3"]},
        ),
        (Answer(refused="nothing is good"), {"missed": [f"DB01 {RECORDS_FILE} line 2"], "lost": 2}),
    ],
)
def test_a_wrong_answer_is_told(answer: Answer, wrong: dict[str, object]) -> None:
    row = judged(damaged(), WHOLE, answer)

    assert row == {"expected": 1, "missed": [], "lost": 0, "left": 0, "false_alarms": [], **wrong}


def test_a_folder_without_a_file_must_be_refused_with_its_name() -> None:
    db = damaged()
    db.missing = WORKLOADS_FILE

    assert judged(db, WHOLE, Answer(refused=f"it lacks {WORKLOADS_FILE}"))["missed"] == []
    assert judged(db, WHOLE, Answer(refused="an error"))["missed"] == [WORKLOADS_FILE]
    assert judged(db, WHOLE, GOOD)["missed"] == [WORKLOADS_FILE]


def test_a_finding_without_a_line_must_be_new() -> None:
    db = damaged()
    db.elsewhere.add("DB06")

    assert judged(db, WHOLE, GOOD)["missed"] == ["DB06"]
    more = Answer(findings=GOOD.findings, counts={"DB01": 1, "DB06": 2}, copy=GOOD.copy)
    assert judged(db, WHOLE, more)["missed"] == []


def test_a_changed_record_may_stay() -> None:
    db = damaged()
    db.stays = 1
    copy = GOOD.copy + Counter([("h", "?")])

    assert judged(db, WHOLE, Answer(findings=GOOD.findings, counts=GOOD.counts, copy=copy))["left"] == 0


def test_a_real_search_is_damaged_examined_and_saved(searched: Path, tmp_path: Path) -> None:
    with empty_cache():
        whole = examined(read_database(searched), tmp_path / "whole")
        assert whole is not None
        rows = list(rows_of(whole, (damages.cut_off, damages.copied), tmp_path / "damaged", run=True))

    assert whole.loads
    assert (len(whole.copies), json.loads(whole.target)["kind"]) == (12, "llvm")
    assert [row["damage"] for row in rows] == [
        "A record is cut off in the middle of the file",
        "A record is on two lines",
        "A program computes something else than its workload",
        "all",
    ]
    assert [row["damages"] for row in rows] == [1, 1, 1, 3]
    assert [(row["missed"], row["lost"], row["left"], row["false_alarms"]) for row in rows] == [([], 0, 0, [])] * 4
    assert all(row["loads"] for row in rows)
    assert rows[1]["stock"] == 13


ROW = {"folder": "db", "damage": "cut", "missed": [], "lost": 0, "left": 0, "false_alarms": [], "loads": True}
MERGE = {"what": "two", "lost": 0, "added": 0, "loads": True, "refused": "", "must_join": True}


@pytest.mark.parametrize(
    "wrong", [{"missed": ["x"]}, {"lost": 1}, {"left": 1}, {"false_alarms": ["x"]}, {"loads": False}]
)
def test_the_benchmark_fails_for_every_kind_of_wrong_answer(wrong: dict[str, object]) -> None:
    assert failures({"rows": [ROW]}) == []
    assert failures({"rows": [ROW, {**ROW, **wrong}]}) == ["db: cut"]


def test_the_benchmark_fails_for_a_wrong_coverage_or_merge() -> None:
    covered = {"what": "whole", "wrong": []}

    assert failures({"rows": [], "coverage": [covered], "merges": [MERGE]}) == []
    found = failures({"rows": [], "coverage": [{**covered, "wrong": ["x"]}], "merges": [{**MERGE, "lost": 2}]})
    assert found == ["whole", "two"]
