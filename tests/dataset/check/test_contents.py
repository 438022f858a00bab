from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from costhub.dataset.check.contents import read_contents
from costhub.dataset.folder import DataFolder
from costhub.errors import DataError


@pytest.fixture
def root(tmp_path: Path, measurement: Any, workload: Any) -> DataFolder:
    root = DataFolder.create(tmp_path / "data")
    root.put_device({"device_id": "cpu0", "kind": "cpu"})
    root.put_workloads([workload(0)])
    with root.writer("cpu0", compact_rows=2) as writer:
        for number in range(4):
            writer.append(measurement(number))
    return root


def test_a_sound_folder_is_read_whole(root: DataFolder) -> None:
    contents = read_contents(root.path)

    assert (contents.unreadable, contents.foreign) == ([], [])
    assert (contents.devices.num_rows, contents.workloads.num_rows) == (1, 1)
    assert [s.where for s in contents.sources] == [
        "measurements/cpu0/train-00000-of-00002.parquet",
        "measurements/cpu0/train-00001-of-00002.parquet",
    ]
    assert contents.sources[0].read("record_id").num_rows == 2
    assert [f.name for f in contents.table_folders()] == ["devices", "workloads", "cpu0"]


def test_a_journal_is_a_source_while_it_has_rows(root: DataFolder, measurement: Any) -> None:
    with root.writer("cpu0") as writer:
        writer.append(measurement(9))
        contents = read_contents(root.path)

        assert [s.where for s in contents.sources if s.is_journal] == ["measurements/cpu0/journal.jsonl"]
        assert contents.sources[-1].read("record_id", "run_s").to_pydict()["record_id"] == ["r00009"]
        assert len(contents.shards) == 2


@pytest.mark.parametrize("where", ["devices", "workloads", "measurements/cpu0"])
def test_bad_files_are_noted_and_the_rest_is_read(root: DataFolder, where: str) -> None:
    (root.path / where / "train-00008-of-00009.parquet").write_bytes(b"PAR1 and no more")
    pq.write_table(pa.table({"x": [1]}), root.path / where / "train-x.parquet")

    contents = read_contents(root.path)

    assert [path for path, _ in contents.unreadable] == [f"{where}/train-00008-of-00009.parquet"]
    assert [path for path, _ in contents.foreign] == [f"{where}/train-x.parquet"]
    assert (contents.devices.num_rows, contents.workloads.num_rows, len(contents.sources)) == (1, 1, 2)


def test_damaged_pages_behind_a_sound_footer_are_found(root: DataFolder) -> None:
    path = root.path / "measurements/cpu0/train-00000-of-00002.parquet"
    content = bytearray(path.read_bytes())
    content[4:600] = bytes(596)
    path.write_bytes(content)

    assert [where for where, _ in read_contents(root.path).unreadable] == [
        "measurements/cpu0/train-00000-of-00002.parquet"
    ]


def test_a_journal_with_a_bad_line_is_noted(root: DataFolder) -> None:
    (root.path / "measurements/cpu0/journal.jsonl").write_bytes(b"{}\n{}\n")

    [(where, sentence)] = read_contents(root.path).unreadable
    assert where == "measurements/cpu0/journal.jsonl"
    assert "Line 1 of" in sentence


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a data folder"):
        read_contents(tmp_path)
