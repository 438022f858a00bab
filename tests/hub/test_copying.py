from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costhub.errors import ModelError
from costhub.hub.copying import copy_verified, holds
from costhub.hub.manifest import read_manifest, verify, write_manifest


@pytest.fixture
def source(tmp_path: Path, make_model: Any) -> Path:
    folder: Path = make_model(tmp_path / "source", device_id="acme-one", arch="mlp")
    write_manifest(folder)
    return folder


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def test_a_copy_holds_the_same_bytes_and_a_manifest(source: Path, tmp_path: Path) -> None:
    target = copy_verified(source, tmp_path / "a" / "b")

    assert verify(target) == read_manifest(source)
    assert (target / "config.json").read_bytes() == (source / "config.json").read_bytes()
    assert leftovers(target.parent) == []


def test_what_the_manifest_does_not_list_stays_behind(source: Path, tmp_path: Path) -> None:
    (source / "setup.py").write_text("raise SystemExit")

    assert not (copy_verified(source, tmp_path / "copy") / "setup.py").exists()


def test_an_empty_folder_may_be_there_already(source: Path, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()

    assert verify(copy_verified(source, tmp_path / "copy"))


def test_an_equal_folder_is_kept(source: Path, tmp_path: Path) -> None:
    first = copy_verified(source, tmp_path / "copy")
    before = (first / "model.safetensors").stat().st_mtime_ns

    again = copy_verified(source, tmp_path / "copy")

    assert (again / "model.safetensors").stat().st_mtime_ns == before


@pytest.mark.parametrize("occupant", ["file", "folder", "link"])
def test_something_else_is_never_overwritten(source: Path, tmp_path: Path, occupant: str) -> None:
    target, elsewhere = tmp_path / "copy", tmp_path / "elsewhere"
    elsewhere.mkdir()
    if occupant == "file":
        target.write_text("precious")
    elif occupant == "link":
        target.symlink_to(elsewhere)
    else:
        target.mkdir()
        (target / "precious").write_text("precious")

    with pytest.raises(ModelError, match="exists and is not this model; nothing was overwritten"):
        copy_verified(source, target)

    assert leftovers(tmp_path) == []
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(b"short", "is damaged"), (b"x" * 10_000, "it has 10000"), (None, "is missing")],
)
def test_damaged_files_leave_nothing_behind(
    source: Path, tmp_path: Path, content: bytes | None, sentence: str
) -> None:
    weights = source / "model.safetensors"
    if content is None:
        weights.unlink()
    else:
        weights.write_bytes(content)

    with pytest.raises(ModelError, match=sentence):
        copy_verified(source, tmp_path / "copy")

    assert not (tmp_path / "copy").exists()
    assert leftovers(tmp_path) == []


def test_one_flipped_bit_is_found(source: Path, tmp_path: Path) -> None:
    weights = source / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 1
    weights.write_bytes(content)

    with pytest.raises(ModelError, match="is damaged or was changed"):
        copy_verified(source, tmp_path / "copy")


def test_holds_tells_equal_folders_from_others(source: Path, tmp_path: Path) -> None:
    manifest = read_manifest(source)

    assert holds(source, manifest)
    assert not holds(tmp_path / "nowhere", manifest)
    (source / "more.json").write_text("{}")
    assert not holds(source, manifest)
