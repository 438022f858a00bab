"""Which TVM measured the records of a clean copy: kept, and read from a stranger's file with care."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.metaschedule.origin import FORMAT, MOST_BYTES, ORIGIN_FILE, origin_text, read_origin
from costhub.errors import DataError

ID = "a" * 64


def test_versions_are_read_as_they_were_written(tmp_path: Path) -> None:
    versions = {ID: "0.16.dev0", "b" * 64: None}
    (tmp_path / ORIGIN_FILE).write_text(origin_text(versions))

    assert read_origin(tmp_path) == versions
    assert read_origin(tmp_path / "elsewhere") == {}


@pytest.mark.parametrize(
    "content",
    [
        {},
        [],
        {"format": "costhub-database-manifest", "version": 1, "tvm_versions": {}},
        {"format": FORMAT, "version": 1},
        {"format": FORMAT, "version": 1, "tvm_versions": [ID]},
        {"format": FORMAT, "version": 1, "tvm_versions": {"../../etc/passwd": "0.16"}},
        {"format": FORMAT, "version": 1, "tvm_versions": {ID: 16}},
        {"format": FORMAT, "version": 1, "tvm_versions": {ID: "0.16\x1b[2J"}},
        {"format": FORMAT, "version": 1, "tvm_versions": {ID: "9" * 41}},
    ],
)
def test_another_content_is_refused_with_a_sentence(tmp_path: Path, content: Any) -> None:
    (tmp_path / ORIGIN_FILE).write_text(json.dumps(content))

    with pytest.raises(
        DataError, match=r"costhub_origin\.json is not what `costhub doctor --fix`.* or delete the file"
    ):
        read_origin(tmp_path)


@pytest.mark.parametrize("text", [b"", b"\xff\xfe", b'{"format": ', b"[" * 100_000])
def test_what_is_no_json_is_refused_with_a_sentence(tmp_path: Path, text: bytes) -> None:
    (tmp_path / ORIGIN_FILE).write_bytes(text)

    with pytest.raises(DataError, match="or it is damaged"):
        read_origin(tmp_path)


def test_newer_files_large_files_links_and_pipes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / ORIGIN_FILE
    path.write_text(json.dumps({"format": FORMAT, "version": 2, "tvm_versions": {}}))
    with pytest.raises(DataError, match="has version 2, this costhub reads up to 1"):
        read_origin(tmp_path)

    with path.open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(DataError):
        read_origin(tmp_path)

    path.rename(tmp_path / "there.json")
    (tmp_path / "there.json").write_text(origin_text({ID: "0.16"}))
    path.symlink_to(tmp_path / "there.json")
    with pytest.raises(DataError):
        read_origin(tmp_path)

    path.unlink()
    os.mkfifo(path)
    with pytest.raises(DataError):
        read_origin(tmp_path)
