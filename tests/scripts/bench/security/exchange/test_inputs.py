"""What the attempts spoil is sound before: otherwise a refusal would say nothing."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.hidden.submission import HiddenLatencies, Submission
from costhub.dataset.hidden.task import HiddenTask
from costhub.dataset.metaschedule.sqlite_form import sqlite_as_json, sqlite_files
from costhub.hub.benchmark import BENCHMARK, read_benchmark
from costhub.hub.catalogue.devices import read_device
from costhub.hub.catalogue.hubs import EMBEDDED
from costhub.hub.lock import read_lock
from costhub.hub.searches import read_searches, with_searches
from costhub.hub.sources.catalogue import load_sources
from scripts.bench.common.machine import ROOT
from scripts.bench.security.exchange import (
    databases,
    earlier_results,
    locks,
    logs,
    networks,
    searches,
    sources,
    sqlite_databases,
    submissions,
    workflows,
)
from scripts.bench.security.imports import RECORDS, SOUND, WORKLOADS
from scripts.bench.security.place import SECRET, Answer, Place, place


@pytest.fixture
def where() -> Iterator[Place]:
    with place(ROOT / "src") as made:
        yield made


def told(code: int = 0) -> Answer:
    return Answer(code, 1.0, 1.0, "", "")


@pytest.mark.slow
def test_a_repository_with_nothing_hostile_gives_the_records_of_its_log(where: Place) -> None:
    answer = where.run(sources.repository()(where), 120.0)

    assert (answer.code, answer.left) == (0, 0), answer.err
    assert f"{SOUND} measurements of 1 workload were added: {SOUND} ran" in answer.out


def test_a_line_of_a_log_says_what_is_asked_of_it() -> None:
    [first, second] = (json.loads(logs.record(number)) for number in range(2))

    assert first["i"] == second["i"]
    assert first["r"] != second["r"]
    assert json.loads(logs.record(key="x", costs=[2.0], error=1, when=7))["r"] == [[2.0], 1, 1.0, 7]


def test_a_catalogue_is_one(where: Place) -> None:
    path = sources.catalogue(where, repository="https://127.0.0.1:9/a", revision="0" * 40)

    assert [source.name for source in load_sources(path)] == ["lab/board"]


def test_a_database_in_sqlite_holds_the_records(where: Place) -> None:
    folder = databases.spoilt(where, sqlite_databases.as_sqlite(lambda *_: None))
    files = sqlite_files(folder)

    assert files is not None
    with sqlite_as_json(files) as written:
        lines = written[RECORDS].read_text().splitlines()
    assert len(lines) == SOUND
    assert "null" not in lines


def test_a_record_gets_other_parts(where: Place) -> None:
    folder = databases.spoilt(where, lambda folder, lines, place: lines)
    line = (folder / RECORDS).read_bytes().splitlines()[0]
    workload, record = json.loads(line)

    changed = json.loads(databases.with_record(line, workload=3, run_secs=[1.0]))

    assert changed == [3, [record[0], [1.0], *record[2:]]]
    assert json.loads(databases.with_record(line)) == [workload, record]


def test_a_copy_with_other_records_is_a_harm(where: Place) -> None:
    out = where.folder / "out"
    out.mkdir()

    for count, found in ((SOUND, ""), (SOUND + 1, f"the copy holds {SOUND + 1} records")):
        (out / RECORDS).write_text("[]\n" * count)
        assert databases.copy_lacks(where, told()) == found


def test_a_changed_or_stolen_file_is_a_harm(where: Place) -> None:
    assert databases.secret_changed(where, told()) == ""
    (where.folder / "out").mkdir()
    (where.folder / "out" / "a").write_bytes(SECRET)
    assert databases.secret_changed(where, told()) == "out holds the user's own file"
    where.secret.write_bytes(b"")
    assert databases.secret_changed(where, told()) == "the user's own file was changed"
    where.secret.unlink()
    assert databases.secret_changed(where, told()) == "the user's own file is gone"


def test_a_submission_and_a_task_are_sound(where: Place) -> None:
    submissions.scored(lambda folder, place: None)(where)
    submissions.task(lambda folder, place: None)(where)

    found = Submission.open(where.folder / "mine")
    assert HiddenLatencies.open(where.folder / "kept.csv").scores_of(found).tolist() == [0.0, 1.0, 2.0, 3.0]
    assert len(HiddenTask.open(where.folder / "task").rows) == 48


def test_a_lock_a_leaderboard_and_a_device_are_sound(where: Place, tmp_path: Path) -> None:
    locks.locked(locks.PULL, locks.pins({}))(where)
    board = tmp_path / "benchmark.json"
    board.write_text(locks.board())

    [pin] = read_lock(where.folder / "costhub.lock")
    assert pin.resolved == locks.MODEL
    assert read_benchmark(board) is not None
    assert read_device(networks.device()).cores == 4


def test_a_result_of_searches_is_sound(where: Place) -> None:
    searches.site("r.json", searches.result())(where)
    board, _ = read_benchmark(EMBEDDED / BENCHMARK) or (None, b"")

    found = with_searches(board, [read_searches(where.folder / "r.json")])

    assert found is not None and board is not None  # noqa: PT018 - for the type checker
    assert found.replay is not None and board.replay is not None  # noqa: PT018
    first, before = found.replay.tracks[0].entries, board.replay.tracks[0].entries
    assert first[:-1] == before
    assert first[-1].strategy == "mine"


def test_a_sound_lock_is_pulled(where: Place) -> None:
    answer = where.run(locks.locked(locks.PULL, locks.pins({}))(where), 60.0)

    assert answer.code == 0, answer.err
    assert locks.pulled(where, answer) == "a model was pulled"


def test_a_report_of_a_search_is_one_that_the_next_can_continue(where: Place, tmp_path: Path) -> None:
    from costhub.api.tune_report import read_report

    earlier_results.tuned()(tmp_path, [], where)

    report: Any = read_report(tmp_path)
    assert report["workloads"][0]["workload"] == "w"


def test_the_workflow_publishes_and_an_input_that_runs_is_a_harm(where: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = where.run(workflows.published("acme/model")(where), 60.0)
    assert (sound.code, workflows.split_up(where, sound)) == (0, ""), sound.err
    assert "acme/model\n" in (where.folder / "said.txt").read_text()

    (where.folder / "said.txt").unlink()
    assert workflows.split_up(where, sound) == "nothing was published"
    monkeypatch.setattr(workflows, "steps", lambda: ['eval "$FOLDER"'])
    with place(ROOT / "src") as other:
        answer = other.run(workflows.published("touch CANARY")(other), 60.0)
        assert workflows.split_up(other, answer) == "canary was written"


def test_pages_that_name_one_another_hold_far_more_than_their_file(where: Place) -> None:
    folder = databases.spoilt(where, sqlite_databases._circled)
    path = folder / sqlite_databases.SQLITE[WORKLOADS]
    with contextlib.closing(sqlite3.connect(path)) as database:
        found = database.execute("SELECT mod FROM workload LIMIT 100000").fetchall()

    assert len(found) == 100_000
    assert path.stat().st_size < 1 << 20
