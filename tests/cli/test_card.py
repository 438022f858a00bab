"""`costhub card`: a card for a model that was trained without one, and a card written again."""

from __future__ import annotations

import json
import os
import runpy
from pathlib import Path
from typing import Any

import pytest

from costhub.cards.model_card import parse
from costhub.dataset.splits.split import Split, save_split
from costhub.errors import DataError, ModelError
from costhub.hub.catalogue.hubs import read_config
from costhub.hub.model_check.model_gate import check_model
from costhub.hub.pull import resolve
from costhub.hub.remote.manifest import verify, write_manifest

_measured = runpy.run_path(str(Path(__file__).with_name("measured_folder.py")))
build_data = _measured["build_data"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder: Path = build_data(tmp_path / "data")
    return folder


@pytest.fixture
def model(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A model that has learned from all workloads but conv2d0 and matmul0."""
    folder: Path = _measured["train_model"](data, tmp_path)
    capsys.readouterr()  # what training said
    return folder


def without_card(model: Path) -> Path:
    for name in ("README.md", "evaluation.json"):
        (model / name).unlink()
    return model


def test_measurements_give_a_model_the_card_that_it_lacks(costhub: Any, model: Path, data: Path) -> None:
    trained = parse((model / "README.md").read_text())

    done = costhub("card", str(without_card(model)), "--data", str(data), "--json")

    written = parse((model / "README.md").read_text())
    assert done.code == 0, done.err
    assert written.totals == trained.totals
    figures = json.loads((model / "evaluation.json").read_text())
    assert [row["workload"] for row in figures["workloads"]] == ["conv2d0", "matmul0"]
    assert written.held_out["workloads"] == 2
    assert json.loads(done.out)["top_1"] == written.totals["top_1"]


def test_the_same_figures_give_the_same_card(costhub: Any, model: Path) -> None:
    before = (model / "README.md").read_bytes()
    (model / "README.md").unlink()

    done = costhub("card", str(model))

    assert done.out.startswith(f"Wrote {model / 'README.md'}: top_1 ")
    assert (model / "README.md").read_bytes() == before


def test_a_folder_with_a_manifest_stays_whole_and_publishable(
    costhub: Any, model: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("costhub.hub.model_check.model_gate.load_in_child", lambda folder: None)
    write_manifest(model)
    before = (model / "README.md").read_bytes()
    save_split(Split("one", (), ("id-matmul0",), 0), model.parent / "one.json")

    done = costhub("card", str(model), "--data", str(data), "--split", str(model.parent / "one.json"))

    assert done.code == 0, done.err
    assert (model / "README.md").read_bytes() != before
    assert resolve(str(model)) == model
    assert read_config(model)["metrics"] == parse((model / "README.md").read_text()).totals
    check_model(model)


def test_a_damaged_model_gets_no_new_manifest(costhub: Any, model: Path) -> None:
    write_manifest(model)
    with (model / "model.ubj").open("ab") as file:
        file.write(b"x")

    assert costhub("card", str(model)).code == ModelError.exit_code
    with pytest.raises(ModelError):
        resolve(str(model))


def test_figures_of_another_device_are_refused(costhub: Any, model: Path, tmp_path: Path) -> None:
    before = (model / "README.md").read_bytes()
    elsewhere = build_data(tmp_path / "elsewhere", device_id="blit-two")

    done = costhub("card", str(model), "--data", str(elsewhere))

    assert done.code == DataError.exit_code
    assert "The figures are for blit-two" in done.err
    assert (model / "README.md").read_bytes() == before


def test_a_card_without_figures_is_refused_with_what_to_do(costhub: Any, model: Path) -> None:
    done = costhub("card", str(without_card(model)))

    assert done.code == DataError.exit_code
    assert "holds no figures" in done.err
    assert "--data" in done.err
    assert not (model / "README.md").exists()


def test_a_device_without_data_and_a_data_folder_are_refused(costhub: Any, model: Path, data: Path) -> None:
    assert "give --data" in costhub("card", str(model), "--device", "x").err
    assert "is not a model folder" in costhub("card", str(data)).err


def test_a_model_of_a_hub_keeps_its_card_and_a_copy_gets_one(costhub: Any, tmp_path: Path) -> None:
    refused = costhub("card", "nvidia-h200")
    copied = costhub("card", "nvidia-h200-gbt", "--out", str(tmp_path / "mine"))

    assert (refused.code, "is not changed; name a folder with --out" in refused.err) == (2, True)
    assert copied.code == 0, copied.err
    assert copied.out.startswith(f"Wrote {tmp_path / 'mine/README.md'}: top_1 ")
    verify(tmp_path / "mine")


@pytest.mark.parametrize("name", ["README.md", "evaluation.json", "manifest.json", "config.json", "evaluation.png"])
def test_a_pipe_in_the_folder_is_not_waited_for(name: str, costhub: Any, sound_model: Any) -> None:
    folder = sound_model("mlp")
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)

    done = costhub("card", str(folder))

    assert done.code in (1, 2), done.err
    assert name in done.err


def test_a_card_is_not_written_through_a_link(costhub: Any, sound_model: Any, tmp_path: Path) -> None:
    folder, precious = sound_model("mlp"), tmp_path / "precious"
    precious.write_text("kept")
    (folder / "README.md").unlink()
    (folder / "README.md").symlink_to(precious)

    done = costhub("card", str(folder))

    assert done.code == 2
    assert "README.md, a link" in done.err
    assert precious.read_text() == "kept"
