"""Data of the benchmarks: folds hold out every workload once, and a small folder passes the check."""

from __future__ import annotations

from pathlib import Path

from costhub.dataset.check.folder import check_folder
from costhub.dataset.folder import DataFolder
from scripts.bench.common.data import copy_with, folds, small_folder
from scripts.bench.common.synthetic import DEVICES, write_measurements

ABOUT = [{"workload_id": f"{family}{number}", "operator": family} for family in "ab" for number in range(5)]


def test_folds_hold_out_every_workload_once_and_deal_out_the_families() -> None:
    parts = folds(ABOUT, 3, seed=0)

    tested = [name for part in parts for name in part.test]
    assert sorted(tested) == sorted(row["workload_id"] for row in ABOUT)
    assert all(not part.test & part.train for part in parts)
    assert all({name[0] for name in part.test} == {"a", "b"} for part in parts)


def test_folds_depend_on_the_seed_alone() -> None:
    assert folds(ABOUT, 3, seed=1) == folds(ABOUT[::-1], 3, seed=1) != folds(ABOUT, 3, seed=2)


def test_a_device_without_measurements_has_no_dataset() -> None:
    assert copy_with("no-such-device") is None


def test_a_small_folder_is_clean(tmp_path: Path) -> None:
    assert check_folder(small_folder(tmp_path / "data")) == []


def test_synthetic_measurements_are_of_several_devices(tmp_path: Path) -> None:
    write_measurements(tmp_path / "data", 400)

    folder = DataFolder.open(tmp_path / "data")

    assert folder.device_ids() == list(DEVICES)
    assert {row["proposed_by"] for row in folder.measurements().to_pylist()} == {"synthetic"}
