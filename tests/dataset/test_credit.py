from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.credit import check_rights, data_credit, is_replayed
from costhub.dataset.folder import DataFolder
from costhub.errors import ArgumentError, DataError


def row(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "record_id": f"r{number}",
        "program_id": f"p{number}",
        "workload_id": "w",
        "device_id": "one",
        "target": '{"kind":"llvm"}',
        "trace": "[[],[]]",
        "status": "ok",
        "run_s": [1e-3],
        "proposed_by": "random",
        **changes,
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = DataFolder.create(tmp_path / "data")
    with root.writer("one") as writer:
        writer.append(row(1, contributor="Ada", licence="MIT"))
        writer.append(row(2, contributor="Ada", licence="MIT"))
        writer.append(row(3, contributor="Bob"))
    with root.writer("two") as writer:
        writer.append(row(4, device_id="two", licence="MIT"))
    return tmp_path / "data"


def test_everybody_is_named_once_with_the_licence(folder: Path) -> None:
    assert data_credit(folder) == "Ada (MIT), Bob (no licence)"


def test_rows_that_were_replayed_say_from_whose_logs(folder: Path) -> None:
    with DataFolder.open(folder).writer("one") as writer:
        writer.append(row(5, contributor="Cy", licence="MIT", transplanted_from="ansor"))

    assert data_credit(folder) == "Ada (MIT), Bob (no licence), Cy (MIT; replayed from logs of Ansor)"


def imported_rows(folder: Path) -> Path:
    """Adds rows of a database to a folder: of Dan, of nobody, and a row that Dan measured himself."""
    with DataFolder.open(folder).writer("one") as writer:
        writer.append(row(8, contributor="Dan", licence="Apache-2.0", proposed_by="imported"))
        writer.append(row(9, licence="MIT", proposed_by="imported"))
        writer.append(row(10, contributor="Dan", licence="CC-BY-4.0"))
    return folder


def test_imported_rows_without_a_name_say_that_nobody_recorded_one(folder: Path) -> None:
    assert data_credit(imported_rows(folder)) == (
        "Ada (MIT), Bob (no licence), Dan (Apache-2.0), Dan (CC-BY-4.0), measurer not recorded (MIT)"
    )


def test_who_only_imported_rows_is_credited_for_own_measurements_alone(folder: Path) -> None:
    assert data_credit(imported_rows(folder), importers={"Dan", "Ada"}) == (
        "Ada (MIT), Bob (no licence), Dan (CC-BY-4.0), measurer not recorded (Apache-2.0), measurer not recorded (MIT)"
    )


def test_replayed_rows_are_imported_ones(folder: Path) -> None:
    with DataFolder.open(folder).writer("two") as writer:
        writer.append(row(11, device_id="two", contributor="Cy", licence="MIT", transplanted_from="ansor"))

    assert data_credit(folder, ["two"], importers={"Cy"}) == "measurer not recorded (MIT; replayed from logs of Ansor)"


def test_a_device_is_replayed_if_all_of_its_rows_are(folder: Path) -> None:
    with DataFolder.open(folder).writer("three") as writer:
        writer.append(row(6, device_id="three", transplanted_from="ansor"))
    assert is_replayed(folder, "three")
    assert not is_replayed(folder, "one")
    assert not is_replayed(folder, "four")
    (folder / "measurements" / "five").mkdir()
    assert not is_replayed(folder, "five")

    with DataFolder.open(folder).writer("three") as writer:
        writer.append(row(7, device_id="three"))
    assert not is_replayed(folder, "three")


def test_only_the_devices_asked_for_count(folder: Path) -> None:
    assert data_credit(folder, ["two"]) is None
    with pytest.raises(DataError, match="three"):
        data_credit(folder, ["three"])


@pytest.mark.parametrize(
    ("written", "meant"),
    [("CC BY 4.0", "cc-by-4.0"), ("MIT License", "mit"), ("Apache License, Version 2.0", "apache-2.0")],
)
def test_another_spelling_of_a_licence_is_refused(written: str, meant: str) -> None:
    with pytest.raises(ArgumentError, match=f"Write {meant}"):
        check_rights("Ada", written)


def test_a_licence_of_private_data_is_only_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    for fine in ("CC-BY-4.0", "mit", None):
        check_rights("Ada", fine)
    assert caplog.messages == []

    check_rights("Ada", "LicenseRef-Secret")
    assert "cc-by-4.0" in caplog.text


@pytest.mark.parametrize("written", ["ada@example.org", "/home/ada/me", "  ", "gpu03.cs.example.edu"])
def test_a_contributor_is_a_name(written: str) -> None:
    with pytest.raises(ArgumentError, match=r"hubs would refuse the rows\. Write a name"):
        check_rights(written, "CC-BY-4.0")


def test_rows_may_name_nobody() -> None:
    check_rights(None, None)
    check_rights("anonymous", "MIT")
