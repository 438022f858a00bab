"""What is exported and imported again is what was measured."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from costhub.dataset.folder import DataFolder
from costhub.dataset.metaschedule.export import export_database
from costhub.dataset.metaschedule.import_database import import_database
from costhub.dataset.trace import program_id
from costhub.dataset.workload import module_from_json, workload_row

DEVICE = {"device_id": "cpu0", "kind": "cpu"}
TARGETS = ('{"kind":"llvm","num-cores":2}', '{"kind": "llvm", "num-cores": 4, "mcpu": "znver4"}')

seconds = st.lists(st.floats(1e-9, 1e4), max_size=3)
measured = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(TARGETS), seconds), min_size=1, max_size=40)


def said(folder: DataFolder) -> Counter[tuple[Any, ...]]:
    """What a database can hold of each measurement: it knows that a program failed, not how."""
    return Counter(
        (
            row["workload_id"],
            row["program_id"],
            row["trace"],
            json.dumps(json.loads(row["target"]), sort_keys=True),
            row["status"] == "ok",
            tuple(row["run_s"]),
        )
        for row in folder.measurements().to_pylist()
    )


@pytest.mark.slow  # two child processes import TVM for each of the examples
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(measured=measured)
def test_measurements_survive_the_way_through_a_database(
    tmp_path_factory: pytest.TempPathFactory, tiny_matmul: Any, measurement: Any, measured: Any
) -> None:
    root = tmp_path_factory.mktemp("trip")
    first = DataFolder.create(root / "first")
    first.put_workloads([workload_row(module_from_json(tiny_matmul.module_json), name="tiny", operator="matmul")])
    with first.writer("cpu0") as writer:
        for number, (program, target, run_s) in enumerate(measured):
            trace = tiny_matmul.traces[program]
            failed = {} if run_s else {"status": "run_timeout", "error": "late"}
            about = {"workload_id": tiny_matmul.workload_id, "trace": trace, "target": target}
            name = program_id(tiny_matmul.workload_id, trace)
            writer.append(measurement(number, program_id=name, run_s=run_s, **about, **failed))

    report = export_database(first.path, root / "db", workers=1)
    import_database(root / "db", root / "second", device=DEVICE, workers=1)

    assert report.records == len(measured)
    # Two lines that say the same thing are one measurement to the importer.
    assert said(DataFolder.open(root / "second")) == Counter(set(said(first)))


@pytest.mark.slow
@pytest.mark.skipif("COSTHUB_METASCHEDULE_DATA" not in os.environ, reason="names a folder with a database")
def test_a_database_of_real_measurements_survives(tmp_path: Path) -> None:
    source = Path(os.environ["COSTHUB_METASCHEDULE_DATA"])
    device = {"device_id": "some-device", "kind": "cuda"}
    import_database(source, tmp_path / "first", device=device)
    first = DataFolder.open(tmp_path / "first")

    report = export_database(first.path, tmp_path / "db")
    again = import_database(tmp_path / "db", tmp_path / "second", device=device)

    assert report.unreplayable == report.unusable == report.without_workload == 0
    assert report.records == first.measurements(columns=["record_id"]).num_rows
    assert again.refused == 0
    assert said(DataFolder.open(tmp_path / "second")) == said(first)
