from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from costhub.dataset.folder import DataFolder
from costhub.dataset.load import load_measurements
from costhub.errors import UnknownNameError


@pytest.fixture
def root(tmp_path: Path, measurement: Any, workload: Any) -> DataFolder:
    """Nine measurements of three workloads on two devices, one failed, the last still in the journal."""
    root = DataFolder.create(tmp_path / "data")
    root.put_workloads([workload(0), workload(1, operator="softmax"), workload(2)])
    for first, device_id in ((0, "cpu0"), (6, "cpu1")):
        with root.writer(device_id) as writer:
            for number in range(first, first + (6 if first == 0 else 2)):
                failed = {"status": "run_error", "error": "x", "run_s": []} if number == 3 else {}
                writer.append(measurement(number, device_id=device_id, **failed))
    with root.writer("cpu1") as writer:
        writer.append(measurement(8, device_id="cpu1"))
        journal = (root.path / "measurements/cpu1/journal.jsonl").read_bytes()
    (root.path / "measurements/cpu1/train-00001-of-00002.parquet").unlink()
    (root.path / "measurements/cpu1/journal.jsonl").write_bytes(journal)
    return root


def numbers(table: pa.Table) -> list[int]:
    return sorted(int(record_id[1:]) for record_id in table["record_id"].to_pylist())


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({}, [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        ({"device": "cpu1"}, [6, 7, 8]),
        ({"device": ["cpu0", "cpu1"], "status": "run_error"}, [3]),
        ({"status": ["ok", "run_error"]}, [0, 1, 2, 3, 4, 5, 6, 7, 8]),
        ({"workload": "w2"}, [2, 5, 8]),
        ({"workload": "matmul2"}, [2, 5, 8]),
        ({"workload": ["w2", "matmul0"], "status": "ok"}, [0, 2, 5, 6, 8]),
        ({"operator": "softmax"}, [1, 4, 7]),
        ({"operator": "matmul", "device": "cpu1"}, [6, 8]),
        ({"operator": "no_such_family"}, []),
        ({"status": []}, []),
    ],
)
def test_measurements_are_chosen_by_what_they_are(
    root: DataFolder, choice: dict[str, Any], expected: list[int]
) -> None:
    assert numbers(load_measurements(root.path, **choice)) == expected


def test_columns_are_chosen_by_name(root: DataFolder) -> None:
    assert load_measurements(root.path, columns=["run_s", "status"]).column_names == ["run_s", "status"]


def test_an_unknown_workload_is_refused_with_the_close_ones(root: DataFolder) -> None:
    with pytest.raises(UnknownNameError, match=r"no workload named 'matmul9'. Did you mean matmul2 or"):
        load_measurements(root.path, workload="matmul9")
