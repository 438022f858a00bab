from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costhub.dataset.programs import Programs
from costhub.errors import ModelError
from costhub.isolation.scratch import HIDDEN, LOCK, PREFIX
from costhub.models import folder as module
from costhub.models.folder import CONFIG, config_of, load_model, save_model
from costhub.models.info import ModelInfo
from costhub.models.networks.mlp import Mlp
from costhub.models.networks.network_options import MlpOptions
from costhub.models.protocol import CostModel
from costhub.models.train import describe_model
from costhub.models.trees.gbt import Gbt, GbtOptions

Spoil = Callable[[Path], None]
Fitted = Callable[[str], tuple[CostModel, ModelInfo]]


@pytest.fixture(scope="module")
def fitted(train: Programs) -> Fitted:
    """A small model of an architecture, and its info."""

    def fit(arch: str) -> tuple[CostModel, ModelInfo]:
        model: CostModel
        if arch == "mlp":
            model = Mlp(feature_spec="demo@1", options=MlpOptions(hidden=8, epochs=1))
        else:
            model = Gbt(feature_spec="demo@1", options=GbtOptions(rounds=3))
        model.fit(train, None, seed=0, progress=False)
        info = describe_model(model, train, device_id="acme-one", seed=0, licence="Apache-2.0", metrics={"top_1": 0.5})
        return model, info

    return fit


@pytest.fixture
def saved(fitted: Fitted, tmp_path: Path) -> Path:
    model, info = fitted("mlp")
    return save_model(model, tmp_path / "model", info)


def edit(folder: Path, changes: dict[str, Any]) -> None:
    path = folder / CONFIG
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize(("arch", "weights"), [("mlp", "model.safetensors"), ("gbt", "model.ubj")])
def test_a_model_comes_back_with_its_info(
    arch: str, weights: str, fitted: Fitted, unseen: Programs, tmp_path: Path
) -> None:
    model, info = fitted(arch)

    folder = save_model(model, tmp_path / "deep" / "model", info)
    loaded, found = load_model(folder)

    assert sorted(p.name for p in folder.iterdir()) == sorted([CONFIG, weights])
    assert found == info
    assert (loaded.arch, loaded.feature_spec) == (arch, "demo@1")
    np.testing.assert_array_equal(loaded.predict(unseen.rows, unseen.counts), model.predict(unseen.rows, unseen.counts))


def test_the_configuration_says_format_and_options(saved: Path) -> None:
    model, info = load_model(saved)

    config = json.loads((saved / CONFIG).read_text())

    assert config["costhub_format"] == 1
    assert config["options"]["hidden"] == 8
    assert config == json.loads(json.dumps(config_of(model, info)))


def test_documents_are_written_with_the_model(fitted: Fitted, tmp_path: Path) -> None:
    model, info = fitted("mlp")

    documents = {"README.md": "# Größe\n", "a.png": b"\x89\r\n"}
    folder = save_model(model, tmp_path / "model", info, documents=documents)

    assert (folder / "README.md").read_text(encoding="utf-8") == "# Größe\n"
    assert (folder / "a.png").read_bytes() == b"\x89\r\n"


def test_saving_again_replaces_the_model_and_leaves_nothing_else(fitted: Fitted, saved: Path) -> None:
    (saved / "README.md").write_text("of the old model")
    model, info = fitted("gbt")

    save_model(model, saved, info)

    assert sorted(p.name for p in saved.iterdir()) == [CONFIG, "model.ubj"]
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


def test_what_a_killed_process_left_beside_the_folder_is_removed(fitted: Fitted, saved: Path) -> None:
    left = saved.parent / f"{HIDDEN}{PREFIX}x"
    left.mkdir()
    (left / LOCK).write_text("")  # nobody holds it
    model, info = fitted("gbt")

    save_model(model, saved, info)

    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


def test_a_folder_that_holds_something_else_is_left_alone(fitted: Fitted, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/thesis.tex").write_text("years of work")
    model, info = fitted("mlp")

    with pytest.raises(ModelError, match="exists and is not a model folder"):
        save_model(model, tmp_path / "notes", info)
    assert (tmp_path / "notes/thesis.tex").read_text() == "years of work"


def test_an_empty_folder_is_filled_and_a_file_is_not(fitted: Fitted, tmp_path: Path) -> None:
    model, info = fitted("mlp")
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")

    assert load_model(save_model(model, tmp_path / "empty", info))[1].arch == "mlp"
    with pytest.raises(ModelError, match="exists and is not a model folder"):
        save_model(model, tmp_path / "file", info)


@pytest.mark.parametrize("target", ["gone", "link"])
def test_a_link_to_nothing_is_no_model_folder(fitted: Fitted, tmp_path: Path, target: str) -> None:
    model, info = fitted("mlp")
    (tmp_path / "link").symlink_to(tmp_path / target)

    with pytest.raises(ModelError, match="exists and is not a model folder"):
        save_model(model, tmp_path / "link", info)


def test_a_failure_while_writing_leaves_the_old_model(fitted: Fitted, saved: Path) -> None:
    before = {p.name: p.read_bytes() for p in saved.iterdir()}
    unfitted = Mlp(feature_spec="demo@1")

    with pytest.raises(ModelError, match="no weights yet"):
        save_model(unfitted, saved, fitted("mlp")[1])
    assert {p.name: p.read_bytes() for p in saved.iterdir()} == before
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


def test_an_info_of_another_model_is_refused(fitted: Fitted, tmp_path: Path) -> None:
    model, info = fitted("mlp")

    with pytest.raises(ModelError, match=r"describes a gbt model of demo@1, but the model is a mlp"):
        save_model(model, tmp_path / "model", replace(info, arch="gbt"))


def lose_config(folder: Path) -> None:
    (folder / CONFIG).unlink()


def lose_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def cut_config(folder: Path) -> None:
    (folder / CONFIG).write_bytes((folder / CONFIG).read_bytes()[:50])


def lose_inputs(folder: Path) -> None:
    config = json.loads((folder / CONFIG).read_bytes())
    del config["options"]["inputs"]
    (folder / CONFIG).write_text(json.dumps(config))


def nest_config(folder: Path) -> None:
    (folder / CONFIG).write_text("[" * 100_000)


def cut_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-10])


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lose_config, "is not a model folder: it has no config.json"),
        (lose_weights, "lacks model.safetensors"),
        (cut_config, "cannot be read as JSON"),
        (nest_config, "cannot be read as JSON"),
        (cut_weights, "damaged or cut short"),
        (lambda f: (f / CONFIG).write_text("[1]"), "no costhub_format"),
        (lambda f: (f / CONFIG).write_bytes(b"\xff\xfe{"), "cannot be read as JSON"),
        (lambda f: edit(f, {"costhub_format": None}), "no costhub_format"),
        (lambda f: edit(f, {"costhub_format": True}), "no costhub_format"),
        (lambda f: edit(f, {"costhub_format": 2}), "has format 2, this costhub reads 1. Update costhub"),
        (
            lambda f: edit(f, {"arch": "perceiver"}),
            "architecture 'perceiver', which this costhub lacks",
        ),
        (lambda f: edit(f, {"seed": "x"}), "needs seed, a whole number"),
        (lambda f: edit(f, {"options": None}), "needs options"),
        (lose_inputs, "inputs of this mlp model"),
        (lambda f: edit(f, {"options": {"columns": 6, "inputs": 6}}), "missing or unknown"),
        (lambda f: edit(f, {"arch": "gbt"}), "missing or unknown"),
    ],
)
def test_a_spoiled_folder_is_refused_in_one_sentence(saved: Path, spoil: Spoil, sentence: str) -> None:
    spoil(saved)

    with pytest.raises(ModelError, match=sentence) as error:
        load_model(saved)
    assert "\n" not in str(error.value)


def test_a_configuration_beyond_any_is_not_read(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CONFIG_BYTES", 10)

    with pytest.raises(ModelError, match=r"At most 10 are read"):
        load_model(saved)


def test_a_hidden_size_other_than_that_of_the_file_is_refused(saved: Path) -> None:
    options = json.loads((saved / CONFIG).read_text())["options"]
    edit(saved, {"options": {**options, "hidden": 9}})

    with pytest.raises(ModelError, match=r"holds member_0\.encode_1\.weight of shape \(8, \d+\), but"):
        load_model(saved)


def test_the_current_folder_is_not_replaced(fitted: Fitted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path / "model")
    model, info = fitted("gbt")

    for name in (".", tmp_path / "model"):
        with pytest.raises(ModelError, match="is the current folder"):
            save_model(model, name, info)

    save_model(model, "inside", info)
    assert load_model(tmp_path / "model" / "inside")[0].arch == "gbt"


def test_a_model_that_could_not_be_read_again_does_not_replace_one_that_can(
    fitted: Fitted, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, info = fitted("gbt")
    before = {path.name: path.read_bytes() for path in saved.iterdir()}

    monkeypatch.setattr("costhub.models.trees.boosting.MAX_TREES_BYTES", 100)
    with pytest.raises(ModelError, match="bytes"):
        save_model(model, saved, info)

    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before
