from __future__ import annotations

from pathlib import Path

import pytest

from costhub.cache import CACHE_VARIABLE
from costhub.dataset.folder import DataFolder
from costhub.errors import CosthubError, DataError
from costhub.hub.device_rows import completed, device_rows, keep_figures
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


def test_what_was_probed_here_fills_what_the_index_leaves_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    known = find_device("nvidia-h200")
    assert known is not None
    keep_figures({"device_id": "acme-one", "kind": "cpu", "cores": 4, "dram_gbs": 30.0})
    keep_figures({"device_id": "nvidia-h200", "kind": "cuda", "cores": 1, "dram_gbs": 4000.0})

    own, listed = completed({"device_id": "acme-one", "cores": 2}), completed({"device_id": "nvidia-h200"})

    assert (own["dram_gbs"], own["cores"]) == (30.0, 2)
    assert (listed["dram_gbs"], listed["cores"]) == (4000.0, known.cores)


def test_damaged_figures_are_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    (tmp_path / "devices.json").write_text('{"version": 1, "devi')

    with pytest.raises(CosthubError, match=r"devices\.json is not .* remove it and run `costhub probe`"):
        completed({"device_id": "acme-one"})


def test_a_path_without_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no folder"):
        device_rows(tmp_path / "missing", ["acme-one"])
