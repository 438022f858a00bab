"""Shipped documents are read as others read them; each way in which one can fail is told."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from costhub.cards.markdown import CARD
from costhub.dataset.croissant import CROISSANT
from costhub.hub.catalogue.hubs import EMBEDDED
from scripts.bench.data.conventions import ACCEPTED, REFUSED, SMALL, UNREACHABLE, card_row, dataset_row, failures

MODEL = EMBEDDED / "models/costhub/nvidia-h200-gbt"
# Of mlcroissant and rdflib themselves, as in tests/dataset/test_croissant.py.
pytestmark = [
    pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame.reset_index is deprecated"),
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    pytest.importorskip("mlcroissant")
    return Path(shutil.copytree(EMBEDDED / SMALL, tmp_path / "data"))


def changed(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_a_dataset_is_read_record_set_by_record_set(data: Path) -> None:
    row = dataset_row(data)

    assert (row["errors"], row["warnings"]) == ([], [])
    assert row["read"] == row["record_sets"]
    assert {"measurements", "workloads", "devices"} <= set(row["read"])


def test_a_table_that_cannot_be_read_is_told(data: Path) -> None:
    for shard in (data / "workloads").iterdir():
        shard.write_bytes(b"no shard")

    row = dataset_row(data)

    assert "workloads" not in row["read"]
    assert "measurements" in row["read"]
    assert any(error.startswith("workloads: ") for error in row["errors"])


def test_a_document_that_the_reader_refuses_has_errors(data: Path) -> None:
    changed(data / CROISSANT, '"cr:RecordSet"', '"cr:Recordset"')

    row = dataset_row(data)

    assert row["errors"]
    assert failures({"datasets": [row], "cards": []})


def test_what_the_reader_warns_of_is_told(data: Path) -> None:
    changed(data / CROISSANT, '"license"', '"licens"')

    row = dataset_row(data)

    assert row["warnings"]
    assert failures({"datasets": [row], "cards": []})


def test_cards_are_read_and_accepted_by_the_server(hugging_face: Any) -> None:
    model, dataset = card_row(MODEL), card_row(EMBEDDED / SMALL)

    assert (model["kind"], model["error"], model["results"], model["wrong"]) == ("model", "", 4, [])
    assert (dataset["kind"], dataset["error"], dataset["results"]) == ("dataset", "", None)
    assert [row["answer"] for row in (model, dataset)] == [ACCEPTED, ACCEPTED]
    assert failures({"datasets": [], "cards": [model, dataset]}) == []


def test_the_figures_of_each_dataset_are_compared(tmp_path: Path, hugging_face: Any) -> None:
    model = Path(shutil.copytree(EMBEDDED / "models/costhub/any-cpu-conditioned", tmp_path / "model"))
    row = card_row(model)

    assert (row["results"], row["wrong"]) == (20, [])

    text = (model / CARD).read_text()
    (model / CARD).write_text(re.sub(r"\{type: top_5, value: [0-9.]+,", "{type: top_5, value: 0.123,", text, count=1))
    (wrong,) = card_row(model)["wrong"]
    assert wrong.startswith("top_5 of costhub/")


def test_a_card_that_the_server_refuses_is_told(tmp_path: Path, hugging_face: Any) -> None:
    model = Path(shutil.copytree(MODEL, tmp_path / "model"))
    changed(model / CARD, "license: apache-2.0", "license: beerware")

    row = card_row(model)

    assert row["answer"] == REFUSED
    assert row["why"]
    assert failures({"datasets": [], "cards": [row]}) == [f"model: {row['why']}"]


def test_figures_that_are_not_those_of_the_evaluation_are_told(tmp_path: Path, hugging_face: Any) -> None:
    model = Path(shutil.copytree(MODEL, tmp_path / "model"))
    changed(model / CARD, "{type: top_5, value: 1.0,", "{type: top_5, value: 0.5,")

    row = card_row(model)

    assert row["wrong"] == ["top_5"]
    assert failures({"datasets": [], "cards": [row]}) == ["model: top_5 is not as evaluated"]


def test_a_card_that_the_class_cannot_read_is_told(tmp_path: Path, hugging_face: Any) -> None:
    model = Path(shutil.copytree(MODEL, tmp_path / "model"))
    changed(model / CARD, "license: apache-2.0", "license: [")

    row = card_row(model)

    assert (row["answer"], row["results"]) == (None, None)
    assert failures({"datasets": [], "cards": [row]}) == [f"model: {row['error']}"]


def test_a_server_that_does_not_answer_is_unreachable(hugging_face: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", f"{hugging_face.url}/nobody")
    assert card_row(MODEL)["answer"] == UNREACHABLE

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # the port of `discard`, where nobody listens
    row = card_row(MODEL)
    assert (row["answer"], row["why"]) == (UNREACHABLE, "ConnectError")
    assert failures({"datasets": [], "cards": [row]}) == []
