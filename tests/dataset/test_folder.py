from __future__ import annotations

import threading
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from costhub.dataset.folder import DataFolder, first_of_each
from costhub.dataset.schema import arrow_schema, table_from_rows
from costhub.dataset.shards.shard import write_shard
from costhub.dataset.shards.shard_set import shard_name, shard_paths
from costhub.errors import DataError


@pytest.fixture
def root(tmp_path: Path) -> DataFolder:
    return DataFolder.create(tmp_path / "data")


def fill(root: DataFolder, rows: list[dict[str, Any]]) -> None:
    with root.writer(rows[0]["device_id"]) as writer:
        for row in rows:
            writer.append(row)


def test_a_new_folder_has_its_three_tables_empty(root: DataFolder) -> None:
    assert root.devices().schema.equals(arrow_schema("devices"))
    assert root.workloads().num_rows == 0
    assert root.measurements().schema.equals(arrow_schema("measurements"))
    assert root.device_ids() == []


def test_creating_a_folder_that_is_there_opens_it(root: DataFolder) -> None:
    root.put_device({"device_id": "cpu0", "kind": "cpu"})
    (root.path / "README.md").write_text("my own words")

    again = DataFolder.create(root.path)

    assert again.devices().num_rows == 1
    assert (root.path / "README.md").read_text() == "my own words"


def test_a_creation_that_was_interrupted_is_finished(tmp_path: Path) -> None:
    (tmp_path / "measurements").mkdir()

    DataFolder.create(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["README.md", "devices", "measurements", "workloads"]


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()

    with pytest.raises(DataError, match="holds other files and is not a data folder"):
        DataFolder.create(tmp_path)
    with pytest.raises(DataError, match="is not a data folder: it has no folder `measurements`"):
        DataFolder.open(tmp_path)
    with pytest.raises(DataError, match="is a file; give the name of a folder"):
        DataFolder.create(tmp_path / "thesis.tex")
    with pytest.raises(DataError, match=r"The folder .*nothing does not exist"):
        DataFolder.open(tmp_path / "nothing")


def test_a_device_is_added_and_then_replaced(root: DataFolder) -> None:
    probed = datetime(2026, 1, 1, tzinfo=timezone.utc)
    root.put_device({"device_id": "a", "kind": "cpu", "cores": 2})
    root.put_device({"device_id": "b", "kind": "cuda", "aliases": ["bee"]})
    root.put_device({"device_id": "a", "kind": "cpu", "cores": 4, "probed_at": probed})

    rows = root.devices().to_pylist()
    assert [(row["device_id"], row["cores"], row["aliases"]) for row in rows] == [
        ("a", 4, None),
        ("b", None, ["bee"]),
    ]
    assert rows[0]["probed_at"] == probed
    assert [p.name for p in (root.path / "devices").glob("*.parquet")] == [shard_name(0, 1)]


def test_workloads_are_put_together(root: DataFolder, workload: Any) -> None:
    root.put_workloads([workload(1), workload(0)])
    root.put_workloads([workload(1, name="renamed"), workload(2)])

    rows = root.workloads().to_pylist()
    assert [(row["workload_id"], row["name"]) for row in rows] == [
        ("w0", "matmul0"),
        ("w1", "renamed"),
        ("w2", "matmul2"),
    ]


def test_putting_what_is_there_writes_nothing(root: DataFolder, workload: Any) -> None:
    root.put_workloads([workload(0)])
    before = (root.path / "workloads" / shard_name(0, 1)).stat()
    root.put_workloads([workload(0)])

    after = (root.path / "workloads" / shard_name(0, 1)).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_row_that_does_not_fit_changes_nothing(root: DataFolder, workload: Any) -> None:
    root.put_workloads([workload(0)])
    with pytest.raises(DataError, match="Row 1 of workloads lacks the column 'flop'"):
        root.put_workloads([workload(1), workload(2, flop=None)])

    assert root.workloads()["workload_id"].to_pylist() == ["w0"]


def test_several_workload_files_become_one(root: DataFolder, workload: Any) -> None:
    folder = root.path / "workloads"
    write_shard(table_from_rows("workloads", [workload(0), workload(1)]), folder / shard_name(0, 2))
    write_shard(table_from_rows("workloads", [workload(1), workload(2)]), folder / shard_name(1, 2))
    assert root.workloads()["workload_id"].to_pylist() == ["w0", "w1", "w2"]

    root.put_workloads([workload(3)])
    assert [p.name for p in shard_paths(folder)] == [shard_name(0, 1)]
    assert root.workloads()["workload_id"].to_pylist() == ["w0", "w1", "w2", "w3"]


def test_two_threads_putting_workloads_lose_none(root: DataFolder, workload: Any) -> None:
    def put(first: int) -> None:
        for number in range(first, first + 8):
            root.put_workloads([workload(number)])

    threads = [threading.Thread(target=put, args=(first,)) for first in (0, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert root.workloads().num_rows == 16


def test_a_folder_without_measurements_has_no_device_to_name(root: DataFolder) -> None:
    with pytest.raises(DataError, match=r"holds no measurements yet; `costhub collect --out .*` adds some"):
        root.only_device(" with --device.")
    for device_id in ("cpu0", "cpu1"):
        root.writer(device_id).close()
    with pytest.raises(DataError, match=r"of 2 devices \(cpu0, cpu1\); name one of them with --device"):
        root.only_device(" with --device.")


def test_measurements_are_chosen_by_device_status_and_column(root: DataFolder, measurement: Any) -> None:
    fill(root, [measurement(0), measurement(1, status="run_error", error="x", run_s=[])])
    fill(root, [measurement(2, device_id="cpu1")])

    assert root.device_ids() == ["cpu0", "cpu1"]
    assert root.measurements(columns=["record_id"]).to_pydict() == {"record_id": ["r00000", "r00001", "r00002"]}
    assert root.measurements("cpu0", ["status"], "ok").to_pydict() == {"status": ["ok"]}
    assert root.measurements(status="run_error")["error"].to_pylist() == ["x"]
    twice = list(root.iter_measurements(["cpu1", "cpu1"], columns=["record_id"]))
    assert [batch.to_pydict() for batch in twice] == [{"record_id": ["r00002"]}]


def test_the_choice_holds_for_rows_in_the_journal_as_well(root: DataFolder, measurement: Any) -> None:
    with root.writer("cpu0") as writer:
        writer.append(measurement(0))
        writer.append(measurement(1, status="run_error", error="x", run_s=[]))
        assert root.measurements("cpu0", ["record_id"], "ok").to_pydict() == {"record_id": ["r00000"]}


def test_what_is_not_there_is_refused_with_what_is(root: DataFolder, measurement: Any) -> None:
    fill(root, [measurement(0)])

    with pytest.raises(DataError, match="no measurements of 'gpu'; it has those of cpu0"):
        root.measurements("gpu")
    with pytest.raises(DataError, match="The table measurements has no column 'speed'"):
        root.measurements(columns=["speed"])


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\\b", ".hidden", "My GPU", "gpu\n"])
def test_a_name_that_leaves_the_folder_cannot_be_a_device(root: DataFolder, name: str) -> None:
    with pytest.raises(DataError, match="cannot name a device"):
        root.writer(name)


def test_a_reader_misses_no_row_while_the_writer_compacts(root: DataFolder, measurement: Any) -> None:
    acknowledged = [0]
    stop = threading.Event()

    def write() -> None:
        with root.writer("cpu0", compact_rows=3) as writer:
            for number in range(90):
                writer.append(measurement(number))
                acknowledged[0] = number + 1
        stop.set()

    thread = threading.Thread(target=write)
    thread.start()
    while not stop.is_set():
        at_least = acknowledged[0]
        if root.device_ids():
            found = root.measurements(columns=["record_id"])["record_id"].to_pylist()
            assert len(set(found)) == len(found) >= at_least
    thread.join()

    assert root.measurements().num_rows == 90


def test_the_first_row_of_each_key_is_kept_in_order() -> None:
    table = pa.table({"id": ["b", "a", "b", "c", "a"], "x": [0, 1, 2, 3, 4]})

    assert first_of_each(table, "id").to_pydict() == {"id": ["b", "a", "c"], "x": [0, 1, 3]}


@pytest.mark.parametrize("columns", [None, ["run_s"], ["status", "record_id"]])
@pytest.mark.parametrize("batch_rows", [1, 3, 100])
def test_batches_hold_what_the_whole_table_does(
    root: DataFolder, measurement: Any, columns: list[str] | None, batch_rows: int
) -> None:
    for device_id, numbers in (("cpu0", range(0, 5)), ("cpu1", range(5, 9))):
        with root.writer(device_id) as writer:
            for number in numbers:
                writer.append(measurement(number, device_id=device_id))
    where = pc.field("workload_id") != "w1"

    batches = list(root.iter_measurements(None, columns, where, batch_rows=batch_rows))

    assert max(batch.num_rows for batch in batches) <= batch_rows
    assert pa.Table.from_batches(batches).equals(root.select_measurements(None, columns, where))
