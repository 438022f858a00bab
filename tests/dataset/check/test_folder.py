from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import costhub
from costhub.dataset.check.context import Context
from costhub.dataset.check.folder import check_folder, check_with
from costhub.dataset.check.reader import Reader
from costhub.dataset.folder import DataFolder
from costhub.dataset.schema import table_from_rows
from costhub.dataset.shards.shard import read_shard, write_shard
from costhub.errors import DataError


def test_an_empty_folder_is_sound(tmp_path: Path) -> None:
    assert check_folder(DataFolder.create(tmp_path / "data").path, deep=True) == []


def test_findings_are_joined_over_batches_and_apart_by_file(damaged: Any) -> None:
    device = damaged.path / "measurements/amd-epyc-zen5-1c"
    rows = damaged.rows()
    table = table_from_rows(
        "measurements", [row | {"record_id": f"{n}", "licence": None} for n, row in enumerate(rows * 60)]
    )
    write_shard(table, device / "train-00000-of-00002.parquet")
    write_shard(table_from_rows("measurements", rows), device / "train-00001-of-00002.parquet")
    (device / "train-00000-of-00001.parquet").unlink()

    [licence] = [finding for finding in damaged.findings() if finding.rule == "CH048"]
    assert licence.rows == len(rows) * 60
    assert licence.where.endswith("train-00000-of-00002.parquet")


def test_checking_changes_nothing(damaged: Any) -> None:
    (damaged.path / "measurements/amd-epyc-zen5-1c/journal.jsonl").write_bytes(b'{"torn')
    before = {p: p.stat().st_mtime_ns for p in damaged.path.rglob("*")}

    damaged.findings(deep=True)
    assert {p: p.stat().st_mtime_ns for p in damaged.path.rglob("*")} == before


@dataclass
class Beside(Reader):
    """A reader beside which another program takes a shard away, before its rows are read."""

    taken: Path

    def __post_init__(self) -> None:
        super().__init__()

    def know(self, context: Context) -> None:
        super().know(context)
        self.taken.unlink(missing_ok=True)


def test_a_folder_that_changes_meanwhile_is_an_error(damaged: Any) -> None:
    [taken] = damaged.path.glob("measurements/*/*.parquet")

    with Beside(taken) as reader, pytest.raises(DataError, match="when nothing writes there"):
        check_with(reader, damaged.path)


def test_no_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="There is no folder"):
        check_folder(tmp_path / "nothing")


@pytest.mark.parametrize("name", ["amd-epyc-zen5", "nvidia-h200"])
def test_the_embedded_sets_break_no_rule(name: str) -> None:
    path = Path(costhub.__file__).parent / "hub/embedded/datasets/costhub" / name

    assert check_folder(path) == []


@pytest.mark.slow
def test_the_embedded_set_breaks_no_rule_when_its_programs_are_replayed() -> None:
    path = Path(costhub.__file__).parent / "hub/embedded/datasets/costhub/amd-epyc-zen5"

    assert check_folder(path, deep=True) == []


@pytest.mark.slow
def test_an_imported_database_breaks_no_rule(tmp_path: Path) -> None:
    source = os.environ.get("COSTHUB_METASCHEDULE_DATA")
    if not source:
        pytest.skip("COSTHUB_METASCHEDULE_DATA names no database")
    from costhub.dataset.metaschedule.import_database import import_database

    device = {"device_id": "imported", "kind": "cuda"}
    import_database(source, tmp_path / "data", device=device, licence="CC-BY-4.0", progress=False)

    assert check_folder(tmp_path / "data", deep=True) == []
    assert read_shard(next((tmp_path / "data/measurements/imported").glob("*.parquet"))).num_rows
