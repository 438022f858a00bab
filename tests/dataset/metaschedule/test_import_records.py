from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from costhub.dataset.metaschedule.import_pool import ImportPool
from costhub.dataset.metaschedule.import_records import ImportSource, RecordImporter
from costhub.dataset.metaschedule.import_workloads import ImportedWorkload, ImportedWorkloads
from costhub.dataset.metaschedule.lines import ImportReport, Line
from costhub.dataset.schema import table_from_rows
from costhub.dataset.shards.layout import record_key
from costhub.dataset.trace import program_id
from costhub.dataset.workload import module_from_json, workload_row


@pytest.fixture(scope="module")
def children() -> Iterator[ImportPool]:
    with ImportPool(workers=1) as started:
        yield started


@pytest.fixture
def source(tiny_matmul: Any) -> ImportSource:
    row = workload_row(module_from_json(tiny_matmul.module_json), name="mm", operator="matmul")
    workloads = ImportedWorkloads(
        {0: ImportedWorkload(row, "0.16.0")}, {1: "its workload (line 7) could not be imported"}
    )
    return ImportSource({"device_id": "cpu0", "kind": "cpu"}, workloads, "someone", "MIT", "metaschedule-0")


def test_rows_say_what_the_database_says_and_nothing_else(
    children: ImportPool, source: ImportSource, database: Any, tiny_matmul: Any
) -> None:
    report = ImportReport()
    importer = RecordImporter(source, children, report)

    [ok, failed] = importer.rows("r", [Line(1, database.record(1)), Line(2, database.record(2, None))])

    assert table_from_rows("measurements", [ok, failed]).num_rows == 2
    assert ok.pop("costhub_version")
    assert len(ok["record_id"]) == 64
    assert ok | {"record_id": ""} == {
        "record_id": "",
        "program_id": program_id(tiny_matmul.workload_id, tiny_matmul.traces[1]),
        "workload_id": tiny_matmul.workload_id,
        "device_id": "cpu0",
        "target": tiny_matmul.target,
        "trace": tiny_matmul.traces[1],
        "status": "ok",
        "error": None,
        "run_s": [1e-3, 2e-3],
        "proposed_by": "imported",
        "session": "metaschedule-0",
        "timestamp": None,
        "transplanted_from": None,
        "contributor": "someone",
        "licence": "MIT",
        "tvm_version": "0.16.0",
    }
    assert (failed["status"], failed["run_s"]) == ("unknown_error", [])
    assert "MetaSchedule" in failed["error"]
    assert (report.ok, report.failed) == (1, 1)


def test_a_record_counts_once(children: ImportPool, source: ImportSource, database: Any) -> None:
    report = ImportReport()
    lines = [Line(1, database.record(1)), Line(2, database.record(1)), Line(3, database.record(2))]
    [first, _] = RecordImporter(source, children, report).rows("r", lines)
    again = ImportReport()

    later = RecordImporter(source, children, again, known=frozenset([record_key(first["record_id"])]))

    assert (report.ok, report.duplicates, report.known) == (2, 1, 0)
    assert [row["run_s"] for row in later.rows("r", lines)] == [[1e-3, 2e-3]]
    assert (again.ok, again.duplicates, again.known) == (1, 1, 1)


@pytest.mark.slow
def test_lines_that_give_no_row_are_counted_and_named(
    children: ImportPool, source: ImportSource, database: Any
) -> None:
    report = ImportReport()
    other = json.loads(database.record(0))
    other[1][3][0][2] = [16, 17]
    crash = json.loads(database.record(0))
    crash[1][0] = [[["GetSBlock", [], ["C", "main"], ["b0"]]], [[0, None]]]
    lines = [
        Line(1, b"", "the line is blank"),
        Line(2, database.record(0)[:-3]),
        Line(3, database.record(0, [0.0])),
        Line(4, database.record(0, workload=1)),
        Line(5, database.record(0, workload=9)),
        Line(6, json.dumps(other).encode()),
        Line(7, database.record(0, target={"kind": "cuda", "arch": "sm_80"})),
        Line(8, database.record(0, target="nonsense")),
        Line(9, json.dumps(crash).encode()),
        Line(10, database.record(3)),
    ]

    rows = RecordImporter(source, children, report).rows("records.json", lines)

    assert len(rows) == report.ok == 1
    assert report.refused == 9
    why = {refusal.line: refusal.why for refusal in report.refusals}
    assert why.pop(2).startswith("it is not JSON")
    assert why.pop(3).startswith("its run_secs [0.0] are not all positive")
    assert why.pop(8).startswith('TVM does not accept the target {"kind":"nonsense"}')
    assert why == {
        1: "the line is blank",
        4: "its workload (line 7) could not be imported",
        5: "the database has no workload 9",
        6: "its arguments differ from those of its workload",
        7: "its target is for the device kind cuda, not cpu",
        9: "TVM crashed on it",
    }


def test_a_layout_that_a_schedule_chose_is_no_other_workload(
    children: ImportPool, source: ImportSource, database: Any
) -> None:
    record = json.loads(database.record(0))
    record[1][3][1][2] = [4, 16, 4]

    rows = RecordImporter(source, children, ImportReport()).rows("r", [Line(1, json.dumps(record).encode())])

    assert len(rows) == 1
