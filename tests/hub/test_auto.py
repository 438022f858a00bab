"""The model for the machine we are on."""

from __future__ import annotations

from pathlib import Path

import pytest

from costhub.errors import ModelError
from costhub.hub.auto import choose_model, models_of_kind
from costhub.hub.nearest import nearest_order
from costhub.hub.shelf import list_models


@pytest.mark.usefixtures("hub")
def test_auto_takes_the_nearest_device_and_says_why() -> None:
    found = choose_model("auto", {"kind": "cpu", "cores": 8})
    assert found.entry.device_id == "acme-one"
    assert "acme-one" in found.reason


@pytest.mark.usefixtures("hub")
def test_a_name_is_taken_as_it_is() -> None:
    assert choose_model("one", {"kind": "cuda"}, arch="mlp").entry.arch == "mlp"


@pytest.mark.usefixtures("hub")
def test_a_kind_without_models_is_refused_with_what_to_do() -> None:
    with pytest.raises(ModelError, match="costhub collect"):
        choose_model("auto", {"kind": "hexagon"})


def test_the_embedded_hub_has_a_model_for_a_cpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("COSTHUB_HUB", raising=False)
    found = choose_model("auto", {"kind": "cpu", "vendor": "Intel", "cores": 64, "simd_bits": 512})
    assert found.entry.folder.is_dir()


@pytest.mark.usefixtures("hub")
def test_all_models_of_a_kind_come_with_the_nearest_device_first() -> None:
    here = {"kind": "cpu", "cores": 8, "simd_bits": 512, "vendor": "ACME"}

    devices = [model.entry.device_id for model in models_of_kind(here)]

    assert set(devices) == {entry.device_id for entry in list_models()} - {"blit-gpu"}
    assert list(dict.fromkeys(devices)) == nearest_order(here, devices)
    assert {model.entry.arch for model in models_of_kind(here, arch="mlp")} == {"mlp"}


@pytest.mark.usefixtures("hub")
def test_a_kind_without_models_to_probe_is_refused() -> None:
    with pytest.raises(ModelError, match="hold no mlp model of a hexagon device"):
        models_of_kind({"kind": "hexagon"}, arch="mlp")
