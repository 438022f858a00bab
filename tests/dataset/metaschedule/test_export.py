"""Databases that costhub writes, as stock TVM reads them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tvm
from tvm.s_tir import meta_schedule as ms

from costhub.dataset.folder import DataFolder
from costhub.dataset.metaschedule.export import ExportReport, export_database
from costhub.dataset.metaschedule.lines import RECORDS_FILE, WORKLOADS_FILE
from costhub.dataset.trace import program_id, replay, trace_to_json
from costhub.dataset.workload import module_from_json, workload_row
from costhub.errors import DataError
from costhub.isolation.scratch import HIDDEN, LOCK, PREFIX

# JSON of the right form; TVM 0.27 reads its null as a pointer.
CRASHING = '[[["GetSBlock",[],["C","main"],["b0"]]],[[0,null]]]'
Make = Callable[..., dict[str, Any]]


LATENCIES = ([3e-3, 3e-3], [2e-3, 2.1e-3], [1e-3, 9e-4], [4e-3])


def fill(folder: DataFolder, tiny: Any, make: Make, measured: list[tuple[str, list[float]]]) -> None:
    """Adds measurements (trace, seconds) of the tiny workload; without seconds they failed."""
    mod = module_from_json(tiny.module_json)
    folder.put_workloads([workload_row(mod, name="tiny", operator="matmul")])
    with folder.writer("cpu0") as writer:
        for number, (trace, run_s) in enumerate(measured):
            failed = {} if run_s else {"status": "build_error", "error": "no"}
            writer.append(
                make(
                    number,
                    workload_id=tiny.workload_id,
                    program_id=program_id(tiny.workload_id, trace),
                    target=tiny.target,
                    trace=trace,
                    run_s=run_s,
                    **failed,
                )
            )


@pytest.fixture
def data(tmp_path: Path, tiny_matmul: Any, measurement: Make) -> DataFolder:
    """Four programs of one workload, a second measurement of the first one, and a failure."""
    folder = DataFolder.create(tmp_path / "data")
    measured = [*zip(tiny_matmul.traces, LATENCIES, strict=True)]
    fill(folder, tiny_matmul, measurement, [*measured, measured[0], (tiny_matmul.traces[3], [])])
    return folder


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def export(data: DataFolder, out: Path, **options: Any) -> ExportReport:
    return export_database(data.path, out, **{"workers": 1, **options})


def test_stock_tvm_finds_the_best_program(data: DataFolder, tiny_matmul: Any, tmp_path: Path) -> None:
    report = export(data, tmp_path / "db")

    database = ms.database.JSONDatabase(work_dir=str(tmp_path / "db"), allow_missing=False)
    mod = module_from_json(tiny_matmul.module_json)
    target = tvm.target.Target(json.loads(tiny_matmul.target))
    best = database.query_tuning_record(mod, target, "main")
    top = database.get_top_k(database.commit_workload(mod), 9)
    assert trace_to_json(best.trace) == tiny_matmul.traces[2]
    assert [float(s.value) for s in best.run_secs] == LATENCIES[2]
    assert [tiny_matmul.traces.index(trace_to_json(record.trace)) for record in top] == [2, 1, 0, 0, 3]
    tvm.ir.assert_structural_equal(
        database.query_schedule(mod, target, "main").mod, replay(mod, tiny_matmul.traces[2]).mod
    )
    assert len(database) == 6
    assert (report.workloads, report.records, report.failures, report.unreplayable) == (1, 6, 1, 0)


def test_the_files_say_what_tvm_writes_for_the_same_records(data: DataFolder, tiny_matmul: Any, tmp_path: Path) -> None:
    export(data, tmp_path / "ours")

    (tmp_path / "theirs").mkdir()
    theirs = ms.database.JSONDatabase(work_dir=str(tmp_path / "theirs"))
    mod, target = module_from_json(tiny_matmul.module_json), tvm.target.Target(json.loads(tiny_matmul.target))
    workload = theirs.commit_workload(mod)
    for row in data.measurements().to_pylist():
        schedule = replay(mod, row["trace"])
        arguments = ms.arg_info.ArgInfo.from_entry_func(schedule.mod, remove_preproc=True)
        run_secs = row["run_s"] or [1e10]
        theirs.commit_tuning_record(ms.database.TuningRecord(schedule.trace, workload, run_secs, target, arguments))
    assert (tmp_path / "ours" / WORKLOADS_FILE).read_bytes() == (tmp_path / "theirs" / WORKLOADS_FILE).read_bytes()
    ours, expected = lines(tmp_path / "ours" / RECORDS_FILE), lines(tmp_path / "theirs" / RECORDS_FILE)
    for (_, record), (_, other) in zip(ours, expected, strict=True):
        # TVM adds to the target what it takes for granted; the row's own words are kept.
        assert tvm.target.Target(record.pop(2)).export() == tvm.target.Target(other.pop(2)).export()
    assert ours == expected


def test_the_best_are_written_best_first(data: DataFolder, tiny_matmul: Any, tmp_path: Path) -> None:
    report = export(data, tmp_path / "db", best=2)

    assert [record[1] for _, record in lines(tmp_path / "db" / RECORDS_FILE)] == [LATENCIES[2], LATENCIES[1]]
    assert (report.records, report.failures) == (2, 0)


def test_failures_can_be_left_out(data: DataFolder, tmp_path: Path) -> None:
    report = export(data, tmp_path / "db", failures=False)

    assert (report.records, report.failures) == (5, 0)
    assert [1e10] not in [record[1] for _, record in lines(tmp_path / "db" / RECORDS_FILE)]


@pytest.mark.slow
@pytest.mark.parametrize("best", [None, 1])
def test_a_program_that_cannot_be_replayed_costs_only_itself(
    tmp_path: Path, tiny_matmul: Any, measurement: Make, best: int | None
) -> None:
    folder = DataFolder.create(tmp_path / "data")
    bad = [(CRASHING, [1e-6]), (tiny_matmul.bad_trace, [1e-6]), ("no JSON", [1e-6])]
    fill(folder, tiny_matmul, measurement, [*bad, *zip(tiny_matmul.traces, LATENCIES, strict=True)])

    report = export(folder, tmp_path / "db", best=best)

    assert (report.unreplayable, report.records) == (3, best or 4)
    database = ms.database.JSONDatabase(work_dir=str(tmp_path / "db"))
    records = database.get_all_tuning_records()
    assert trace_to_json(records[0].trace) == tiny_matmul.traces[2]
    assert "Left out 3 that TVM cannot replay." in report.sentences()
    assert str(report) == repr(report) == "\n".join(report.sentences())


def test_rows_that_no_database_can_hold_are_counted(
    data: DataFolder, tmp_path: Path, measurement: Make, workload: Make
) -> None:
    data.put_workloads([workload(8, module_json="{}")])
    with data.writer("cpu0") as writer:
        writer.append(measurement(50, workload_id="w8"))
        writer.append(measurement(51, workload_id="unknown"))
        known = data.workloads()["workload_id"].to_pylist()[0]
        writer.append(measurement(52, workload_id=known, run_s=[float("nan")]))
        writer.append(measurement(53, workload_id="unknown", run_s=[float("nan")]))

    report = export(data, tmp_path / "db")

    assert (report.records, report.without_workload, report.unusable) == (6, 3, 1), "each row once"


def test_workloads_that_tvm_takes_for_one_are_one(
    data: DataFolder, tiny_matmul: Any, tmp_path: Path, measurement: Make
) -> None:
    renamed = module_from_json(tiny_matmul.module_json.replace('"B"', '"Bee"'))
    row = workload_row(renamed, name="same", operator="matmul")
    data.put_workloads([row])
    with data.writer("cpu0") as writer:
        trace = tiny_matmul.traces[1]
        writer.append(
            measurement(70, workload_id=row["workload_id"], trace=trace, run_s=[1e-5], target=tiny_matmul.target)
        )
    assert row["workload_id"] != tiny_matmul.workload_id

    report = export(data, tmp_path / "db")

    assert (report.workloads, report.records) == (1, 7)
    # A database with a line too many would number the next workload wrongly.
    database = ms.database.JSONDatabase(work_dir=str(tmp_path / "db"))
    other = tvm.IRModule({"main": module_from_json(tiny_matmul.module_json)["main"].with_attr("x", 1)})
    record = ms.database.TuningRecord(tvm.s_tir.Schedule(other).trace, database.commit_workload(other), [1.0])
    database.commit_tuning_record(record)
    assert lines(tmp_path / "db" / RECORDS_FILE)[-1][0] == 1
    assert len(lines(tmp_path / "db" / WORKLOADS_FILE)) == 2


def test_what_a_killed_process_left_beside_the_folder_is_removed(data: DataFolder, tmp_path: Path) -> None:
    left = tmp_path / "results" / f"{HIDDEN}{PREFIX}x"
    left.mkdir(parents=True)
    (left / LOCK).write_text("")  # nobody holds it

    export_database(data.path, tmp_path / "results" / "out", workers=1, progress=False)

    assert [path.name for path in (tmp_path / "results").iterdir()] == ["out"]


def test_what_is_there_is_not_overwritten(data: DataFolder, tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    export(data, tmp_path / "db", best=1)
    before = (tmp_path / "db" / RECORDS_FILE).read_bytes()

    with pytest.raises(DataError, match="exists and is not empty"):
        export(data, tmp_path / "db")
    assert (tmp_path / "db" / RECORDS_FILE).read_bytes() == before


@pytest.mark.parametrize(
    ("options", "words"),
    [({"best": 0}, "it must be 1 or more"), ({"device": "gpu9"}, "has no measurements of 'gpu9'")],
)
def test_what_cannot_be_done_leaves_nothing_behind(
    data: DataFolder, tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(DataError, match=words):
        export(data, tmp_path / "db", **options)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_folder_without_anything_to_export_says_so(tmp_path: Path, tiny_matmul: Any, measurement: Make) -> None:
    folder = DataFolder.create(tmp_path / "data")
    fill(folder, tiny_matmul, measurement, [(tiny_matmul.traces[0], [])])

    with pytest.raises(DataError, match="None of the 0 selected measurements"):
        export(folder, tmp_path / "db", failures=False)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
