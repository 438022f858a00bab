from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costhub.errors import CosthubError, ModelError
from costhub.files import cache_root
from costhub.hub.catalogue.hubs import HUB_VARIABLE
from costhub.hub.pull import pull, resolve
from costhub.hub.remote.manifest import read_manifest, verify, write_manifest
from tests.hostile_trees import FORMS, spoiled


def test_pulling_makes_a_verified_copy_in_the_cache(hub: Path) -> None:
    folder = pull("acme-one")
    source = hub / "models" / "costhub" / "acme-one-gbt"

    assert folder.is_relative_to(cache_root())
    assert verify(folder) == read_manifest(source)
    assert pull("acme-one") == folder


def test_an_update_of_a_model_gets_its_own_place_in_the_cache(hub: Path) -> None:
    source = hub / "models" / "costhub" / "acme-one-gbt"
    before = pull("acme-one")
    (source / "model.safetensors").write_bytes(b"better weights")
    write_manifest(source)

    after = pull("acme-one")

    assert after != before
    assert (after / "model.safetensors").read_bytes() == b"better weights"
    assert verify(before)


def test_pulling_to_a_folder_makes_that_folder(hub: Path, tmp_path: Path) -> None:
    assert pull("one", arch="mlp", out=tmp_path / "mine") == tmp_path / "mine"
    assert (tmp_path / "mine" / "config.json").is_file()
    with pytest.raises(ModelError, match="exists and differs from this model; nothing was overwritten"):
        pull("one", arch="gbt", out=tmp_path / "mine")
    assert "mlp" in (tmp_path / "mine" / "config.json").read_text()


def test_a_damaged_hub_is_noticed_by_pull_and_resolve(hub: Path, tmp_path: Path) -> None:
    weights = hub / "models" / "costhub" / "acme-one-gbt" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")

    with pytest.raises(ModelError, match="is damaged"):
        pull("acme-one", out=tmp_path / "mine")
    with pytest.raises(ModelError, match="is damaged"):
        resolve("acme-one")
    assert not (tmp_path / "mine").exists()


def test_resolving_makes_no_copy(hub: Path) -> None:
    assert resolve("acme-one", arch="mlp") == hub / "models" / "costhub" / "acme-one-mlp"
    assert not cache_root().exists()


def test_a_freshly_trained_folder_can_be_resolved_and_pulled(hub: Path, sound_model: Any) -> None:
    folder = sound_model("gbt")
    (folder / ".DS_Store").write_bytes(b"of the system")
    listed = {path.name for path in folder.iterdir()} - {".DS_Store"}

    assert resolve(f"local-dir:{folder}") == folder
    copy = pull(f"local-dir:{folder}")
    assert set(verify(copy).files) == listed
    assert copy.is_relative_to(cache_root() / "models" / "local" / folder.name)
    assert {path.name for path in copy.iterdir()} == {*listed, "manifest.json"}


def test_a_folder_of_ones_own_may_be_named_by_a_link(hub: Path, sound_model: Any, tmp_path: Path) -> None:
    (tmp_path / "latest").symlink_to(sound_model("gbt"))

    copy = pull(str(tmp_path / "latest"), out=tmp_path / "mine")

    assert (copy / "model.ubj").is_file()


Spoil = Callable[[Path], object]


def link(folder: Path) -> None:
    (folder / "extra.json").symlink_to("/etc/passwd")


def link_to_a_folder(folder: Path) -> None:
    (folder / "member_0").symlink_to("/etc")


def pipe(name: str) -> Spoil:
    def spoil(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    return spoil


def device(folder: Path) -> None:
    (folder / "model.ubj").unlink()
    (folder / "model.ubj").symlink_to("/dev/zero")


def unix_socket(folder: Path) -> None:
    here = os.getcwd()
    os.chdir(folder)  # the path of a socket may have 107 letters
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind("evil.json")
    finally:
        os.chdir(here)


def sparse(name: str) -> Spoil:
    def spoil(folder: Path) -> None:
        with (folder / name).open("ab") as file:
            file.truncate(1 << 40)

    return spoil


def trees(form: str) -> Spoil:
    def spoil(folder: Path) -> None:
        path = folder / "model.ubj"
        path.write_bytes(spoiled(path.read_bytes(), FORMS[form][0]))

    return spoil


SPOILT: dict[str, tuple[Spoil, str]] = {
    "link": (link, "extra.json, a link"),
    "folder": (link_to_a_folder, "member_0, a link"),
    "device": (device, "model.ubj, a link"),
    "socket": (unix_socket, "evil.json, which is not a plain file"),
    **{f"pipe-{name}": (pipe(name), name) for name in ("manifest.json", "config.json", "model.ubj", "README.md")},
    **{f"sparse-{name}": (sparse(name), "bytes") for name in ("model.ubj", "extra.json", "a.png", "manifest.json")},
    "pickle": (lambda folder: (folder / "scaler.pkl").write_bytes(b"cos"), "holds scaler.pkl"),
    "case": (lambda folder: (folder / "CONFIG.json").write_text("{}"), "CONFIG.json and config.json, which are one"),
}


@pytest.mark.parametrize("kind", SPOILT)
def test_a_folder_from_an_archive_is_checked_before_it_is_read(
    kind: str, hub: Path, sound_model: Any, tmp_path: Path
) -> None:
    folder = sound_model("gbt")
    spoil, sentence = SPOILT[kind]
    spoil(folder)

    with pytest.raises(CosthubError, match=sentence):
        pull(str(folder), out=tmp_path / "mine")

    assert not (tmp_path / "mine").exists()
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("manifest", [False, True])
def test_a_folder_whose_trees_lead_astray_is_not_copied(
    manifest: bool, hub: Path, sound_model: Any, tmp_path: Path
) -> None:
    folder = sound_model("gbt")
    trees("child-oob")(folder)
    if manifest:
        write_manifest(folder)

    with pytest.raises(ModelError, match="a child is not a node of its tree"):
        pull(str(folder))

    assert not [path for path in cache_root().rglob("*") if path.is_file()]


@pytest.mark.parametrize("kind", ["link", "folder", "device", "socket", "pipe-README.md", "pipe-manifest.json"])
def test_a_folder_that_is_used_where_it_is_holds_plain_files_only(kind: str, hub: Path, sound_model: Any) -> None:
    folder = sound_model("gbt")
    SPOILT[kind][0](folder)

    with pytest.raises(ModelError, match=SPOILT[kind][1]):
        resolve(str(folder))


def test_a_folder_that_is_used_where_it_is_may_hold_notes(hub: Path, sound_model: Any) -> None:
    folder = sound_model("gbt")
    (folder / "notes.txt").write_text("mine")

    assert resolve(str(folder)) == folder


def test_a_shared_hub_is_a_strangers_too(
    hub: Path, sound_model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees("feat-oob")(sound_model("gbt"))
    folder = tmp_path / "shared/models/costhub/acme-one-gbt"
    folder.parent.mkdir(parents=True)
    (tmp_path / "given-gbt").rename(folder)
    write_manifest(folder)
    monkeypatch.setenv(HUB_VARIABLE, str(tmp_path / "shared"))

    with pytest.raises(ModelError, match="splits a column that is not one of"):
        pull("costhub/acme-one-gbt")


def test_a_shared_hub_is_asked_first(
    hub: Path, make_model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    folder = make_model(shared / "models/costhub/acme-one-gbt", device_id="acme-one", arch="gbt", top_1=0.95)
    monkeypatch.setenv(HUB_VARIABLE, str(shared))

    with pytest.raises(ModelError, match="holds no manifest"):
        pull("acme-one")
    write_manifest(folder)
    assert resolve("acme-one") == folder
