from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from costhub.dataset.folder import DataFolder
from costhub.dataset.load import FormatError, convert_table, iter_measurements, load_measurements
from costhub.dataset.schema import table_from_rows
from costhub.dataset.shards.shard_set import add_shard
from costhub.errors import DataError, UnknownNameError

build_groups = runpy.run_path(str(Path(__file__).with_name("grouped_folder.py")))["build_groups"]


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


def numbers(table: pa.Table | pa.RecordBatch) -> list[int]:
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
        ({"status": []}, []),
        ({"workload": []}, []),
    ],
)
def test_measurements_are_chosen_by_what_they_are(
    root: DataFolder, choice: dict[str, Any], expected: list[int]
) -> None:
    assert numbers(load_measurements(root.path, **choice)) == expected
    batches = list(iter_measurements(root.path, batch_rows=2, **choice))
    assert sorted(n for batch in batches for n in numbers(batch)) == expected
    assert all(0 < batch.num_rows <= 2 for batch in batches)


def test_columns_are_chosen_by_name(root: DataFolder) -> None:
    assert load_measurements(root.path, columns=["run_s", "status"]).column_names == ["run_s", "status"]
    for batch in iter_measurements(root.path, columns=["run_s", "status"]):
        assert batch.schema.names == ["run_s", "status"]


@pytest.mark.parametrize("read", [load_measurements, iter_measurements])
@pytest.mark.parametrize(
    ("choice", "sentence"),
    [
        ({"workload": "matmul9"}, r"no workload named 'matmul9'. Did you mean matmul2"),
        ({"operator": "mathmul"}, r"no operator named 'mathmul'. Did you mean matmul\?"),
        ({"status": "okay"}, r"no status named 'okay'. Did you mean ok\?"),
    ],
)
def test_a_mistyped_name_is_refused_with_the_close_ones(
    root: DataFolder, read: Any, choice: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UnknownNameError, match=sentence):
        read(root.path, **choice)


def test_an_unknown_column_is_refused_before_the_first_batch(root: DataFolder) -> None:
    with pytest.raises(DataError, match="has no column 'latency'"):
        iter_measurements(root.path, columns=["latency"])


def test_a_folder_is_whole_while_shards_are_renamed(tmp_path: Path, measurement: Any) -> None:
    folder = DataFolder.create(tmp_path / "data")
    place = folder.path / "measurements/cpu0"
    place.mkdir()
    written = 0

    def write() -> None:
        nonlocal written
        for number in range(40):
            # Every new shard gives all the others another name.
            add_shard(place, table_from_rows("measurements", [measurement(number)]))
            written = number + 1

    writer = Thread(target=write)
    writer.start()
    while writer.is_alive():
        before = written
        assert load_measurements(folder.path).num_rows >= before
    writer.join()
    assert load_measurements(folder.path).num_rows == written == 40


def test_a_row_group_that_cannot_match_is_not_read(tmp_path: Path) -> None:
    folder = build_groups(tmp_path / "data")
    path = folder.path / "measurements/cpu0/train-00000-of-00001.parquet"
    last = pq.ParquetFile(path).metadata.row_group(19).column(0)
    content = bytearray(path.read_bytes())
    start = last.data_page_offset
    content[start : start + last.total_compressed_size] = bytes(last.total_compressed_size)
    path.write_bytes(content)

    # Whoever touches the last row group, of the workload w19, would fail on what is left of it.
    assert load_measurements(folder.path, workload="w18").num_rows == 250
    with pytest.raises(DataError, match="cannot be read"):
        load_measurements(folder.path, workload="w19")


TABLE = pa.table({"status": ["ok", None], "run_s": [[1.0, 2.0], []]})


def test_the_rows_are_the_same_in_every_form() -> None:
    rows = TABLE.to_pylist()

    assert convert_table(TABLE, "arrow") is TABLE
    assert list(convert_table(TABLE, "datasets")) == rows
    assert [list(runs) for runs in convert_table(TABLE, "pandas")["run_s"]] == [[1.0, 2.0], []]


def test_an_unknown_form_is_refused() -> None:
    form: Any = "polars"
    with pytest.raises(FormatError, match="'polars' is not a format; use 'arrow', 'pandas' or 'datasets'"):
        convert_table(TABLE, form)


@pytest.mark.parametrize("form", ["pandas", "datasets"])
def test_a_missing_package_is_named(form: str) -> None:
    # In a child process: this one has imported it.
    code = f"""
import sys
class Absent:
    def find_spec(self, name, *rest):
        if name == {form!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
import pyarrow as pa
from costhub.dataset.load import FormatError, convert_table
try:
    convert_table(pa.table({{"status": ["ok"]}}), {form!r})
except FormatError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert f"needs the package {form}, which is not installed: `pip install 'costhub[datasets]'`" in done.stdout
