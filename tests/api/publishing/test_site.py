"""`costhub.site`: the page of a hub, and what is said of it."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from costhub.api.publishing.site import site
from costhub.errors import ArgumentError
from costhub.hub.catalogue import hubs
from costhub.hub.catalogue.devices import register_device
from costhub.hub.install import install_model
from costhub.hub.remote.address import AddressError


@pytest.fixture
def hub(tmp_path: Path) -> Path:
    """A hub of one device and one model."""
    root, folder = tmp_path / "hub", tmp_path / "gbt"
    register_device({"device_id": "acme-one", "kind": "cpu"}, path=root / "devices.json")
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"device_id": "acme-one", "arch": "gbt", "metrics": {"top_1": 0.9}}))
    install_model(folder, root=root)
    return root


def test_a_hub_becomes_a_page_and_the_result_counts_what_is_on_it(hub: Path, tmp_path: Path) -> None:
    made = site(tmp_path / "public", hubs=hub)

    assert made.page == tmp_path / "public/index.html"
    assert "costhub pull costhub/acme-one-gbt" in made.page.read_text()
    assert (made.models, made.devices, made.datasets, made.pictures, made.left_out) == (1, 1, 0, 0, ())
    assert str(made) == repr(made) == f"{made.page}: models: 1, devices: 1, datasets: 0, pictures: 0."
    counts = {"models": 1, "devices": 1, "datasets": 0, "pictures": 0}
    assert made.to_json() == {"page": str(made.page), **counts, "left_out": []}


def test_several_hubs_make_one_page_and_the_embedded_one_is_the_default(
    hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    register_device({"device_id": "blit-gpu", "kind": "cuda"}, path=other / "devices.json")

    assert site(tmp_path / "public", hubs=[hub, str(other)]).devices == 2
    assert site(tmp_path / "public", hubs=str(other)).counts == {
        "models": 0,
        "devices": 1,
        "datasets": 0,
        "pictures": 0,
    }
    monkeypatch.setattr(hubs, "EMBEDDED", hub)
    assert site(tmp_path / "public").models == 1


def test_what_cannot_be_read_is_left_out_with_a_warning(
    hub: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (hub / "models/costhub/acme-one-gbt/config.json").write_text("{}")

    with caplog.at_level(logging.WARNING, logger="costhub"):
        made = site(tmp_path / "public", hubs=hub)

    (sentence,) = made.left_out
    assert caplog.messages == [f"Left out: {sentence}"]
    assert "acme-one-gbt" in sentence
    assert made.models == 0


def test_a_folder_in_use_and_one_that_is_no_hub_are_refused(hub: Path, tmp_path: Path) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used/thesis.tex").write_text("x")

    with pytest.raises(ArgumentError, match=r"holds thesis\.tex, which costhub did not build"):
        site(tmp_path / "used", hubs=hub)
    with pytest.raises(AddressError, match="is not the folder of a hub"):
        site(tmp_path / "public", hubs=tmp_path / "used")
    assert not (tmp_path / "public").exists()
