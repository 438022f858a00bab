from __future__ import annotations

import json
from pathlib import Path

import pytest

from costhub.dataset.ansor.log import AnsorLog, log_files
from costhub.errors import DataError
from tests.dataset.ansor.ansor_steps import MATMUL, Tiles, record


def test_the_logs_of_a_folder_are_found_by_their_names(tmp_path: Path) -> None:
    for name in ("b.json", "a.log.gz", "deep/c.jsonl.xz", "README.md", "d.xz"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()

    found = [str(path.relative_to(tmp_path)) for path in log_files(tmp_path)]

    assert found == ["a.log.gz", "b.json", "deep/c.jsonl.xz"]
    assert log_files(tmp_path / "d.xz") == [tmp_path / "d.xz"]


@pytest.mark.parametrize("error", range(9))
def test_each_error_of_ansor_is_a_status_with_its_text(error: int) -> None:
    read = AnsorLog("{}").record(record(MATMUL, [], 1e10 if error else 1e-3, error))

    assert (read.status == "ok") == (error == 0) == (read.run_s == (1e-3,)) == (read.error is None)
    if error:
        assert f"Ansor's error {error}, " in str(read.error)


@pytest.mark.parametrize(
    "change",
    [
        {"i": None},
        {"i": [[MATMUL], [["stage"], []]]},
        {"i": [[7], [[], []]]},
        {"r": [[1e-3], 0]},
        {"r": [[], 0, 1.0, 1]},
        {"r": [["1"], 0, 1.0, 1]},
        {"r": [[True], 0, 1.0, 1]},
        {"r": [[float("nan")], 0, 1.0, 1]},
        {"r": [[float("inf")], 0, 1.0, 1]},
        {"r": [[-1.0], 0, 1.0, 1]},
        {"r": [[1e-3], "0", 1.0, 1]},
        {"r": [[1e-3], 9, 1.0, 1]},
    ],
)
def test_what_is_no_record_is_refused(change: object) -> None:
    line = json.dumps(json.loads(record(MATMUL, [])) | change).encode()

    with pytest.raises(DataError):
        AnsorLog("{}").record(line)


@pytest.mark.parametrize(
    ("option", "is_read"), [([], True), ([0], True), ([0, []], True), ([1], False), ([2, []], False), ([None], False)]
)
def test_a_program_with_another_layout_of_its_inputs_is_refused(option: list[object], is_read: bool) -> None:
    """mmperf's function declares the layout of a factor free; TVM changes it only if the task has an option for it."""
    entry = json.loads(record('["matmul", 64, 128, 32, "float32"]', []))
    entry["i"][0] += [[-1, 16], "", *option]
    line = json.dumps(entry).encode()

    if is_read:
        assert AnsorLog("{}").record(line).status == "ok"
    else:
        with pytest.raises(DataError, match="the layout of its inputs"):
            AnsorLog("{}").record(line)
    entry["i"][0][0] = MATMUL  # whose function declares no layout free, so that there is nothing to change
    assert AnsorLog("{}").record(json.dumps(entry).encode()).status == "ok"


@pytest.mark.parametrize("timestamp", [None, "yesterday", 1e300, [1]])
def test_an_unknown_time_is_null(timestamp: object) -> None:
    entry = json.loads(record(MATMUL, []))
    entry["r"][3] = timestamp

    assert AnsorLog("{}").record(json.dumps(entry).encode()).measured_at is None


def test_keys_are_numbered_as_they_occur() -> None:
    log = AnsorLog("{}")
    keys = ['["matmul_layer", 1, 2, 3]', MATMUL, '["matmul_layer", 1, 2, 3]']

    assert [log.record(record(key, [])).workload for key in keys] == [0, 1, 0]
    assert list(log.keys) == keys[:2]


def test_a_faster_time_of_the_same_program_contradicts_a_slower_one() -> None:
    log, steps = AnsorLog("{}"), Tiles().steps()
    for cost, error in ((1e-3, 0), (1.9e-3, 0), (1e10, 4), (2.1e-3, 0), (4e-4, 0)):
        log.compared_record(record(MATMUL, steps, cost, error))
    log.compared_record(record(MATMUL, Tiles(unroll=0).steps(), 1.0))

    assert log.contradictions == 2


def test_keys_are_short_and_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blanks make any number of keys of one workload, of any length."""

    def line(key: str) -> bytes:
        return json.dumps({"i": [[key, "cuda"], [[], []]], "r": [[0.5], 0, 1.0, 1], "v": "v0.6"}).encode()

    log = AnsorLog("{}")
    with pytest.raises(DataError, match="longer than 1,000 characters"):
        log.record(line('["matmul_layer",' + " " * 2000 + "8,8,8]"))
    monkeypatch.setattr("costhub.dataset.ansor.log.MOST_KEYS", 2)
    for blanks in range(2):
        log.record(line('["matmul_layer",' + " " * blanks + "8,8,8]"))
    with pytest.raises(DataError, match="yet another workload than the first 2"):
        log.record(line('["matmul_layer",   8,8,8]'))


def test_a_licence_beside_the_logs_is_no_log(tmp_path: Path) -> None:
    for name in ("LICENSE.txt", "log-0000.json.gz"):
        (tmp_path / name).touch()

    assert [path.name for path in log_files(tmp_path)] == ["log-0000.json.gz"]
