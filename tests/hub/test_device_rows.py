from __future__ import annotations

from pathlib import Path

import pytest

from costhub.dataset.folder import DataFolder
from costhub.errors import DataError
from costhub.hub.device_rows import completed, device_rows
from costhub.hub.index import find_device


def test_the_folder_counts_more_than_the_index_which_fills_its_gaps(tmp_path: Path) -> None:
    DataFolder.create(tmp_path).put_device({"device_id": "nvidia-h200", "kind": "cuda", "dram_gbs": 4000.0})
    known = find_device("nvidia-h200")
    assert known is not None
    assert known.dram_gbs is None

    row = device_rows(tmp_path, ["nvidia-h200"])["nvidia-h200"]

    assert (row["dram_gbs"], row["cores"], row["isa_features"]) == (4000.0, known.cores, ["sm_90"])


def test_a_device_that_only_the_index_knows_is_found(tmp_path: Path) -> None:
    DataFolder.create(tmp_path)

    assert device_rows(tmp_path, ["amd-epyc-zen5-2c"])["amd-epyc-zen5-2c"]["kind"] == "cpu"


def test_of_an_unknown_device_there_is_the_id(tmp_path: Path) -> None:
    DataFolder.create(tmp_path)

    assert device_rows(tmp_path, ["acme-one"]) == {"acme-one": {"device_id": "acme-one"}}
    assert completed({"device_id": "acme-one", "kind": "cpu", "cores": None}) == {
        "device_id": "acme-one",
        "kind": "cpu",
    }


def test_a_path_without_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no folder"):
        device_rows(tmp_path / "missing", ["acme-one"])
