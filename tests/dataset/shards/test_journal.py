from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costhub.dataset.schema import table_from_rows
from costhub.dataset.shards.journal import Journal, encode_row, read_journal
from costhub.errors import DataError


@pytest.fixture
def path(tmp_path: Path, measurement: Any) -> Path:
    path = tmp_path / "journal.jsonl"
    with Journal(path) as journal:
        for i in range(3):
            journal.append(measurement(i))
    return path


def ids(path: Path) -> list[str]:
    return [row["record_id"] for row in read_journal(path)[0]]


def test_rows_come_back_as_they_were(path: Path, measurement: Any) -> None:
    rows, size = read_journal(path)

    expected = [measurement(i) for i in range(3)]
    assert table_from_rows("measurements", rows).equals(table_from_rows("measurements", expected))
    assert size == path.stat().st_size


def test_a_row_is_one_line_of_json_whatever_is_in_it(measurement: Any) -> None:
    line = encode_row(measurement(0, status="run_error", error='a\nb "c" \u2028 ü', run_s=[]))

    assert line.count(b"\n") == 1
    assert json.loads(line)["error"] == 'a\nb "c" \u2028 ü'


def test_numpy_values_are_written_as_numbers(tmp_path: Path, measurement: Any) -> None:
    with Journal(tmp_path / "j") as journal:
        journal.append(measurement(0, run_s=np.array([1.5]), predicted_score=np.float32(0.25)))

    row = read_journal(tmp_path / "j")[0][0]
    assert (row["run_s"], row["predicted_score"]) == ([1.5], 0.25)


def test_a_missing_journal_has_no_rows(tmp_path: Path) -> None:
    assert read_journal(tmp_path / "none") == ([], 0)


def test_a_last_line_torn_anywhere_is_dropped_and_appending_goes_on(path: Path, measurement: Any) -> None:
    whole = path.read_bytes()
    start = whole[:-1].rfind(b"\n") + 1
    for end in range(start, len(whole)):
        path.write_bytes(whole[:end])
        assert ids(path) == ["r00000", "r00001"]
        with Journal(path) as journal:
            journal.append(measurement(7))
        assert ids(path) == ["r00000", "r00001", "r00007"]


@pytest.mark.parametrize("line", [b'{"record_id": "r0', b"", b"[1]", b'{"record_id":"r9"}', b"\xff"])
def test_a_bad_line_in_the_middle_is_named_and_nothing_is_overwritten(path: Path, line: bytes) -> None:
    lines = path.read_bytes().split(b"\n")
    lines[1] = line
    path.write_bytes(b"\n".join(lines))
    before = path.read_bytes()

    with pytest.raises(DataError, match=r"Line 2 of .*journal\.jsonl is not a measurement"):
        Journal(path)
    assert path.read_bytes() == before


def test_a_row_that_does_not_fit_is_not_written(path: Path, measurement: Any) -> None:
    before = path.read_bytes()

    with Journal(path) as journal, pytest.raises(DataError, match="which does not fit"):
        journal.append(measurement(3, build_s="long"))
    assert path.read_bytes() == before


def test_a_write_cut_short_by_a_full_disk_leaves_no_half_line(
    path: Path, measurement: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = path.read_bytes()
    write = os.write
    with Journal(path) as journal:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:10]))
            with pytest.raises(DataError, match="the disk is full"):
                journal.append(measurement(3))
        assert path.read_bytes() == before
        journal.append(measurement(4))

    assert ids(path) == ["r00000", "r00001", "r00002", "r00004"]


def test_clear_empties_the_journal(path: Path, measurement: Any) -> None:
    with Journal(path) as journal:
        journal.clear()
        journal.append(measurement(5))

    assert ids(path) == ["r00005"]


def test_a_group_that_shares_a_folder_may_go_on_with_a_journal(path: Path, measurement: Any) -> None:
    path.unlink(missing_ok=True)
    before = os.umask(0o002)
    try:
        Journal(path).close()
    finally:
        os.umask(before)

    assert stat.S_IMODE(path.stat().st_mode) == 0o664
