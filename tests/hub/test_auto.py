"""The model for the machine we are on."""

from __future__ import annotations

from pathlib import Path

import pytest

from costhub.errors import ModelError
from costhub.hub.auto import choose_model


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
