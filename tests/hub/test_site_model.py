"""A model folder as the page shows it: what it records, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costhub.errors import CosthubError, DataError
from costhub.hub.manifest import scan, write_manifest
from costhub.hub.site_model import MAX_OPERATORS, read_body, read_site_model

PNG = b"\x89PNG\r\n\x1a\n" + b"drawn" * 9


@pytest.fixture
def folder(tmp_path: Path, make_model: Any) -> Path:
    folder: Path = make_model(tmp_path / "m", device_id="acme-one", arch="mlp", top_1=0.8)
    return folder


def evaluation(folder: Path, **content: Any) -> None:
    (folder / "evaluation.json").write_text(json.dumps(content))


def test_a_shipped_model_is_read_with_its_figures_and_card(sound_model: Callable[..., Path]) -> None:
    model, pictures = read_site_model(sound_model(manifest=True), "costhub/amd-epyc-zen5-2c-mlp")

    assert (model.device_id, model.arch) == ("amd-epyc-zen5-2c", "mlp")
    assert list(model.pictures) == ["evaluation.png"]
    assert list(pictures) == [model.pictures["evaluation.png"]]
    assert list(model.figures) == list(model.errors) == ["top_1", "top_5", "pairwise"]
    assert "depthwise" in model.operators
    assert model.card is not None
    assert model.card.startswith("# amd-epyc-zen5-2c-mlp")


def test_its_size_is_that_of_all_its_files(folder: Path) -> None:
    size = sum(entry.size for entry in write_manifest(folder).files.values())

    assert read_site_model(folder, "lab/m")[0].bytes == size


def test_a_model_without_an_evaluation_shows_what_its_configuration_says(folder: Path) -> None:
    write_manifest(folder)

    model, _ = read_site_model(folder, "lab/m")
    assert (dict(model.figures), dict(model.operators), model.card) == ({"top_1": 0.8}, {}, None)


def test_pictures_are_named_by_their_content(folder: Path) -> None:
    (folder / "adaptation.png").write_bytes(PNG)
    digest = scan(folder).files["adaptation.png"].sha256
    write_manifest(folder)

    model, pictures = read_site_model(folder, "lab/m")
    assert model.pictures == {"adaptation.png": f"pictures/{digest[:16]}.png"}
    assert pictures == {f"pictures/{digest[:16]}.png": PNG}


def test_figures_that_are_no_numbers_are_left_out(folder: Path) -> None:
    rows = [{"operator": "conv", "top_1": 0.5}, {"operator": "norm", "top_1": "<b>"}, 3]
    evaluation(folder, totals={"top_1": "0.9", "top_5": float("nan"), "pairwise": 0.7}, operators=rows)
    write_manifest(folder)

    model, _ = read_site_model(folder, "lab/m")
    assert (dict(model.figures), dict(model.operators)) == ({"pairwise": 0.7}, {"conv": 0.5})


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("model.safetensors", b"other", "is damaged"),
        ("adaptation.png", b"GIF89a", "is no PNG"),
        ("evaluation.json", b"{", "is not JSON"),
        ("evaluation.json", b"[" * 100_000, "is not JSON"),
        ("evaluation.json", b'{"totals": {"top_1": 1e300}}', r"top_1 1e\+300, expected 0 to 1"),
        (
            "evaluation.json",
            b'{"operators": [{"operator": "conv", "top_1": -1}]}',
            "conv -1, expected 0 to 1",
        ),
        ("README.md", b"---\n&a *a\n---\nx", "not YAML"),
        ("README.md", b"\xff", "no text in UTF-8"),
        ("README.md", b"x" * (2 << 20), "it is no card"),
        ("config.json", b"{}", "which architecture and device"),
    ],
)
def test_what_is_damaged_is_refused(folder: Path, name: str, content: bytes, sentence: str) -> None:
    if name == "model.safetensors":
        write_manifest(folder)
    (folder / name).write_bytes(content)
    if name != "model.safetensors":
        write_manifest(folder)

    with pytest.raises(CosthubError, match=sentence):
        read_site_model(folder, "lab/m")


def test_too_many_operator_classes_are_refused(folder: Path) -> None:
    evaluation(folder, operators=[{"operator": str(n), "top_1": 0.5} for n in range(MAX_OPERATORS + 1)])
    write_manifest(folder)

    with pytest.raises(CosthubError, match="no model has that many"):
        read_site_model(folder, "lab/m")


def test_a_name_that_cannot_be_pulled_is_refused(folder: Path) -> None:
    write_manifest(folder)

    with pytest.raises(CosthubError, match="is not an address"):
        read_site_model(folder, "lab/$(reboot)")


def test_a_link_out_of_the_folder_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "private.png").write_bytes(PNG)
    (folder / "masks.png").symlink_to(tmp_path / "private.png")
    write_manifest(folder)

    with pytest.raises(CosthubError, match="link out of its folder"):
        read_site_model(folder, "lab/m")


def test_a_card_without_a_block_is_a_card_and_a_link_is_none(tmp_path: Path) -> None:
    assert read_body(tmp_path) is None
    (tmp_path / "README.md").write_text("# T\n")
    assert read_body(tmp_path) == "# T\n"

    (tmp_path / "README.md").rename(tmp_path / "other.md")
    (tmp_path / "README.md").symlink_to("other.md")
    with pytest.raises(DataError, match="is a link"):
        read_body(tmp_path)
