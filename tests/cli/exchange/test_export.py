from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tvm import te
from tvm.s_tir import meta_schedule as ms

from costhub.dataset.folder import DataFolder
from costhub.dataset.workload import workload_row

Costhub = Callable[..., Any]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with two programs of one workload, and a failure, on one device."""
    import tvm

    a = te.placeholder((16, 16), name="A")
    function = te.create_prim_func([a, te.compute((16, 16), lambda i, j: a[i, j] + 1.0, name="C")])
    mod = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    folder = DataFolder.create(tmp_path / "data")
    row = workload_row(mod, name="plus.one", operator="elementwise")
    folder.put_workloads([row])
    loops = '["GetSBlock",[],["C","main"],["b0"]],["GetLoops",["b0"],[],["l1","l2"]]'
    trace = f'[[{loops},["Parallel",["l1"],[],[]]],[]]'
    programs = [
        (trace, [1e-3]),
        (trace.replace('["Parallel",["l1"]', '["Parallel",["l2"]'), [2e-3]),
        (trace, []),
    ]
    with folder.writer("acme-one") as writer:
        for number, (program, run_s) in enumerate(programs):
            writer.append(
                {
                    "record_id": f"r{number}",
                    "program_id": f"p{number}",
                    "workload_id": row["workload_id"],
                    "device_id": "acme-one",
                    "target": '{"kind":"llvm","num-cores":2}',
                    "trace": program,
                    "status": "ok" if run_s else "run_error",
                    "error": None if run_s else "it failed",
                    "run_s": run_s,
                    "proposed_by": "random",
                }
            )
    return folder.path


def test_a_database_is_written_and_described(costhub: Costhub, data: Path, tmp_path: Path) -> None:
    output = costhub("export", "metaschedule", str(data), "--device", "acme-one", "--out", str(tmp_path / "db"))

    assert (output.code, output.err) == (0, "")
    assert output.out == f"Wrote 3 records of 1 workload on acme-one to {tmp_path / 'db'}; 1 of them failed.\n"
    assert len(ms.database.JSONDatabase(work_dir=str(tmp_path / "db"))) == 3


@pytest.mark.slow
def test_options_choose_the_records(costhub: Costhub, data: Path, tmp_path: Path) -> None:
    chosen = ["--best", "1", "--workload", "plus.one", "--operator", "elementwise", "--no-failures"]
    output = costhub("export", "metaschedule", str(data), "--out", str(tmp_path / "db"), *chosen, "--json")

    found = json.loads(output.out)
    assert (found["records"], found["failures"], found["folder"]) == (1, 0, str(tmp_path / "db"))
    [line] = (tmp_path / "db" / "database_tuning_record.json").read_text().splitlines()
    assert json.loads(line)[1][1] == [1e-3]


def test_a_folder_that_holds_something_is_refused(costhub: Costhub, data: Path) -> None:
    output = costhub("export", "metaschedule", str(data), "--out", str(data))

    assert output.code == 2
    assert "exists and is not empty" in output.err
