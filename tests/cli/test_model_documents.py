from __future__ import annotations

import json
import runpy
from pathlib import Path

from costhub.cards.model_card import is_as_rendered, parse
from costhub.cli.learning import model_documents
from costhub.cli.main import run
from costhub.models.folder import load_model

build_data = runpy.run_path(str(Path(__file__).with_name("measured_folder.py")))["build_data"]


def test_the_card_shows_the_figures_and_is_not_written_without(tmp_path: Path) -> None:
    build_data(tmp_path / "data")
    assert run(["train", "--data", str(tmp_path / "data"), "--arch", "gbt", "--out", str(tmp_path / "model")]) == 0
    model, info = load_model(tmp_path / "model")
    figures = json.loads((tmp_path / "model/evaluation.json").read_text())

    documents = model_documents(model, info, figures, "trees")

    assert sorted(documents) == ["README.md", "evaluation.json", "evaluation.png"]
    card = parse(documents["README.md"].decode())
    assert (card.name, card.totals["top_1"]) == ("trees", figures["totals"]["top_1"])
    assert json.loads(documents["evaluation.json"]) == figures
    assert model_documents(model, info, None, "trees") == {}


def test_a_transfer_comes_with_its_pictures_also_without_a_card(tmp_path: Path) -> None:
    build_data(tmp_path / "data")
    arguments = ["--arch", "gbt", "--out", str(tmp_path / "model")]
    assert run(["train", "--data", str(tmp_path / "data"), *arguments]) == 0
    model, info = load_model(tmp_path / "model")
    figures = json.loads((tmp_path / "model/evaluation.json").read_text())
    batch = {"trials": 0, "chosen": "adapted", "pairwise": {"adapted": 0.7, "source": 0.7}}
    told = {"source": "acme/a-mlp", "method": "lottery", "trials": 9, "chosen": "source", "curve": [batch]}
    masks = {"transferable": [[{"w": 0.5}, {"w": 0.25}]], "kept": [[{"w": 0.75}]]}

    bare = model_documents(model, info, None, "trees", transfer={**told, "transferable": [], "kept": []})
    full = model_documents(model, info, figures, "trees", transfer={**told, **masks})

    assert sorted(bare) == ["adaptation.json", "adaptation.png"]
    assert sorted(full) == [
        "README.md",
        "adaptation.json",
        "adaptation.png",
        "evaluation.json",
        "evaluation.png",
        "masks.png",
    ]
    assert json.loads(full["adaptation.json"]) == {"version": 1, **told, **masks}
    card = full["README.md"].decode()
    assert is_as_rendered(card)
    assert parse(card).transfer["pictures"] == ["adaptation.png", "masks.png"]
