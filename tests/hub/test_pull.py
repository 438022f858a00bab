from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costhub.errors import ModelError
from costhub.files import cache_root
from costhub.hub.catalogue.hubs import HUB_VARIABLE
from costhub.hub.pull import pull, resolve
from costhub.hub.remote.manifest import read_manifest, verify, write_manifest


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


def test_a_freshly_trained_folder_can_be_resolved_and_pulled(hub: Path, make_model: Any, tmp_path: Path) -> None:
    folder = make_model(tmp_path / "trained", device_id="acme-two", arch="mlp")

    assert resolve(f"local-dir:{folder}") == folder
    copy = pull(f"local-dir:{folder}")
    assert set(verify(copy).files) == {"config.json", "model.safetensors"}
    assert copy.is_relative_to(cache_root() / "models" / "local" / "trained")


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
