from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.check import files
from costhub.dataset.check.files import Listing, foreign_files, leftover_journals, misnamed
from costhub.dataset.check.folder import check_folder
from costhub.dataset.folder import DataFolder
from costhub.dataset.shards.shard import seal_state
from costhub.errors import DataError


def test_sources_are_tables_then_measurements_then_journals(damaged: Any) -> None:
    (damaged.path / "measurements/amd-epyc-zen5-1c/journal.jsonl").write_bytes(b"{}\n")

    sources = list(Listing(damaged.path).sources())
    assert [(source.table, source.is_journal) for source in sources] == [
        ("devices", False),
        ("workloads", False),
        ("measurements", False),
        ("measurements", True),
    ]
    assert sources[2].where == "measurements/amd-epyc-zen5-1c/train-00000-of-00001.parquet"
    assert sources[2].device_id == "amd-epyc-zen5-1c"


def test_an_empty_journal_and_a_lock_are_no_breach(damaged: Any) -> None:
    (damaged.path / "measurements/amd-epyc-zen5-1c/journal.jsonl").touch()
    (damaged.path / "measurements/amd-epyc-zen5-1c/.lock").touch()

    listing = Listing(damaged.path)
    assert list(leftover_journals(listing)) == []
    assert list(foreign_files(listing)) == []


def test_a_folder_without_shards_is_well_named(tmp_path: Path) -> None:
    assert list(misnamed(Listing(DataFolder.create(tmp_path / "data").path))) == []


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a data folder"):
        Listing(tmp_path)


def test_a_pipe_is_not_opened(damaged: Any) -> None:
    os.mkfifo(damaged.path / "workloads/train-00001-of-00002.parquet")

    assert damaged.broken() == {"CH007", "CH008"}


def test_a_seal_is_looked_at_once(damaged: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[Path] = []

    def counted(path: Path) -> str:
        looked_at.append(path)
        return seal_state(path)

    monkeypatch.setattr(files, "seal_state", counted)
    check_folder(damaged.path)

    assert len(looked_at) == len(set(looked_at)) > 0
