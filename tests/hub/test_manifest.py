from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.errors import ModelError
from costhub.hub import manifest
from costhub.hub.manifest import FileEntry, Manifest, hash_file, read_manifest, scan, verify, write_manifest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "plots").mkdir()
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "plots" / "a.png").write_bytes(b"picture")
    (tmp_path / ".gitattributes").write_text("not ours")
    write_manifest(tmp_path)
    return tmp_path


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = folder / "manifest.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_a_manifest_lists_every_file_but_itself_and_hidden_ones(folder: Path) -> None:
    assert set(read_manifest(folder).files) == {"config.json", "plots/a.png"}
    assert verify(folder) == scan(folder)


def test_sizes_and_hashes_are_those_of_the_files(folder: Path) -> None:
    expected = FileEntry(hashlib.sha256(b"picture").hexdigest(), 7)

    assert hash_file(folder / "plots" / "a.png") == expected
    assert read_manifest(folder).files["plots/a.png"] == expected


def test_a_changed_file_is_found(folder: Path) -> None:
    (folder / "plots" / "a.png").write_bytes(b"Picture")

    with pytest.raises(ModelError, match=r"a\.png is damaged or was changed: .* sha256"):
        verify(folder)


def test_a_truncated_file_is_found(folder: Path) -> None:
    (folder / "plots" / "a.png").write_bytes(b"pict")

    with pytest.raises(ModelError, match="has 7 bytes, it has 4"):
        verify(folder)


def test_a_missing_file_is_found(folder: Path) -> None:
    (folder / "config.json").unlink()

    with pytest.raises(ModelError, match=r"lacks config\.json"):
        verify(folder)


def test_a_folder_without_a_manifest_cannot_be_verified(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"holds no manifest\.json"):
        verify(tmp_path)


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "/etc/passwd",
        "a/../../b",
        ".bashrc",
        "a/.hidden",
        "",
        "C:\\x",
        "a//b",
        "./a",
        "manifest.json",
    ],
)
def test_a_manifest_that_names_a_place_elsewhere_is_refused(folder: Path, name: str) -> None:
    edit(folder, lambda content: content["files"].update({name: {"sha256": "0" * 64, "size": 1}}))

    with pytest.raises(ModelError, match="is not a manifest costhub can read"):
        read_manifest(folder)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda c: c.update(version=2), "has version 2, this costhub reads up to 1"),
        (lambda c: c["files"].clear(), "it lists 0 files"),
        (lambda c: c["files"]["config.json"].update(size=-1), "negative size"),
        (lambda c: c["files"]["config.json"].update(size=1 << 40), "add up to more than"),
        (lambda c: c["files"]["config.json"].update(size=3), "its revision is not the one of the files"),
        (lambda c: c["files"]["config.json"].pop("sha256"), "sha256"),
        (lambda c: c.update(files=[1, 2]), "is not a manifest"),
    ],
)
def test_a_manifest_that_makes_no_sense_is_refused(
    folder: Path, change: Callable[[dict[str, Any]], object], sentence: str
) -> None:
    edit(folder, change)

    with pytest.raises(ModelError, match=sentence):
        read_manifest(folder)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"version": 1}', "\udcff", "[" * 100_000])
def test_a_manifest_that_is_no_manifest_is_refused(folder: Path, text: str) -> None:
    (folder / "manifest.json").write_bytes(text.encode("utf-8", "surrogateescape"))

    with pytest.raises(ModelError, match="is not a manifest costhub can read"):
        read_manifest(folder)


def test_a_size_without_end_is_refused(folder: Path) -> None:
    text = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(re.sub(r'"size": \d+', '"size": 1e999', text, count=1))

    with pytest.raises(ModelError, match="is not a manifest costhub can read"):
        read_manifest(folder)


def test_an_endless_manifest_is_not_read_to_its_end(folder: Path) -> None:
    (folder / "manifest.json").write_bytes(b" " * (manifest.MAX_MANIFEST_BYTES + 1))

    with pytest.raises(ModelError, match="is larger than"):
        read_manifest(folder)


ENTRIES = st.dictionaries(
    st.text(min_size=1), st.builds(FileEntry, st.text(), st.integers(0, 9)), min_size=1, max_size=4
)


@given(ENTRIES, ENTRIES)
def test_the_revision_names_the_content(left: dict[str, FileEntry], right: dict[str, FileEntry]) -> None:
    reordered = dict(reversed(left.items()))

    assert Manifest(left).revision == Manifest(reordered).revision
    if left != right:
        assert Manifest(left).revision != Manifest(right).revision


def test_a_name_that_would_paint_the_terminal_is_refused(tmp_path: Path) -> None:
    (tmp_path / "\x1b[2Jx.md").write_text("x")
    write_manifest(tmp_path)

    with pytest.raises(ModelError, match="it names") as told:
        read_manifest(tmp_path)
    assert str(told.value).isprintable()
