from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.check.folder import RULES, check_folder
from costhub.dataset.folder import DataFolder
from costhub.errors import DataError


def test_ids_count_up_and_titles_differ() -> None:
    assert list(RULES) == [f"D{number:03d}" for number in range(1, len(RULES) + 1)]
    assert len({rule.title for rule in RULES.values()}) == len(RULES)


def test_an_empty_folder_is_sound(tmp_path: Path) -> None:
    assert check_folder(DataFolder.create(tmp_path / "data").path, deep=True) == []


def test_findings_come_in_the_order_of_the_rules(tmp_path: Path, measurement: Any) -> None:
    root = DataFolder.create(tmp_path / "data")
    with root.writer("cpu0") as writer:
        writer.append(measurement(0, run_s=[]))
        findings = check_folder(root.path)

    assert [f.rule for f in findings] == ["D004", "D005", "D006", "D011", "D014"]
    assert {f.where for f in findings} == {"measurements/cpu0/journal.jsonl"}


def test_checking_changes_nothing(tmp_path: Path, measurement: Any) -> None:
    root = DataFolder.create(tmp_path / "data")
    with root.writer("cpu0") as writer:
        writer.append(measurement(0))
    (root.path / "measurements/cpu0/journal.jsonl").write_bytes(b'{"torn')
    before = {p: p.stat().st_mtime_ns for p in root.path.rglob("*")}

    check_folder(root.path)
    assert {p: p.stat().st_mtime_ns for p in root.path.rglob("*")} == before


def test_no_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="There is no folder"):
        check_folder(tmp_path / "nothing")
