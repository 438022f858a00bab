from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costhub.errors import CosthubError, ModelError
from costhub.hub.catalogue.hubs import (
    EMBEDDED,
    HUB_VARIABLE,
    embedded_root,
    folder_root,
    held_out_top_1,
    hub_roots,
    list_datasets,
    list_models,
    models_for,
    read_config,
    unreadable_models,
)


def test_the_embedded_hub_is_always_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(HUB_VARIABLE, raising=False)
    (root,) = hub_roots()

    assert root.path == EMBEDDED
    assert root.devices_file.is_file()


def test_a_shared_hub_stands_before_the_embedded_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(HUB_VARIABLE, str(tmp_path))

    assert [root.path for root in hub_roots()] == [tmp_path, EMBEDDED]


def test_a_shared_hub_that_is_no_folder_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(HUB_VARIABLE, str(tmp_path / "typo"))

    with pytest.raises(CosthubError, match=r"COSTHUB_HUB names .*typo, which is not a folder"):
        hub_roots()


def test_a_folder_with_any_part_of_a_hub_is_one(tmp_path: Path) -> None:
    with pytest.raises(CosthubError, match="is not the folder of a hub"):
        folder_root(tmp_path)

    (tmp_path / "datasets").mkdir()
    assert folder_root(tmp_path).path == tmp_path
    assert folder_root(embedded_root().path).devices_file == embedded_root().devices_file


def test_models_are_listed_best_first(hub: Path) -> None:
    assert [(m.name, m.top_1) for m in models_for("acme-one")] == [
        ("costhub/acme-one-gbt", 0.9),
        ("costhub/acme-one-mlp", 0.8),
    ]
    assert len(list_models()) == 3
    assert models_for("acme-two") == ()


def test_a_model_without_figures_comes_last(hub: Path, make_model: Any) -> None:
    make_model(hub / "models" / "alice" / "x", device_id="acme-one", arch="tokens")

    assert [m.arch for m in models_for("acme-one")] == ["gbt", "mlp", "tokens"]


def test_a_folder_that_is_no_model_hides_no_other(hub: Path) -> None:
    bad = hub / "models" / "mallory" / "bad"
    bad.mkdir(parents=True)
    (bad / "config.json").write_text("[" * 100_000)

    assert len(list_models()) == 3
    (sentence,) = unreadable_models()
    assert "mallory/bad/config.json is not JSON" in sentence


def test_a_shared_hub_hides_the_model_of_the_same_name(
    hub: Path, make_model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    make_model(shared / "models" / "costhub" / "acme-one-mlp", device_id="acme-one", arch="mlp", top_1=0.1)
    monkeypatch.setenv(HUB_VARIABLE, str(shared))

    (mlp,) = (m for m in models_for("acme-one") if m.arch == "mlp")

    assert (mlp.top_1, mlp.folder.parents[2]) == (0.1, shared)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, r"holds no config\.json"),
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "does not say which architecture and device"),
        ('{"arch": "mlp"}', "does not say which architecture and device"),
        ('{"arch": "mlp", "device_id": "../../x"}', "does not say which architecture and device"),
        ('{"arch": "mlp", "device_id": 3}', "does not say which architecture and device"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_refused(tmp_path: Path, text: str | None, sentence: str) -> None:
    if text is not None:
        (tmp_path / "config.json").write_text(text)

    with pytest.raises(ModelError, match=sentence):
        read_config(tmp_path)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"metrics": {"top_1": 0.5}}, 0.5),
        ({"metrics": {"top_1": 1}}, 1.0),
        ({"metrics": {"top_1": "0.5"}}, None),
        ({"metrics": {"top_1": True}}, None),
        ({"metrics": {"top_1": 10**400}}, None),
        ({"metrics": {"top_1": float("nan")}}, None),
        ({"metrics": {"top_1": float("inf")}}, None),
        ({"metrics": {}}, None),
        ({"metrics": None}, None),
        ({}, None),
    ],
)
def test_only_a_number_is_a_figure(config: dict[str, Any], expected: float | None) -> None:
    assert held_out_top_1(config) == expected


def test_datasets_are_found_by_the_device_they_measured(hub: Path) -> None:
    (hub / "datasets" / "bob" / "boards" / "measurements" / "acme-two").mkdir(parents=True)

    assert list_datasets("acme-two") == ("bob/boards",)
    assert list_datasets("acme-one") == ()
