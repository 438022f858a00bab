from __future__ import annotations

import json
import runpy
from pathlib import Path

from costhub.cards.model_card import parse
from costhub.cli.main import run
from costhub.cli.model_documents import model_documents
from costhub.models.folder import load_model

build_data = runpy.run_path(str(Path(__file__).with_name("measured_folder.py")))["build_data"]


def test_the_card_shows_the_figures_and_is_not_written_without(tmp_path: Path) -> None:
    build_data(tmp_path / "data")
    assert (
        run(["train", "--data", str(tmp_path / "data"), "--arch", "gbt", "--out", str(tmp_path / "model")])
        == 0
    )
    model, info = load_model(tmp_path / "model")
    figures = json.loads((tmp_path / "model/evaluation.json").read_text())

    documents = model_documents(model, info, figures, "trees")

    assert sorted(documents) == ["README.md", "evaluation.json"]
    card = parse(documents["README.md"])
    assert (card.name, card.totals["top_1"]) == ("trees", figures["totals"]["top_1"])
    assert json.loads(documents["evaluation.json"]) == figures
    assert model_documents(model, info, None, "trees") == {}
