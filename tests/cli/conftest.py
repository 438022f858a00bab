"""The command line as a person sees it: what it printed, and the code it left with."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from costhub.cli.main import run
from costhub.files import CACHE_VARIABLE
from costhub.hub.catalogue import hubs
from costhub.hub.catalogue.devices import register_device
from costhub.hub.install import install_model


@dataclass(frozen=True)
class Output:
    code: int
    out: str
    err: str


Costhub = Callable[..., Output]


@pytest.fixture
def costhub(capsys: pytest.CaptureFixture[str]) -> Costhub:
    def call(*arguments: str) -> Output:
        code = run(arguments)
        captured = capsys.readouterr()
        return Output(code, captured.out, captured.err)

    return call


@pytest.fixture
def small_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hub with two devices and two models for one of them, in the place of the embedded one."""
    root = tmp_path / "hub"
    register_device(
        {"device_id": "acme-one", "kind": "cpu", "aliases": ["one"], "cores": 4}, path=root / "devices.json"
    )
    register_device({"device_id": "blit-gpu", "kind": "cuda"}, path=root / "devices.json")
    for arch, top_1 in (("mlp", 0.8), ("gbt", 0.9)):
        folder = tmp_path / arch
        folder.mkdir()
        config = {"device_id": "acme-one", "arch": arch, "metrics": {"top_1": top_1}}
        (folder / "config.json").write_text(json.dumps(config))
        install_model(folder, root=root)
    monkeypatch.setattr(hubs, "EMBEDDED", root)
    monkeypatch.delenv(hubs.HUB_VARIABLE, raising=False)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return root
