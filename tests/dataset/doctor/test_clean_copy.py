"""Clean copies and merged folders: what they hold, what they refuse, and that they are whole or not there."""

from __future__ import annotations

import base64
import gzip
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import costhub
from costhub.dataset.doctor.clean_copy import check_one_target, write_clean_copy
from costhub.dataset.doctor.examine import Examination, examine_database
from costhub.dataset.metaschedule.import_database import import_database
from costhub.dataset.metaschedule.origin import ORIGIN_FILE, read_origin
from costhub.errors import DataError

RECORDS, WORKLOADS = "database_tuning_record.json", "database_workload.json"


def examine(folder: Path, **options: Any) -> Examination:
    return examine_database(folder, workers=1, progress=False, **options)


def halves(search: Any, root: Path) -> list[Path]:
    """Two folders that share three records; in the second one, the workloads are numbered the other way round."""
    first = type(search)(list(search.workloads), search.records[:7])
    second = type(search)(search.workloads[::-1], search.records[4:])
    for number in range(len(second.records)):
        second.change(number, workload=1 - second.record(number)[0])
    return [first.write(root / "first"), second.write(root / "second")]


def test_folders_of_one_target_become_one(search: Any, contents: Any, tmp_path: Path) -> None:
    said, loaded = contents
    examinations = [examine(folder) for folder in halves(search, tmp_path)]

    check_one_target(examinations)
    report = write_clean_copy(examinations, tmp_path / "all")

    assert loaded(tmp_path / "all") == said(search.records)
    assert (report.workloads, report.records, report.duplicates, report.translated) == (2, 12, 3, 0)
    assert examine(tmp_path / "all").identity == examine(search.write(tmp_path / "whole")).identity


def test_folders_of_two_targets_are_refused_with_both_named(search: Any, tmp_path: Path) -> None:
    other = type(search)(list(search.workloads), list(search.records))
    for number in range(12):
        other.change(number, target={"kind": "llvm", "num-cores": 96})
    folders = [search.write(tmp_path / "here"), other.write(tmp_path / "there")]

    with pytest.raises(
        DataError,
        match=r'2 targets: .*here \(12 records\); \{"kind":"llvm","num-cores":96\} in .*there.* merge only folders',
    ):
        check_one_target([examine(folder, replay=False) for folder in folders])


def test_lines_without_a_good_record_are_counted(search: Any, tmp_path: Path) -> None:
    folder = search.write(tmp_path / "search")
    with (folder / RECORDS).open("ab") as file:
        file.write(b'{"no": "record"}\n%s\n' % search.records[0])  # the second is held by an earlier line

    report = write_clean_copy([examine(folder)], tmp_path / "clean")

    assert (report.records, report.bad) == (12, 1)
    assert "Left out 1 that `costhub doctor` finds bad." in report.sentences()
    assert str(report) == repr(report) == "\n".join(report.sentences())
    assert write_clean_copy([examine(tmp_path / "clean")], tmp_path / "again").bad == 0


def test_nothing_is_written_over_or_left_half_written(search: Any, tmp_path: Path) -> None:
    folder = search.write(tmp_path / "db")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    found = examine(folder)

    with pytest.raises(DataError, match="db exists and is not empty"):
        write_clean_copy([found], folder)
    with (folder / RECORDS).open("r+b") as file:
        file.write(b"[9")
    with pytest.raises(DataError, match="changed while it was read"):
        write_clean_copy([found], tmp_path / "clean")
    (folder / RECORDS).write_bytes(before[RECORDS].splitlines()[0])
    with pytest.raises(DataError, match="changed while it was read"):
        write_clean_copy([found], tmp_path / "clean")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["db"]


def test_records_that_a_running_search_appends_are_left_for_the_next_time(search: Any, tmp_path: Path) -> None:
    later, search.records = search.records[10:], search.records[:10]
    folder = search.write(tmp_path / "db")
    found = examine(folder)
    with (folder / RECORDS).open("ab") as file:
        file.write(b"\n".join(later) + b"\n")

    assert write_clean_copy([found], tmp_path / "clean").records == 10


def test_a_copy_needs_a_good_record_and_replayed_schedules(search: Any, tmp_path: Path) -> None:
    folder = search.write(tmp_path / "db")
    with pytest.raises(DataError, match="needs replayed schedules"):
        write_clean_copy([examine(folder, replay=False)], tmp_path / "clean")
    search.records = [b"[]"]
    with pytest.raises(DataError, match=r"No record in .* is good"):
        write_clean_copy([examine(search.write(tmp_path / "empty"))], tmp_path / "clean")

    assert not (tmp_path / "clean").exists()


def test_a_copy_without_failures_says_so_where_all_programs_failed(search: Any, tmp_path: Path) -> None:
    search.records = search.records[:2]
    for number in range(2):
        search.change(number, run_secs=[1e10])

    with pytest.raises(DataError, match=r"all 2 good records in .*db failed.* Without --no-failures they are kept"):
        write_clean_copy([examine(search.write(tmp_path / "db"))], tmp_path / "clean", failures=False)


def test_a_program_that_computes_something_else_stays_out(search: Any, tmp_path: Path) -> None:
    found = examine(search.write(tmp_path / "db"))
    found.records[3].is_wrong = True

    report = write_clean_copy([found], tmp_path / "clean")

    assert (report.records, report.wrong) == (11, 1)
    assert search.records[3] not in (tmp_path / "clean" / RECORDS).read_bytes().splitlines()


def test_a_line_stays_letter_by_letter(search: Any, tmp_path: Path) -> None:
    spaced = json.dumps(json.loads(search.records[2])).encode()
    search.records[2] = b"[ " + spaced[1:]

    write_clean_copy([examine(search.write(tmp_path / "db"))], tmp_path / "clean")

    line = (tmp_path / "clean" / RECORDS).read_bytes().splitlines()[2]
    assert line.partition(b",")[2] == spaced.partition(b",")[2]


def test_an_import_of_a_copy_names_the_tvm_that_measured(real: Path, tmp_path: Path) -> None:
    write_clean_copy([examine(real / "bennu-tvm017")], tmp_path / "clean")
    write_clean_copy([examine(tmp_path / "clean")], tmp_path / "again")

    rows = []
    for folder in (real / "bennu-tvm017", tmp_path / "clean", tmp_path / "again"):
        out = tmp_path / f"rows-{folder.name}"
        import_database(folder, out, device={"device_id": "cpu0"}, workers=1, progress=False)
        rows.append(set(costhub.load_measurements(out)["tvm_version"].to_pylist()))

    assert len(rows[0]) == 1
    assert not any(version.startswith("0.27") for version in rows[0])
    assert rows[1] == rows[2] == rows[0]


def test_a_copy_of_workloads_with_odd_versions_can_be_read_again(real: Path, tmp_path: Path) -> None:
    folder = tmp_path / "db"
    shutil.copytree(real / "bennu-tvm017", folder)
    lines = []
    packed = folder / f"{WORKLOADS}.gz"
    for line in gzip.decompress(packed.read_bytes()).splitlines():
        graph = json.loads(base64.b64decode(json.loads(line)[1])[8:])
        (graph.get("metadata") or graph["attrs"])["tvm_version"] = "0.17 " + "x" * 50
        blob = json.dumps(graph).encode()
        lines.append(json.dumps(["1", base64.b64encode(len(blob).to_bytes(8, "little") + blob).decode()]).encode())
    packed.write_bytes(gzip.compress(b"\n".join(lines) + b"\n"))

    write_clean_copy([examine(folder)], tmp_path / "clean")
    out = import_database(
        tmp_path / "clean", tmp_path / "rows", device={"device_id": "cpu0"}, workers=1, progress=False
    )

    assert out.refused == 0
    assert set(read_origin(tmp_path / "clean").values()) == {None}
    assert set(costhub.load_measurements(tmp_path / "rows")["tvm_version"].to_pylist()) == {None}


def test_a_workload_of_two_tvms_is_of_neither(real: Path, tmp_path: Path) -> None:
    found, other = examine(real / "bennu-tvm017"), examine(real / "bennu-tvm017")
    for workload in other.workloads.values():
        workload.examined = replace(workload.examined, tvm_version="0.23")

    write_clean_copy([found, other], tmp_path / "all")

    assert set(read_origin(tmp_path / "all").values()) == {None}


def test_a_folder_of_todays_tvm_needs_no_file_of_origin(search: Any, tmp_path: Path) -> None:
    write_clean_copy([examine(search.write(tmp_path / "db"))], tmp_path / "clean")

    assert sorted(path.name for path in (tmp_path / "clean").iterdir()) == [RECORDS, WORKLOADS]


def test_a_damaged_file_of_origin_stops_an_import_and_not_the_doctor(
    search: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = search.write(tmp_path / "db")
    (folder / ORIGIN_FILE).write_text("{}")

    assert len(examine(folder, replay=False).records) == 12
    assert "costhub_origin.json is not what" in caplog.text
    with pytest.raises(DataError, match=r"costhub_origin\.json is not what"):
        import_database(folder, tmp_path / "rows", device={"device_id": "cpu0"}, workers=1, progress=False)
    assert not (tmp_path / "rows").exists()
