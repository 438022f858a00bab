"""Statistics, splits, imports and exports from Python."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from fsspec.implementations.local import LocalFileSystem

from costhub.api.data_tools import (
    cited_source,
    export_metaschedule,
    import_ansor,
    import_metaschedule,
    make_splits,
    stats,
)
from costhub.dataset.folder import DataFolder
from costhub.dataset.splits.split import list_splits, load_split
from costhub.errors import ArgumentError, DataError, DeviceError
from costhub.hub.data import DataAddress


def test_data_by_name_are_counted() -> None:
    found = stats("nvidia-h200")

    assert str(found) == repr(found)
    source, counts, *_ = str(found).splitlines()
    assert re.fullmatch(r"costhub/nvidia-h200, data revision [0-9a-f]{12}, schema version \d", source)
    assert counts.startswith(f"{found.counts.measurements:,} measurements of")
    assert set(found.to_pandas()["device_id"]) == {"nvidia-h200"}


def test_the_source_of_data_on_hugging_face_is_its_commit_and_a_folder_has_none() -> None:
    place = DataAddress("datasets/acme/boards@0123456789abcdef", LocalFileSystem())

    assert cited_source(place) == "acme/boards, revision 0123456789ab"
    assert cited_source(DataAddress("measurements")) is None


def test_splits_are_drawn_and_kept(tmp_path: Path) -> None:
    (operator,) = make_splits("nvidia-h200", "operator", hold_out=["softmax"], out=tmp_path)
    (drawn,) = make_splits("nvidia-h200", "workload", count=12, out=tmp_path)

    assert load_split(tmp_path / f"{operator.name}.json") == operator
    assert len(drawn.test) == 12
    assert len(make_splits("nvidia-h200", "fold", count=3, out=tmp_path)) == 3
    with pytest.raises(ArgumentError, match="belongs to a hub and is not changed"):
        make_splits("nvidia-h200", "workload")
    with pytest.raises(ArgumentError, match="--count goes with"):
        make_splits("nvidia-h200", "network", count=3, out=tmp_path)
    with pytest.raises(ArgumentError, match="--tenset goes with"):
        make_splits("nvidia-h200", "workload", tenset=True, out=tmp_path)


def test_a_split_that_holds_nothing_out_is_not_written(tmp_path: Path) -> None:
    folder = DataFolder.create(tmp_path / "data")
    facts = {"shapes": "[[8,8]]", "dtypes": ["float32"], "flop": 1.0, "bytes": 1.0, "module_json": "{}", "networks": []}
    folder.put_workloads([{"workload_id": name, "name": name, "operator": name, **facts} for name in ("a", "b")])

    with pytest.raises(
        DataError, match=r"No operator family in .* has two workloads, so none can be held out. Use --by fold"
    ):
        make_splits(tmp_path / "data", "workload")
    assert list_splits(tmp_path / "data") == []


@pytest.mark.parametrize(
    ("device", "words"),
    [("auto", "name that device instead of auto"), ("h200", "'h200' is an alias of nvidia-h200: give that id")],
)
def test_records_are_imported_under_the_id_of_their_device(tmp_path: Path, device: str, words: str) -> None:
    for imported in (import_metaschedule, import_ansor):
        with pytest.raises(DeviceError, match=words):
            imported(tmp_path, tmp_path / "out", device=device)
    assert not (tmp_path / "out").exists()


def test_what_was_exported_can_be_imported(measured: Callable[..., Path], tmp_path: Path) -> None:
    data = measured(tmp_path / "data", count=3)

    wrote = export_metaschedule(data, tmp_path / "database", workers=1, progress=False)
    read = import_metaschedule(tmp_path / "database", tmp_path / "again", device="amd-epyc-zen5-1c", workers=1)

    assert wrote.records == 3
    assert read.kept == 3
    assert stats(tmp_path / "again").counts.measurements == 3
    (tmp_path / "database/database_tuning_record.json").write_text("[1]\n")
    with pytest.raises(DataError, match="Nothing could be imported"):
        import_metaschedule(tmp_path / "database", tmp_path / "none", device="amd-epyc-zen5-1c", workers=1)
