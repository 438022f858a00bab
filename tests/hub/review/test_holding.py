from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.folder import DataFolder
from costhub.errors import CosthubError
from costhub.hub.review.holding import holding

HELD_REPO = "datasets/acme/data"


def test_only_the_devices_that_matter_are_fetched(offered: Any, hugging_face: Any) -> None:
    other = {"measurements/other/train-00000-of-00001.parquet": b"PAR1", "big.bin": b"x"}
    hugging_face.change(HELD_REPO, other, message="more")

    found = holding("hf-hub:acme/data", ["amd-epyc-zen5-1c"])

    assert found is not None
    assert DataFolder.open(found).device_ids() == ["amd-epyc-zen5-1c"]
    assert not (found / "big.bin").exists()
    assert set(hugging_face.bytes_served) & set(other) == set()


def test_a_device_that_the_hub_lacks_leaves_the_tables(offered: Any) -> None:
    found = holding("hf-hub:acme/data@main", ["nvidia-h200"])

    assert found is not None
    assert DataFolder.open(found).device_ids() == []
    assert DataFolder.open(found).devices().num_rows == 1


def test_an_empty_dataset_holds_nothing(hugging_face: Any) -> None:
    hugging_face.commit(HELD_REPO, {"README.md": b"x"})

    assert holding("hf-hub:acme/data", ["x"]) is None


def test_a_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    assert holding(str(tmp_path), []) == tmp_path
    assert holding(f"local-dir:{tmp_path}", []) == tmp_path


@pytest.mark.parametrize("against", ["nvidia-h200", "hf-hub:acme/nothing", "hf-hub:x", "hf-hub:acme/data@v9"])
def test_a_dataset_that_is_missing_is_a_sentence(against: str, offered: Any) -> None:
    with pytest.raises(CosthubError):
        holding(against, [])
