"""HiddenTask: what a task tells, what it withholds, and damaged ones."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costhub.dataset.folder import DataFolder
from costhub.dataset.hidden.submission import HiddenLatencies
from costhub.dataset.hidden.task import PROGRAMS, TASK, WORKLOADS, HiddenTask, hide_latencies
from costhub.dataset.load import load_measurements, load_programs
from costhub.errors import ArgumentError, DataError
from costhub.hub.data import find_data

DEVICE, SPEC = "nvidia-h200", "trace_tokens@1"
DATA = find_data(DEVICE).path


@pytest.fixture(scope="module")
def chosen() -> set[str]:
    names = DataFolder.open(DATA).workloads()["workload_id"].to_pylist()
    return set(sorted(names)[:3])


@pytest.fixture
def task(chosen: set[str], tmp_path: Path) -> HiddenTask:
    return hide_latencies(
        DATA, tmp_path / "task", tmp_path / "kept.csv", name="first", devices={DEVICE}, workloads=chosen
    )


def test_a_task_prints_as_a_line(task: HiddenTask) -> None:
    expected = f"first: {len(task.rows):,} programs of 3 workloads on {DEVICE}; latencies withheld"

    assert str(task) == repr(task) == expected


def test_a_task_has_every_program_that_ran_once(task: HiddenTask, chosen: set[str]) -> None:
    ids = set(DataFolder.open(DATA).workloads(["workload_id"])["workload_id"].to_pylist()) & chosen
    table = load_measurements(DATA, workload=sorted(ids), status="ok", columns=["program_id", "workload_id"])

    assert {key[1] for key in task.keys} == set(table["program_id"].to_pylist())
    assert len(task.keys) == len(set(task.keys)) == len(set(table["program_id"].to_pylist()))
    assert set(task.workloads) == chosen
    assert task.devices[DEVICE]["kind"] == "cuda"


def test_nothing_in_a_task_tells_a_latency(task: HiddenTask) -> None:
    rows = [json.loads(line) for line in (task.path / PROGRAMS).read_text().splitlines()]
    latencies = HiddenLatencies.open(task.path.parent / "kept.csv")

    assert {name for row in rows for name in row} == {"device_id", "workload_id", "program_id", "target", "trace"}
    order = [row["program_id"] for row in rows]
    assert order == sorted(order)  # the order of hashes, not that of the search that found them
    assert sorted(path.name for path in task.path.iterdir()) == [PROGRAMS, TASK, WORKLOADS]
    text = "".join(path.read_text() for path in task.path.iterdir())
    assert not any(repr(seconds) in text for seconds in latencies.latency_s)


def test_the_task_holds_the_hash_of_the_latencies(task: HiddenTask) -> None:
    kept = task.path.parent / "kept.csv"

    assert task.latencies_sha256 == hashlib.sha256(kept.read_bytes()).hexdigest()
    assert HiddenLatencies.open(kept).sha256 == task.latencies_sha256


def test_features_and_latencies_are_those_of_the_data(task: HiddenTask, chosen: set[str]) -> None:
    programs, places = task.programs(SPEC, progress=False)
    latencies = HiddenLatencies.open(task.path.parent / "kept.csv")
    own = load_programs(DATA, device=DEVICE, workloads=chosen, spec=SPEC, progress=False)

    assert programs.spec == SPEC
    assert np.isinf(programs.latency_s).all()
    assert sorted(places.tolist()) == list(range(len(task.keys)))
    assert latencies.keys == task.keys
    assert programs.uses[programs.workload_ids[0]].operator
    hidden = dict(zip(places.tolist(), _rows_of(programs), strict=True))
    found = sorted((seconds, hidden[place]) for place, seconds in enumerate(latencies.latency_s))
    assert found == sorted(zip(own.latency_s.tolist(), _rows_of(own), strict=True))


def test_features_are_computed_once(task: HiddenTask, monkeypatch: pytest.MonkeyPatch) -> None:
    first, places = task.programs(SPEC, progress=False)

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("computed again")

    monkeypatch.setattr("costhub.dataset.blocks.compute_missing", refuse)
    again, places_again = HiddenTask.open(task.path).programs(SPEC, progress=False)

    assert again.rows.tobytes() == first.rows.tobytes()
    assert places_again.tolist() == places.tolist()


def _rows_of(programs: Any) -> list[bytes]:
    return [rows.tobytes() for rows in np.split(programs.rows, np.cumsum(programs.counts)[:-1])]


def test_a_task_is_written_once_and_the_latencies_elsewhere(task: HiddenTask, chosen: set[str]) -> None:
    place = task.path.parent
    for out, kept, words in (
        (task.path, place / "other.csv", "task exists"),
        (place / "new", place / "kept.csv", "kept.csv exists"),
        (place / "new", place / "new" / "kept.csv", "would lie in the task"),
    ):
        with pytest.raises(ArgumentError, match=words):
            hide_latencies(DATA, out, kept, name="", devices={DEVICE}, workloads=chosen)
    with pytest.raises(DataError, match="no program that ran"):
        hide_latencies(DATA, place / "new", place / "x.csv", name="", devices={DEVICE}, workloads=set())
    assert not (place / "new").exists()


def test_a_task_that_nobody_could_open_is_not_written(
    task: HiddenTask, chosen: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("costhub.dataset.hidden.task.MOST_PROGRAMS", 2)
    place = task.path.parent

    with pytest.raises(DataError, match="do not fit into a task, which holds at most 2 programs"):
        hide_latencies(DATA, place / "new", place / "new.csv", name="", devices={DEVICE}, workloads=chosen)
    assert not (place / "new").exists()
    assert not (place / "new.csv").exists()


@pytest.mark.parametrize(
    ("file", "change", "words"),
    [
        (TASK, lambda text: "{", "is not JSON"),
        (TASK, lambda text: "[]", "does not hold a JSON object"),
        (TASK, lambda text: text.replace('"version": 1', '"version": 9'), "Update costhub"),
        (TASK, lambda text: text.replace('"nvidia-h200": {', '"other": {', 1), "does not describe the devices"),
        (TASK, lambda text: text.replace('"device_id": "nvidia-h200"', '"device_id": 5', 1), "a device that is not"),
        (PROGRAMS, lambda text: text.replace("cuda", "cudb", 1), "is not the file that task.json names"),
        (WORKLOADS, lambda text: text.replace('"module_json":"', '"module_json":"\\ud800', 1), "line 1: expected"),
        (WORKLOADS, lambda text: text.partition("\n")[2], "lacks workload"),
        (WORKLOADS, lambda text: text.replace('"module_json"', '"module"', 1), "line 1: expected an object with"),
    ],
)
def test_a_damaged_task_is_refused(task: HiddenTask, file: str, change: Any, words: str) -> None:
    path = task.path / file
    path.write_text(change(path.read_text()))

    with pytest.raises(DataError, match=words):
        HiddenTask.open(task.path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: "", "has no programs"),
        (lambda text: text.replace('"nvidia-h200"', '"../../x"'), "a device whose name no folder can have"),
        (lambda text: text.replace('"trace":"', '"trace":"\\ud800', 1), "line 1: expected an object with"),
    ],
)
def test_a_task_with_other_programs_is_refused_although_its_hash_is_right(
    task: HiddenTask, change: Any, words: str
) -> None:
    changed = change((task.path / PROGRAMS).read_text())
    about = json.loads((task.path / TASK).read_text())
    about["programs_sha256"] = hashlib.sha256(changed.encode()).hexdigest()
    (task.path / PROGRAMS).write_text(changed)
    (task.path / TASK).write_text(json.dumps(about))

    with pytest.raises(DataError, match=words):
        HiddenTask.open(task.path)


def test_a_folder_without_a_task_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="costhub bench hide"):
        HiddenTask.open(tmp_path)


def test_a_task_has_a_size(task: HiddenTask, monkeypatch: pytest.MonkeyPatch) -> None:
    path = task.path / WORKLOADS
    sound = path.read_bytes()
    with path.open("ab") as file:
        file.truncate(1 << 29)
    with pytest.raises(DataError, match=f"{WORKLOADS} has more than .* lines, or one of more than"):
        HiddenTask.open(task.path)
    path.write_bytes(sound)
    monkeypatch.setattr("costhub.dataset.hidden.task.MOST_PROGRAMS", 2)
    with pytest.raises(DataError, match=f"{PROGRAMS} has more than 2 lines"):
        HiddenTask.open(task.path)
    with (task.path / TASK).open("ab") as file:
        file.truncate(17 << 20)
    with pytest.raises(DataError, match="At most"):
        HiddenTask.open(task.path)
