"""Hubs small enough to build for each test."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costhub.files import CACHE_VARIABLE
from costhub.hub.catalogue import hubs
from costhub.hub.catalogue.devices import register_device
from costhub.hub.remote.manifest import write_manifest

MakeModel = Callable[..., Path]

DEVICES: list[dict[str, Any]] = [
    {
        "device_id": "acme-one",
        "kind": "cpu",
        "aliases": ["one", "rocket"],
        "vendor": "ACME",
        "microarchitecture": "boom",
        "cores": 4,
        "simd_bits": 256,
    },
    {
        "device_id": "acme-two",
        "kind": "cpu",
        "aliases": ["two", "rocket"],
        "vendor": "ACME",
        "microarchitecture": "bang",
        "cores": 8,
        "simd_bits": 512,
    },
    {"device_id": "blit-gpu", "kind": "cuda", "aliases": ["BLIT GPU 9000"], "vendor": "BLIT", "cores": 100},
]


def write_model(folder: Path, *, device_id: str, arch: str, top_1: float | None = None) -> Path:
    """A folder as `save_model` leaves it, with bytes for weights that begin as such and that nothing here loads."""
    folder.mkdir(parents=True)
    metrics = {} if top_1 is None else {"top_1": top_1}
    config = {"device_id": device_id, "arch": arch, "feature_spec": "store-1", "metrics": metrics}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(bytes(8) + f"{{weights of {device_id} {arch}".encode() * 100)
    return folder


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publishes and contributes without the check of `costhub check`, which takes a second each time."""
    for name in ("publish", "contribute"):
        monkeypatch.setattr(f"costhub.hub.{name}.check_folder", lambda *_, **__: [])


@pytest.fixture
def make_model() -> MakeModel:
    return write_model


@pytest.fixture
def empty_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hub with three devices and no model, in the place of the embedded one; the cache is empty too."""
    root = tmp_path / "hub"
    for row in DEVICES:
        register_device(row, path=root / "devices.json")
    monkeypatch.setattr(hubs, "EMBEDDED", root)
    monkeypatch.delenv(hubs.HUB_VARIABLE, raising=False)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return root


@pytest.fixture
def hub(empty_hub: Path) -> Path:
    """The same with two models for acme-one, the gbt one better, and one for blit-gpu."""
    for device_id, arch, top_1 in (
        ("acme-one", "mlp", 0.8),
        ("acme-one", "gbt", 0.9),
        ("blit-gpu", "mlp", 0.7),
    ):
        folder = empty_hub / "models" / "costhub" / f"{device_id}-{arch}"
        write_manifest(write_model(folder, device_id=device_id, arch=arch, top_1=top_1))
    return empty_hub
