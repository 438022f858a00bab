from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costhub.errors import ModelError
from costhub.hub.remote import manifest
from costhub.hub.remote.manifest import (
    FileEntry,
    Manifest,
    copy_verified,
    hash_file,
    holds_files,
    read_manifest,
    same_names,
    scan,
    verify,
    write_manifest,
)


@pytest.fixture
def folder_manifest(tmp_path: Path) -> Path:
    (tmp_path / "plots").mkdir()
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "plots" / "a.png").write_bytes(b"picture")
    (tmp_path / ".gitattributes").write_text("not ours")
    write_manifest(tmp_path)
    return tmp_path


def edit(folder_manifest: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = folder_manifest / "manifest.json"
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def test_a_manifest_lists_every_file_but_itself_and_hidden_ones(folder_manifest: Path) -> None:
    assert set(read_manifest(folder_manifest).files) == {"config.json", "plots/a.png"}
    assert verify(folder_manifest) == scan(folder_manifest)


def test_sizes_and_hashes_are_those_of_the_files(folder_manifest: Path) -> None:
    expected = FileEntry(hashlib.sha256(b"picture").hexdigest(), 7)

    assert hash_file(folder_manifest / "plots" / "a.png") == expected
    assert read_manifest(folder_manifest).files["plots/a.png"] == expected


def test_a_changed_file_is_found(folder_manifest: Path) -> None:
    (folder_manifest / "plots" / "a.png").write_bytes(b"Picture")

    with pytest.raises(ModelError, match=r"a\.png is damaged or was changed: .* sha256"):
        verify(folder_manifest)


def test_a_truncated_file_is_found(folder_manifest: Path) -> None:
    (folder_manifest / "plots" / "a.png").write_bytes(b"pict")

    with pytest.raises(ModelError, match="has 7 bytes, it has 4"):
        verify(folder_manifest)


def test_a_missing_file_is_found(folder_manifest: Path) -> None:
    (folder_manifest / "config.json").unlink()

    with pytest.raises(ModelError, match=r"lacks config\.json"):
        verify(folder_manifest)


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
def test_a_manifest_that_names_a_place_elsewhere_is_refused(folder_manifest: Path, name: str) -> None:
    edit(folder_manifest, lambda content: content["files"].update({name: {"sha256": "0" * 64, "size": 1}}))

    with pytest.raises(ModelError, match="is not a manifest costhub can read"):
        read_manifest(folder_manifest)


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
    folder_manifest: Path, change: Callable[[dict[str, Any]], object], sentence: str
) -> None:
    edit(folder_manifest, change)

    with pytest.raises(ModelError, match=sentence):
        read_manifest(folder_manifest)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"version": 1}', "\udcff", "[" * 100_000])
def test_a_manifest_that_is_no_manifest_is_refused(folder_manifest: Path, text: str) -> None:
    (folder_manifest / "manifest.json").write_bytes(text.encode("utf-8", "surrogateescape"))

    with pytest.raises(ModelError, match="is not a manifest costhub can read"):
        read_manifest(folder_manifest)


def test_a_manifest_whose_names_are_one_file_elsewhere_is_refused(tmp_path: Path) -> None:
    for name in ("config.json", "Config.json"):
        (tmp_path / name).write_text("{}")
    write_manifest(tmp_path)

    with pytest.raises(ModelError, match=r"names 'Config\.json' and 'config\.json', which are one file"):
        read_manifest(tmp_path)


@pytest.mark.parametrize(
    "names", [("stra\u00dfe.md", "STRASSE.md"), ("caf\u00e9.md", "cafe\u0301.md"), ("ofenni\ufb03.md", "OFENNIFFI.md")]
)
def test_case_and_forms_of_accents_tell_no_files_apart(names: tuple[str, str]) -> None:
    assert same_names(["a.md", *names]) == names
    assert same_names(["a.md", names[0], "b.md"]) == ("", "")


@pytest.mark.parametrize("name", ["manifest.json", "config.json"])
def test_a_pipe_in_place_of_a_file_is_not_waited_for(name: str, folder_manifest: Path) -> None:
    (folder_manifest / name).unlink()
    os.mkfifo(folder_manifest / name)

    with pytest.raises(ModelError, match=f"{name} is a named pipe"):
        verify(folder_manifest)


def test_a_terabyte_is_refused_before_it_is_hashed(folder_manifest: Path) -> None:
    os.truncate(folder_manifest / "config.json", 1 << 40)

    with pytest.raises(ModelError, match="has 2 bytes, it has 1099511627776"):
        verify(folder_manifest)


def test_a_manifest_is_written_in_the_place_of_a_link(folder_manifest: Path, tmp_path_factory: Any) -> None:
    precious = tmp_path_factory.mktemp("elsewhere") / "precious"
    precious.write_text("kept")
    (folder_manifest / "manifest.json").unlink()
    (folder_manifest / "manifest.json").symlink_to(precious)

    write_manifest(folder_manifest)

    assert precious.read_text() == "kept"
    assert verify(folder_manifest)


def test_a_size_without_end_is_refused(folder_manifest: Path) -> None:
    text = (folder_manifest / "manifest.json").read_text()
    (folder_manifest / "manifest.json").write_text(re.sub(r'"size": \d+', '"size": 1e999', text, count=1))

    with pytest.raises(ModelError, match="is not a manifest costhub can read"):
        read_manifest(folder_manifest)


def test_an_endless_manifest_is_not_read_to_its_end(folder_manifest: Path) -> None:
    (folder_manifest / "manifest.json").write_bytes(b" " * (manifest.MAX_MANIFEST_BYTES + 1))

    with pytest.raises(ModelError, match="At most 1,048,576 are read"):
        read_manifest(folder_manifest)


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


@pytest.mark.parametrize("follow", [False, True])
def test_links_are_followed_only_in_the_cache_of_a_client(follow: bool, source: Path, tmp_path: Path) -> None:
    weights = source / "model.safetensors"
    weights.rename(tmp_path / "blob")
    weights.symlink_to(tmp_path / "blob")

    if follow:
        copy = copy_verified(source, tmp_path / "copy", follow=True)
        assert not (copy / "model.safetensors").is_symlink()
        assert verify(copy) == read_manifest(source)
    else:
        with pytest.raises(ModelError, match=r"model\.safetensors is a symbolic link"):
            copy_verified(source, tmp_path / "copy")
        assert leftovers(tmp_path) == []


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

    with pytest.raises(ModelError, match="exists and differs from this model; nothing was overwritten"):
        copy_verified(source, target)

    assert leftovers(tmp_path) == []
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(b"short", "is damaged"), (b"x" * 10_000, "it has 10000"), (None, "is missing")],
)
def test_damaged_files_leave_nothing_behind(source: Path, tmp_path: Path, content: bytes | None, sentence: str) -> None:
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


@pytest.mark.parametrize("of_a_person", [{"film.mp4": b"long"}, {"config.json": b"another length"}, {"more.md": b""}])
def test_a_folder_of_something_else_is_told_by_names_and_sizes_alone(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_a_person: dict[str, bytes]
) -> None:
    listed, folder = read_manifest(source), tmp_path / "home"
    if "film.mp4" in of_a_person:
        folder.mkdir()
    else:
        shutil.copytree(source, folder)
    for name, content in of_a_person.items():
        (folder / name).write_bytes(content)
    hashed: list[Path] = []
    monkeypatch.setattr(manifest, "hash_file", hashed.append)

    assert not holds_files(folder, listed)
    assert hashed == []


def test_holds_tells_equal_folders_from_others(source: Path, tmp_path: Path) -> None:
    manifest = read_manifest(source)

    assert holds_files(source, manifest)
    assert not holds_files(tmp_path / "nowhere", manifest)
    (source / "more.json").write_text("{}")
    assert not holds_files(source, manifest)
