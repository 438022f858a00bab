from __future__ import annotations

from pathlib import Path

import pytest

from costhub.dataset.folder import DataFolder
from costhub.errors import AmbiguousNameError, CosthubError, DataError, UnknownNameError
from costhub.hub.address import AddressError
from costhub.hub.data_place import data_at


@pytest.fixture
def shelf(hub: Path) -> Path:
    """Two datasets: acme/boards with measurements of acme-one and blit-gpu, other/boards-2 of acme-one."""
    for name, devices in (("acme/boards", ("acme-one", "blit-gpu")), ("other/boards-2", ("acme-one",))):
        folder = DataFolder.create(hub / "datasets" / name)
        for device_id in devices:
            (folder.path / "measurements" / device_id).mkdir()
    return hub / "datasets"


def place(where: str | Path) -> Path:
    with data_at(where) as found:
        assert found.filesystem is None
        return Path(found.path)


@pytest.mark.parametrize("name", ["boards", "acme/boards", "blit-gpu", "BLIT GPU 9000"])
def test_a_dataset_is_found_by_its_name_or_by_its_only_device(shelf: Path, name: str) -> None:
    if " " in name:  # an address has no blanks
        with pytest.raises(AddressError):
            place(name)
    else:
        assert place(name) == shelf / "acme/boards"


def test_a_device_by_its_name_is_that_device_alone(shelf: Path) -> None:
    with data_at("blit-gpu") as found:
        assert found.device_id == "blit-gpu"
    with data_at("acme/boards") as found:
        assert found.device_id is None


def test_a_device_in_several_datasets_is_refused_with_their_names(shelf: Path) -> None:
    with pytest.raises(AmbiguousNameError, match="acme/boards, other/boards-2"):
        place("acme-one")


def test_a_device_without_data_is_said_to_have_none(shelf: Path) -> None:
    with pytest.raises(DataError, match="No hub on this machine has measurements of acme-two"):
        place("acme-two")


def test_an_unknown_name_is_refused_with_the_close_ones(shelf: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"no dataset or device named 'bords'. Did you mean boards"):
        place("bords")


def test_a_revision_is_refused_outside_hugging_face(shelf: Path) -> None:
    with pytest.raises(AddressError, match="Write boards, or hf-hub:ORG/NAME@v1"):
        place("boards@v1")


def test_paths_are_taken_as_they_are(tmp_path: Path) -> None:
    assert place(tmp_path) == place(str(tmp_path)) == place(f"local-dir:{tmp_path}") == tmp_path


def test_a_folder_in_the_working_directory_comes_after_names(
    shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("boards", "mine", "a/b/c"):
        DataFolder.create(tmp_path / name)

    assert place("boards") == shelf / "acme/boards"
    assert place("mine") == Path("mine")
    assert place("a/b/c") == Path("a/b/c")


def test_an_error_in_the_block_is_not_taken_for_an_unknown_name(shelf: Path) -> None:
    with pytest.raises(CosthubError, match="mine"), data_at("boards"):
        raise CosthubError("mine")
