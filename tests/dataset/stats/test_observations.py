from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.folder import DataFolder
from costhub.dataset.stats.observations import NO_ERROR_TEXT, UNKNOWN_OPERATOR, read_observations


@pytest.fixture
def root(tmp_path: Path, workload: Any) -> DataFolder:
    root = DataFolder.create(tmp_path / "data")
    root.put_workloads([workload(0), workload(1)])
    return root


def test_a_measurement_is_reduced_to_numbers(root: DataFolder, measurement: Any) -> None:
    with root.writer("cpu0") as writer:
        writer.append(measurement(0, run_s=[1e-6, 2e-6, 4e-6]))
        writer.append(measurement(2, status="run_error", error="\n boom\nin line 2", run_s=[]))

    ok, failed = read_observations(root).sort_by("program_key").to_pylist()
    assert (ok["latency_us"], ok["spread"], ok["failure"]) == (pytest.approx(2.0), pytest.approx(1.5), None)
    assert math.isnan(failed["latency_us"])
    assert math.isnan(failed["spread"])
    assert (failed["failure"], ok["operator"], failed["operator"]) == ("boom", "matmul", UNKNOWN_OPERATOR)


def test_what_a_failed_attempt_timed_is_no_latency(root: DataFolder, measurement: Any) -> None:
    with root.writer("cpu0") as writer:
        writer.append(measurement(0, status="wrong_output", error="it differs", run_s=[1e-6, 2e-6]))

    (row,) = read_observations(root).to_pylist()
    assert math.isnan(row["latency_us"])
    assert math.isnan(row["spread"])


@pytest.mark.parametrize(
    ("error", "line"),
    [(None, NO_ERROR_TEXT), (" \n", NO_ERROR_TEXT), ("a\r\nb", "a"), ("é" * 200, "é" * 120)],
)
def test_an_error_is_its_first_line(root: DataFolder, measurement: Any, error: str | None, line: str) -> None:
    with root.writer("cpu0") as writer:
        writer.append(measurement(0, status="run_error", error=error, run_s=[]))

    assert read_observations(root)["failure"].to_pylist() == [line]


def test_families_are_one_value_each_over_all_devices(root: DataFolder, measurement: Any) -> None:
    for device_id in ("cpu0", "cpu1"):
        with root.writer(device_id) as writer:
            for number in range(2):
                writer.append(measurement(number, device_id=device_id, record_id=f"{device_id}{number}"))

    counted = read_observations(root).group_by("operator").aggregate([([], "count_all")])
    assert counted.to_pylist() == [{"operator": "matmul", "count_all": 4}]


def test_an_empty_folder_has_none(root: DataFolder) -> None:
    table = read_observations(root)

    assert table.num_rows == 0
    assert {"latency_us", "operator", "failure"} <= set(table.column_names)
