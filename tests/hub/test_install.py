from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costhub.cards.model_card import is_as_rendered, parse
from costhub.dataset.programs import Programs
from costhub.errors import DataError, ModelError
from costhub.hub.catalogue.find import find_model
from costhub.hub.install import install_model
from costhub.hub.pull import pull
from costhub.hub.remote.manifest import read_manifest, verify
from costhub.models.architectures import new_model
from costhub.models.evaluate import evaluate
from costhub.models.folder import load_model, save_model
from costhub.models.train import describe_model

EVALUATION = {
    "noise_floor": 0.02,
    "totals": {"top_1": 0.9, "top_5": 0.95, "pairwise": 0.85, "spearman": 0.8},
    "workloads": [
        {"workload": "m", "operator": "matmul", "programs": 10, "top_1": 0.9, "top_5": 0.95, "pairwise": None}
    ],
}


@pytest.fixture
def trained(tmp_path: Path, make_model: Any) -> Path:
    folder: Path = make_model(tmp_path / "trained", device_id="acme-two", arch="mlp", top_1=0.9)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "licence": "Apache-2.0"}))
    return folder


def test_an_installed_model_can_be_found(hub: Path, trained: Path) -> None:
    target = install_model(trained, root=hub, org="alice")

    assert target == hub / "models" / "alice" / "acme-two-mlp"
    assert find_model("acme-two").entry.folder == target
    assert set(verify(target).files) == {"config.json", "model.safetensors"}


def test_figures_become_a_card_that_the_manifest_covers(hub: Path, trained: Path) -> None:
    target = install_model(trained, root=hub, evaluation=EVALUATION)
    text = (target / "README.md").read_text()

    assert set(verify(target).files) == {
        "README.md",
        "config.json",
        "evaluation.json",
        "evaluation.png",
        "model.safetensors",
    }
    assert is_as_rendered(text)
    assert parse(text).device["cores"] == 8
    assert json.loads((target / "evaluation.json").read_text()) == {"version": 1, **EVALUATION}


def test_figures_beside_a_model_are_its_evaluation(hub: Path, trained: Path) -> None:
    (trained / "evaluation.json").write_text(json.dumps(EVALUATION))
    (trained / "README.md").write_text("a card with the name the folder had then")

    target = install_model(trained, root=hub)

    assert parse((target / "README.md").read_text()).name == "acme-two-mlp"


def test_a_model_that_was_carried_over_keeps_its_tale(hub: Path, trained: Path) -> None:
    told = {"source": "acme/a-mlp", "method": "lottery", "trials": 64, "chosen": "adapted"}
    (trained / "adaptation.json").write_text(json.dumps(told))
    (trained / "adaptation.png").write_bytes(b"picture")

    target = install_model(trained, root=hub, evaluation=EVALUATION)

    assert {"adaptation.json", "adaptation.png"} < set(verify(target).files)
    assert parse((target / "README.md").read_text()).transfer == {**told, "pictures": ["adaptation.png"]}
    (trained / "adaptation.json").write_text("{}")
    with pytest.raises(DataError, match="lacks source, method"):
        install_model(trained, root=hub, evaluation=EVALUATION)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a JSON object with figures"),
        *((f'{{"workloads": {rows}}}', "is not a list of rows") for rows in ("null", "[1]", '["ab"]')),
    ],
)
def test_figures_that_cannot_be_read_are_refused(hub: Path, trained: Path, text: str, sentence: str) -> None:
    (trained / "evaluation.json").write_text(text)

    with pytest.raises(DataError, match=sentence):
        install_model(trained, root=hub)


@pytest.mark.parametrize(
    ("arch", "options", "files"),
    [
        ("gbt", {"rounds": 9}, ["model.ubj"]),
        ("ensemble", {"members": 2, "member": "gbt(rounds=9)"}, ["member_0/model.ubj", "member_1/model.ubj"]),
        (
            "blend",
            {"members": "gbt(rounds=9) mlp(hidden=8,epochs=1)"},
            ["member_0/model.ubj", "member_1/model.safetensors"],
        ),
    ],
)
def test_a_model_scores_the_same_after_its_way_through_a_hub(
    hub: Path, tmp_path: Path, arch: str, options: dict[str, object], files: list[str]
) -> None:
    rng = np.random.default_rng(0)
    features = [rng.random((2, 6)) for _ in range(60)]
    latency_s = np.array([1e-3 + f.sum() * 1e-3 for f in features])
    programs = Programs.from_list(features, np.arange(60) % 3, ("a", "b", "c"), latency_s)
    model = new_model(arch, feature_spec="test@1", options=options)
    model.fit(programs, None, seed=0, progress=False)
    info = describe_model(model, train=programs, device_id="acme-two", seed=0, licence="MIT")
    others = Programs(programs.rows, programs.counts, programs.workload, ("d", "e", "f"), latency_s)
    figures = evaluate(model, others).to_json()

    save_model(model, tmp_path / "trained", info)
    install_model(tmp_path / "trained", root=hub, evaluation=figures)
    folder = pull("acme-two")
    loaded, loaded_info = load_model(folder)

    assert set(files) < set(read_manifest(folder).files)
    assert loaded_info == info
    scores = loaded.predict(programs.rows, programs.counts)
    np.testing.assert_array_equal(scores, model.predict(programs.rows, programs.counts))


def test_a_new_version_takes_the_place_of_the_old(hub: Path, trained: Path) -> None:
    install_model(trained, root=hub)
    (trained / "model.safetensors").write_bytes(b"better")

    target = install_model(trained, root=hub)

    assert (target / "model.safetensors").read_bytes() == b"better"
    assert verify(target)
    assert [p.name for p in target.parent.iterdir() if p.name.startswith(".")] == []


def test_a_card_without_its_facts_leaves_the_old_version(hub: Path, trained: Path) -> None:
    target = install_model(trained, root=hub)

    with pytest.raises(DataError, match="lacks totals"):
        install_model(trained, root=hub, evaluation={})
    assert verify(target)


def test_a_folder_that_is_no_model_is_refused(hub: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is not a model folder"):
        install_model(tmp_path, root=hub)
