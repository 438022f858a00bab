from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from costhub.dataset.folder import DataFolder
from costhub.dataset.schema import table_from_rows
from costhub.dataset.shards import writer as writer_module
from costhub.dataset.shards.journal import read_journal
from costhub.dataset.shards.shard import read_shard
from costhub.dataset.shards.shard_set import shard_name, shard_paths
from costhub.dataset.shards.writer import MeasurementWriter
from costhub.errors import DataError

CHILD = Path(__file__).with_name("appending_child.py")
KILLS = 10


@pytest.fixture
def root(tmp_path: Path) -> DataFolder:
    return DataFolder.create(tmp_path / "data")


@pytest.fixture
def folder(root: DataFolder) -> Path:
    return root.path / "measurements" / "cpu0"


def raw_ids(folder: Path) -> list[str]:
    """The ids in shards and journal as they lie there, doubles included."""
    ids = [i for path in shard_paths(folder) for i in read_shard(path)["record_id"].to_pylist()]
    return ids + [row["record_id"] for row in read_journal(folder / "journal.jsonl")[0]]


def ids(root: DataFolder) -> list[str]:
    found: list[str] = root.measurements()["record_id"].to_pylist()
    return sorted(found)


def fill(root: DataFolder, measurement: Any, numbers: range, compact_rows: int = 4) -> None:
    with root.writer("cpu0", compact_rows=compact_rows) as writer:
        for number in numbers:
            writer.append(measurement(number))


def test_rows_are_in_shards_after_leaving_and_the_journal_is_gone(
    root: DataFolder, folder: Path, measurement: Any
) -> None:
    fill(root, measurement, range(10))

    assert [p.name for p in shard_paths(folder)] == [shard_name(i, 3) for i in range(3)]
    assert not (folder / "journal.jsonl").exists()
    assert sorted(raw_ids(folder)) == [f"r{i:05d}" for i in range(10)]


def test_arrow_alone_opens_a_folder_whose_writer_has_left(root: DataFolder, folder: Path, measurement: Any) -> None:
    fill(root, measurement, range(10))

    # As pandas does: every file whose name does not begin with a dot is taken for a shard.
    assert pq.read_table(folder, columns=["status"]).num_rows == 10


def test_rows_can_be_read_before_they_are_in_a_shard(root: DataFolder, folder: Path, measurement: Any) -> None:
    with root.writer("cpu0") as writer:
        writer.append(measurement(0))
        assert shard_paths(folder) == []
        assert ids(root) == ["r00000"]


def test_leaving_without_rows_makes_no_shard(root: DataFolder, folder: Path) -> None:
    with root.writer("cpu0"):
        pass

    assert shard_paths(folder) == []


def test_an_exception_in_the_with_block_loses_nothing(root: DataFolder, folder: Path, measurement: Any) -> None:
    def interrupted() -> None:
        with root.writer("cpu0") as writer:
            writer.append(measurement(0))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    assert ids(root) == ["r00000"]
    assert len(shard_paths(folder)) == 1


def test_a_second_writer_is_refused(root: DataFolder) -> None:
    with root.writer("cpu0"), pytest.raises(DataError, match="is being written by another process"):
        root.writer("cpu0")


def test_two_devices_can_be_written_at_once(root: DataFolder, measurement: Any) -> None:
    with root.writer("cpu0") as one, root.writer("cpu1") as two:
        one.append(measurement(0))
        two.append(measurement(1, device_id="cpu1"))

    assert ids(root) == ["r00000", "r00001"]


@pytest.mark.parametrize("journaled", [True, False])
def test_a_record_id_that_is_taken_is_refused(root: DataFolder, measurement: Any, journaled: bool) -> None:
    with root.writer("cpu0") as writer:
        writer.append(measurement(0))
        if not journaled:
            writer.compact()
        with pytest.raises(DataError, match="record 'r00000' is already in"):
            writer.append(measurement(0))

    assert ids(root) == ["r00000"]


def test_a_row_of_another_device_is_refused(root: DataFolder, measurement: Any) -> None:
    with (
        root.writer("cpu0") as writer,
        pytest.raises(DataError, match="from device 'gpu'; this writer is for"),
    ):
        writer.append(measurement(0, device_id="gpu"))

    assert ids(root) == []


def test_record_keys_are_those_of_shards_and_journal(root: DataFolder, measurement: Any) -> None:
    fill(root, measurement, range(2))
    with root.writer("cpu0") as writer:
        writer.append(measurement(2))
        assert writer.record_keys == {"r00000", "r00001", "r00002"}


def test_an_unreadable_shard_stops_the_writer_and_nothing_is_overwritten(
    root: DataFolder, folder: Path, measurement: Any
) -> None:
    fill(root, measurement, range(8))
    shard = shard_paths(folder)[1]
    shard.write_bytes(shard.read_bytes()[:-20])
    (folder / "journal.jsonl").write_bytes(b'{"record_id"')
    before = {p.name: p.read_bytes() for p in folder.iterdir() if p.name != ".lock"}

    with pytest.raises(DataError, match=rf"{shard.name} is not a complete Parquet file"):
        root.writer("cpu0")
    assert {p.name: p.read_bytes() for p in folder.iterdir() if p.name != ".lock"} == before


def test_foreign_parquet_stops_the_writer(root: DataFolder, folder: Path, measurement: Any) -> None:
    fill(root, measurement, range(2))
    pq.write_table(pa.table({"x": [1]}), folder / "train-foreign.parquet")

    with pytest.raises(DataError, match=r"train-foreign\.parquet is Parquet, but not a shard of costhub"):
        root.writer("cpu0")


def test_the_lock_is_given_back_when_the_writer_refuses(root: DataFolder, folder: Path, measurement: Any) -> None:
    fill(root, measurement, range(1))
    (folder / "train-x.parquet").write_bytes(b"")
    with pytest.raises(DataError):
        root.writer("cpu0")
    (folder / "train-x.parquet").unlink()

    fill(root, measurement, range(1, 2))
    assert ids(root) == ["r00000", "r00001"]


def test_a_crash_between_the_shard_and_emptying_the_journal_doubles_nothing(
    root: DataFolder, folder: Path, measurement: Any
) -> None:
    with root.writer("cpu0") as writer:
        for number in range(3):
            writer.append(measurement(number))
        journal = (folder / "journal.jsonl").read_bytes()
    (folder / "journal.jsonl").write_bytes(journal)

    assert len(raw_ids(folder)) == 6
    assert ids(root) == ["r00000", "r00001", "r00002"]
    fill(root, measurement, range(3, 4))
    assert sorted(raw_ids(folder)) == ["r00000", "r00001", "r00002", "r00003"]


def test_journal_rows_that_only_in_part_are_in_a_shard_are_kept(
    root: DataFolder, folder: Path, measurement: Any
) -> None:
    with root.writer("cpu0") as writer:
        for number in range(3):
            writer.append(measurement(number))
        old = (folder / "journal.jsonl").read_bytes()
    with root.writer("cpu0") as writer:
        writer.append(measurement(3))
        new = (folder / "journal.jsonl").read_bytes()
    shard_paths(folder)[1].unlink()
    (folder / "journal.jsonl").write_bytes(old + new)

    with root.writer("cpu0"):
        pass
    assert sorted(raw_ids(folder)) == ["r00000", "r00001", "r00002", "r00003"]


def test_rows_left_in_the_journal_are_taken_over(root: DataFolder, folder: Path, measurement: Any) -> None:
    with root.writer("cpu0") as writer:
        writer.append(measurement(0))
        journal = (folder / "journal.jsonl").read_bytes()
    shard_paths(folder)[0].unlink()
    (folder / "journal.jsonl").write_bytes(journal + b'{"record_id":"r00001"')

    fill(root, measurement, range(2, 3))
    assert sorted(raw_ids(folder)) == ["r00000", "r00002"]


def test_leftovers_of_an_interrupted_writer_are_cleared(root: DataFolder, folder: Path, measurement: Any) -> None:
    fill(root, measurement, range(8))
    (folder / ".writing-1-x").write_bytes(b"half")
    (folder / shard_name(0, 2)).rename(folder / shard_name(0, 1))

    with root.writer("cpu0"):
        pass
    assert [p.name for p in shard_paths(folder)] == [shard_name(0, 2), shard_name(1, 2)]
    assert not list(folder.glob(".writing-*"))


@pytest.mark.parametrize("step", ["before the shard", "after the shard"])
def test_a_compaction_that_fails_keeps_every_row(
    root: DataFolder, folder: Path, measurement: Any, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(folder: Path, table: pa.Table) -> None:
        if step == "after the shard":
            real(folder, table)
        raise OSError(28, "No space left on device")

    real = writer_module.add_shard
    with monkeypatch.context() as patch:
        patch.setattr(writer_module, "add_shard", fail)
        with pytest.raises(OSError, match="No space"):
            fill(root, measurement, range(4))

    # Leaving the writer tried once more: that must not write the rows a second time either.
    assert ids(root) == [f"r{i:05d}" for i in range(4)]
    assert len(shard_paths(folder)) == (1 if step == "after the shard" else 0)
    fill(root, measurement, range(4, 5))
    assert sorted(raw_ids(folder)) == [f"r{i:05d}" for i in range(5)]


def wait_for_rows(child: subprocess.Popen[bytes], report: Path, size: int) -> None:
    end = time.monotonic() + 60
    while not report.exists() or report.stat().st_size <= size:
        assert child.poll() is None, "the child ended by itself"
        assert time.monotonic() < end, "the child acknowledged no row within a minute"
        time.sleep(0.002)


def test_killing_the_writer_at_any_moment_loses_at_most_the_row_in_flight(
    root: DataFolder, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = tmp_path / "acknowledged"
    moments = random.Random(0)
    for _ in range(KILLS):
        size = report.stat().st_size if report.exists() else 0
        with subprocess.Popen([sys.executable, str(CHILD), str(folder), str(report)]) as child:
            wait_for_rows(child, report, size)
            time.sleep(moments.uniform(0, 0.06))
            child.kill()
            assert child.wait() == -signal.SIGKILL
        acknowledged = [int(line) for line in report.read_text().splitlines()]
        table = root.measurements(columns=["record_id", "run_s"])
        found = sorted(int(i) for i in table["record_id"].to_pylist())

        # The prefix of what was acknowledged, and at most one row that was written and not yet reported.
        assert found == list(range(len(found)))
        assert acknowledged[-1] + 1 <= len(found) <= acknowledged[-1] + 2
        assert dict(zip(table["record_id"].to_pylist(), table["run_s"].to_pylist(), strict=True)) == {
            str(i): [float(i)] for i in found
        }
    assert len(shard_paths(folder)) > KILLS / 2
    monkeypatch.setattr(writer_module, "MERGE_SHARDS", KILLS // 2)
    with MeasurementWriter(folder, "cpu0"):
        pass
    # Leaving a writer joined the many small shards.
    assert sorted(map(int, raw_ids(folder))) == found
    assert len(shard_paths(folder)) == 1


def many(measurement: Any, numbers: range) -> pa.Table:
    return table_from_rows("measurements", [measurement(number) for number in numbers])


def test_many_rows_at_once_follow_those_of_the_journal(root: DataFolder, folder: Path, measurement: Any) -> None:
    with root.writer("cpu0") as writer:
        writer.append(measurement(0))
        writer.extend(many(measurement, range(1, 5)))
        writer.extend(many(measurement, range(0)))
        assert (folder / "journal.jsonl").read_bytes() == b""
        assert len(writer.record_keys) == 5
        writer.append(measurement(5))

    assert ids(root) == [f"r{number:05d}" for number in range(6)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"record_id": "r00000"}, "is already in .*, or twice"),
        ({"record_id": "r00002"}, "is already in .*, or twice"),
        ({"device_id": "cpu1"}, "from device 'cpu1'; this writer is for 'cpu0'"),
    ],
)
def test_many_rows_are_refused_together(
    root: DataFolder, measurement: Any, changes: dict[str, Any], message: str
) -> None:
    rows = table_from_rows("measurements", [measurement(2), measurement(3, **changes)])
    with root.writer("cpu0") as writer:
        writer.append(measurement(0))
        with pytest.raises(DataError, match=message):
            writer.extend(rows)
        with pytest.raises(DataError, match="do not have the schema of measurements"):
            writer.extend(rows.select(["record_id"]))

    assert ids(root) == ["r00000"]


def test_sessions_do_not_pile_up_files(root: DataFolder, folder: Path, measurement: Any) -> None:
    for number in range(20):
        fill(root, measurement, range(number, number + 1))

    assert len(list(folder.glob("train-*.parquet"))) == 5  # sixteen were joined, four came after
    assert ids(root) == [f"r{number:05d}" for number in range(20)]
