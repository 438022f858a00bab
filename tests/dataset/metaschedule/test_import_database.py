from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from costhub.collector.workloads.suites import SuiteWorkload
from costhub.dataset.check.folder import check_folder
from costhub.dataset.folder import DataFolder
from costhub.dataset.metaschedule import import_database as module
from costhub.dataset.metaschedule.import_database import import_database
from costhub.dataset.metaschedule.lines import ImportReport
from costhub.dataset.schema import DEVICES, PROBED
from costhub.dataset.trace import replay, trace_to_json
from costhub.dataset.workload import module_from_json, module_to_json
from costhub.errors import DataError

DEVICE = {"device_id": "cpu0", "kind": "cpu", "cores": 2}
REAL = os.environ.get("COSTHUB_METASCHEDULE_DATA", "")


def run(path: Path, out: Path, **options: Any) -> ImportReport:
    given = {"device": DEVICE, "workers": 1, "contributor": "Ada", "licence": "MIT"}
    return import_database(path, out, **(given | options))


def test_a_database_becomes_a_sound_data_folder(tmp_path: Path, database: Any, tiny_matmul: Any) -> None:
    database.lines.append(database.record(2, [1e10]))
    path = database.write(tmp_path / "db")

    report = run(path, tmp_path / "out", names=[{"name": "mm", "networks": {"net": 3}}])

    assert report == ImportReport(workloads=1, ok=4, failed=1)
    folder = DataFolder.open(tmp_path / "out")
    assert check_folder(folder.path, deep=True) == []
    [workload] = folder.workloads().to_pylist()
    assert (workload["workload_id"], workload["name"]) == (tiny_matmul.workload_id, "mm")
    assert workload["networks"] == [{"name": "net", "weight": 3.0}]
    assert folder.devices().to_pylist()[0]["cores"] == 2
    rows = folder.measurements("cpu0").to_pylist()
    assert sorted(row["run_s"][0] for row in rows if row["status"] == "ok") == [1e-3, 2e-3, 3e-3, 4e-3]
    for row in rows:
        again = replay(module_from_json(workload["module_json"]), row["trace"])
        assert trace_to_json(again.trace) == row["trace"]


def test_importing_again_adds_nothing_and_new_lines_are_added(tmp_path: Path, database: Any) -> None:
    path = database.write(tmp_path / "db")
    run(path, tmp_path / "out")
    before = DataFolder.open(tmp_path / "out").measurements()
    files = sorted(file.name for file in (tmp_path / "out").rglob("*"))

    again = run(path, tmp_path / "out")

    assert again == ImportReport(workloads=1, known=4)
    assert DataFolder.open(tmp_path / "out").measurements().equals(before)
    assert sorted(file.name for file in (tmp_path / "out").rglob("*")) == files
    database.lines += [database.record(0, [5e-3]), database.record(0, [5e-3])]
    grown = run(database.write(path), tmp_path / "out")
    assert (grown.ok, grown.known, grown.duplicates) == (1, 4, 1)


def test_importing_again_says_which_licence_and_contributor_stay(
    tmp_path: Path, database: Any, old_format: Any
) -> None:
    path = database.write(tmp_path / "db")
    run(path, tmp_path / "out", licence=None, contributor="Bob")

    again = run(path, tmp_path / "out")
    without = run(path, tmp_path / "out", licence=None, contributor=None)

    assert again.sentences()[1] == (
        "4 records were in the folder already; their licence stays empty and their contributor stays 'Bob'. Import "
        "into a new folder to set it."
    )
    assert without.sentences()[1] == "4 records were in the folder already."
    database.workloads.append(
        old_format.workload_line(module_to_json(SuiteWorkload("made", "softmax", (4, 8)).module()))
    )
    grown = run(database.write(path), tmp_path / "out")
    assert grown.sentences()[1] == again.sentences()[1]  # though it is another session
    assert set(DataFolder.open(tmp_path / "out").measurements()["licence"].to_pylist()) == {None}


@pytest.mark.parametrize(
    "zipped",
    [
        ("database_workload.json",),
        ("database_tuning_record.json",),
        ("database_workload.json", "database_tuning_record.json"),
    ],
)
def test_either_file_may_be_gzipped(tmp_path: Path, database: Any, zipped: tuple[str, ...]) -> None:
    path = database.write(tmp_path / "db")
    for name in zipped:
        (path / f"{name}.gz").write_bytes(gzip.compress((path / name).read_bytes()))
        (path / name).unlink()

    assert run(path, tmp_path / "out").ok == 4


@pytest.mark.slow
def test_bad_lines_cost_themselves(tmp_path: Path, database: Any, old_format: ModuleType) -> None:
    crash = json.loads(database.record(0))
    crash[1][0] = [[["GetSBlock", [], ["C", "main"], ["b0"]]], [[0, None]]]
    outside = json.loads(database.record(0))
    outside[1][0][1] = [[10**6, [1, 2]]]
    database.lines[1:1] = [b"", b"\xff\xfe", json.dumps(crash).encode(), json.dumps(outside).encode()]
    database.lines[-1] = database.lines[-1][:-7]
    database.workloads.append(b'["12","*not base64*"]')

    report = run(database.write(tmp_path / "db", end=b""), tmp_path / "out")

    assert (report.ok, report.refused) == (3, 6)
    assert {(r.file.removeprefix("database_"), r.line) for r in report.refusals} == {
        ("workload.json", 2),
        ("tuning_record.json", 2),
        ("tuning_record.json", 3),
        ("tuning_record.json", 4),
        ("tuning_record.json", 5),
        ("tuning_record.json", 8),
    }
    assert check_folder(tmp_path / "out") == []


@pytest.mark.parametrize("dialect", ["0.16", "0.18", "0.21", "0.23"])
def test_a_database_of_old_tvm_gives_the_same_programs(
    tmp_path: Path, database: Any, tiny_matmul: Any, old_format: ModuleType, dialect: str
) -> None:
    mod = module_from_json(tiny_matmul.module_json)
    run(database.write(tmp_path / "new"), tmp_path / "out-new")
    database.workloads = [old_format.workload_line(json.dumps(old_format.old_graph(mod, dialect)))]
    database.traces = [old_format.old_trace(replay(mod, t), dialect) for t in tiny_matmul.traces]
    database.lines = [
        database.record(i, (1e-3 * (i + 1), 2e-3), target="llvm -num-cores 2" if dialect < "0.2" else None)
        for i in range(4)
    ]
    if dialect >= "0.2":
        database.lines = [line.replace(b"null", b'{"kind":"llvm","num-cores":2,"tag":""}') for line in database.lines]

    run(database.write(tmp_path / "old"), tmp_path / "out-old")

    columns = ["program_id", "workload_id", "target", "trace", "run_s", "status"]
    new, old = (DataFolder.open(tmp_path / f"out-{age}").measurements("cpu0", columns) for age in ("new", "old"))
    assert old.sort_by("program_id").to_pylist() == new.sort_by("program_id").to_pylist()
    assert set(DataFolder.open(tmp_path / "out-old").measurements()["tvm_version"].to_pylist()) == {f"{dialect}.0"}


def test_the_kind_of_a_device_that_nobody_knows_is_that_of_the_first_record(tmp_path: Path, database: Any) -> None:
    database.lines[0] = b"torn"

    run(database.write(tmp_path / "db"), tmp_path / "out", device={"device_id": "new-board"})

    [row] = DataFolder.open(tmp_path / "out").devices().to_pylist()
    assert (row["device_id"], row["kind"]) == ("new-board", "cpu")


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "database_tuning_record.json holds no record: the search has measured nothing yet."),
        ([b"", b"  "], "holds no record: the search has measured nothing yet."),
        ([b"", b"torn"], "says what kind of device"),
    ],
)
def test_without_a_record_that_names_a_kind_of_device_nothing_is_imported(
    tmp_path: Path, database: Any, lines: list[bytes], words: str
) -> None:
    database.lines = lines
    with pytest.raises(DataError, match=words):
        run(database.write(tmp_path / "empty", end=b""), tmp_path / "none", device={"device_id": "new-board"})
    assert not (tmp_path / "none").exists()


def test_a_device_without_an_id_is_refused_before_anything_is_read(tmp_path: Path, database: Any) -> None:
    with pytest.raises(DataError, match="has no `device_id`"):
        run(database.write(tmp_path / "db"), tmp_path / "none", device={"kind": "cpu"})
    assert not (tmp_path / "none").exists()


def test_a_device_that_the_folder_describes_gets_what_it_lacks_and_keeps_the_rest(
    tmp_path: Path, database: Any
) -> None:
    path, out = database.write(tmp_path / "db"), tmp_path / "out"
    DataFolder.create(out).put_device({**DEVICE, "cores": 64})

    report = run(path, out, device={**DEVICE, "simd_bits": 128, "isa_features": ["neon"], "peak_gflops": 90.0})
    again = run(path, out, device={"device_id": "cpu0"})

    [row] = DataFolder.open(out).devices().to_pylist()
    assert (row["cores"], row["simd_bits"], row["isa_features"], row["peak_gflops"]) == (64, 128, ["neon"], 90.0)
    assert report.device_keeps == ["cores"]
    assert report.sentences()[1] == (
        "The folder keeps what it says of the device in cores, which differs from what was given; "
        "`DataFolder.put_device` replaces the row."
    )
    assert again == ImportReport(workloads=1, known=4)


def test_the_figures_of_a_probe_are_not_completed_by_those_of_another(tmp_path: Path, database: Any) -> None:
    probed = {**DEVICE, "l1_gbs": 50.0, "probed_at": datetime(2026, 11, 1, tzinfo=timezone.utc)}
    DataFolder.create(tmp_path / "out").put_device(probed)

    report = run(
        database.write(tmp_path / "db"), tmp_path / "out", device={**DEVICE, "peak_gflops": 90.0, "vendor": "arm"}
    )

    [row] = DataFolder.open(tmp_path / "out").devices().to_pylist()
    assert (row["l1_gbs"], row["peak_gflops"], row["vendor"]) == (50.0, None, "arm")
    assert report.device_keeps == ["peak_gflops"]
    names = [column.name for column in DEVICES]
    assert set(PROBED) == set(names[names.index("peak_gflops") :])


def test_a_device_of_another_kind_is_refused(tmp_path: Path, database: Any) -> None:
    DataFolder.create(tmp_path / "out").put_device({"device_id": "cpu0", "kind": "cuda"})

    with pytest.raises(DataError, match="as a device of kind 'cuda', but the import is of kind 'cpu'"):
        run(database.write(tmp_path / "db"), tmp_path / "out")


def test_rows_of_another_compiler_are_not_mixed_with_native_ones(tmp_path: Path, database: Any) -> None:
    path = database.write(tmp_path / "db")
    run(path, tmp_path / "native")
    native, other = DataFolder.open(tmp_path / "native"), DataFolder.create(tmp_path / "out")
    other.put_device(native.devices().to_pylist()[0])
    other.put_workloads(native.workloads().to_pylist())
    with other.writer("cpu0") as writer:
        for row in native.measurements().to_pylist():
            writer.append({**row, "transplanted_from": "ansor"})

    with pytest.raises(DataError, match="measurements of 'cpu0' that were replayed from another compiler's logs"):
        run(path, tmp_path / "out")


@pytest.mark.parametrize("missing", ["database_workload.json", "database_tuning_record.json"])
def test_a_folder_without_the_two_files_is_refused(tmp_path: Path, database: Any, missing: str) -> None:
    path = database.write(tmp_path / "db")
    (path / missing).unlink()

    with pytest.raises(DataError, match=f"is not a MetaSchedule database: it lacks {missing}"):
        run(path, tmp_path / "out")
    with pytest.raises(DataError, match=r"There is no folder .*nowhere\.$"):
        run(tmp_path / "nowhere", tmp_path / "out")
    (tmp_path / "notes.txt").touch()
    with pytest.raises(DataError, match=rf"notes\.txt is a file: give the folder of the database, {tmp_path}\.$"):
        run(tmp_path / "notes.txt", tmp_path / "out")


def test_files_in_each_others_place_are_refused(tmp_path: Path, database: Any) -> None:
    path = database.write(tmp_path / "db")
    one, other = path / "database_workload.json", path / "database_tuning_record.json"
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)

    with pytest.raises(DataError, match=r"holds no workload that TVM 0.27 can read. Line 1: it is not \["):
        run(path, tmp_path / "out")


def test_an_import_that_is_killed_goes_on_where_it_stopped(
    tmp_path: Path, database: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = np.random.default_rng(0).lognormal(-7.0, 0.3, 640).tolist()
    database.lines = [database.record(i % 4, [each]) for i, each in enumerate(seconds)]
    path, out = database.write(tmp_path / "db"), tmp_path / "out"
    code = (
        "import sys; from costhub.dataset.metaschedule import import_database as m; m._BATCH = 4; "
        f"m.import_database(sys.argv[1], sys.argv[2], device={DEVICE!r}, licence='MIT', workers=1)"
    )
    child = subprocess.Popen([sys.executable, "-c", code, path, out])
    shards = out / "measurements/cpu0"
    while child.poll() is None and not (shards.is_dir() and len(list(shards.glob("*.parquet"))) > 2):
        time.sleep(0.01)
    assert child.poll() is None
    child.send_signal(signal.SIGKILL)
    child.wait()
    before = DataFolder.open(out).measurements()["record_id"].to_pylist()
    monkeypatch.setattr(module, "_BATCH", 160)

    report = run(path, out)

    assert 0 < len(before) < 640
    assert (report.known, report.ok) == (len(before), 640 - len(before))
    assert len(set(DataFolder.open(out).measurements()["record_id"].to_pylist())) == 640
    assert check_folder(out) == []


@pytest.mark.slow
@pytest.mark.skipif(not REAL, reason="COSTHUB_METASCHEDULE_DATA names no database")
def test_a_real_database_comes_in_whole(tmp_path: Path) -> None:
    shutil.copytree(REAL, tmp_path / "db")

    report = import_database(
        tmp_path / "db", tmp_path / "out", device={"device_id": "real"}, licence="MIT", progress=False
    )

    assert report.refusals == []
    assert report.ok > 0
    assert check_folder(tmp_path / "out") == []
