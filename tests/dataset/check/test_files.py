from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.check.files import (
    Listing,
    equal_but_for_case,
    foreign_files,
    irregular,
    leftover_journals,
    links,
    misnamed,
    similar_names,
)
from costhub.dataset.folder import DataFolder
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

    assert damaged.broken() == {"CH007", "CH053"}


@pytest.mark.parametrize(
    "where",
    [
        "measurements/amd-epyc-zen5-1c/journal.jsonl",
        "measurements/amd-epyc-zen5-1c/.lock",
        "measurements/.lock",
        "devices/.lock",
        "splits/a.json",
        "README.md",
    ],
)
@pytest.mark.parametrize("what", ["pipe", "folder", "nowhere", "device"])
def test_whatever_may_be_opened_is_looked_at(damaged: Any, where: str, what: str) -> None:
    path = damaged.path / where
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    if what == "pipe":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/null" if what == "device" else "nowhere")

    listing = Listing(damaged.path)
    [(found, message)] = irregular(listing)
    assert found == where
    assert what in message.replace("named pipe", "pipe")
    assert [link for link, _ in links(listing)] == ([where] if what in ("device", "nowhere") else [])


@pytest.mark.parametrize("where", ["measurements/amd-epyc-zen5-1c", "measurements", "workloads", "splits"])
def test_folders_that_are_links_are_said(damaged: Any, tmp_path: Path, where: str) -> None:
    (damaged.path / "splits").mkdir(exist_ok=True)
    (damaged.path / where).rename(tmp_path / "elsewhere")
    (damaged.path / where).symlink_to(tmp_path / "elsewhere")

    assert [link for link, _ in links(Listing(damaged.path))] == [where]


def test_names_that_some_disks_hold_for_one(damaged: Any) -> None:
    (damaged.path / "splits").mkdir(exist_ok=True)
    for name in ("a.json", "A.json", "b.json"):
        (damaged.path / "splits" / name).write_text("{}")
    (damaged.path / "measurements/AMD-epyc-zen5-1c").mkdir()

    assert list(similar_names(Listing(damaged.path))) == [
        ("measurements", "AMD-epyc-zen5-1c, amd-epyc-zen5-1c differ by case only."),
        ("splits", "A.json, a.json differ by case only."),
    ]
    assert equal_but_for_case(["ﬁ", "fi", "Straße", "STRASSE", "x"]) == ["STRASSE", "Straße", "fi", "ﬁ"]
