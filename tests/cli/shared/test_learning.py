from __future__ import annotations

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from costhub.cards.model_card import is_as_rendered, parse
from costhub.cli.main import run
from costhub.cli.shared.learning import model_documents
from costhub.dataset.features.specs import find_spec
from costhub.models.folder import load_model

_measured = runpy.run_path(str(Path(__file__).parents[1] / "measured_folder.py"))
build_data, WORKLOADS = _measured["build_data"], _measured["WORKLOADS"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    found: Path = build_data(tmp_path / "data", each=40)
    return found


@pytest.mark.parametrize("arch", ["gbt", pytest.param("mlp", marks=pytest.mark.slow)])
def test_a_stream_gives_a_model_like_any_other(
    arch: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["train", "--data", str(data), "--arch", arch, "--json", "--out"]
    assert run([*arguments, str(tmp_path / "whole")]) == 0
    whole = json.loads(capsys.readouterr().out)["evaluation"]

    assert run([*arguments, str(tmp_path / "streamed"), "--stream"]) == 0

    streamed = json.loads(capsys.readouterr().out)["evaluation"]
    tested = [[row["workload"] for row in found["workloads"]] for found in (streamed, whole)]
    assert tested[0] == tested[1]
    assert abs(streamed["totals"]["pairwise"] - whole["totals"]["pairwise"]) < 0.2
    (model, said), (_, expected) = (load_model(tmp_path / name) for name in ("streamed", "whole"))
    assert model.arch == arch
    # Both have learned from the same programs, and say so.
    assert (said.data_hash, said.data_rows) == (expected.data_hash, expected.data_rows)
    assert (said.train_workloads, said.test_workloads) == (expected.train_workloads, expected.test_workloads)
    assert (tmp_path / "streamed/README.md").is_file()


def test_what_cannot_learn_from_a_stream_is_told_before_anything_is_read(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("costhub.cli.train.read_programs", lambda *_, **__: pytest.fail("features are computed"))
    arguments = ["train", "--data", str(data), "--arch", "ensemble", "--stream", "--out", str(tmp_path / "m")]

    assert run(arguments) == 2

    assert "learns from programs in memory only" in capsys.readouterr().err
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("wrong", [["--arch", "gbt", "--stream"], ["--arch", "mlp"]])
def test_torchrun_is_for_streamed_networks_only(
    wrong: list[str],
    data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")

    assert run(["train", "--data", str(data), "--out", str(tmp_path / "m"), *wrong]) == 2

    assert "docs/training.md" in capsys.readouterr().err


@pytest.mark.slow
def test_two_processes_of_torchrun_write_one_model(torchrun: Callable[..., str], data: Path, tmp_path: Path) -> None:
    printed = torchrun(
        "--no-python",
        str(Path(sys.executable).with_name("costhub")),
        "train",
        "--data",
        str(data),
        "--stream",
        "--json",
        "--option",
        "epochs=20",
        "--out",
        str(tmp_path / "model"),
    )

    [folder] = [json.loads(printed)["folder"]]
    model, info = load_model(folder)
    assert info.data_rows == 40 * len(info.train_workloads)
    rows = np.zeros((2, find_spec("tiles@1").width), np.float32)
    assert np.isfinite(model.predict(rows, np.array([1, 1]))).all()


def test_a_model_that_cannot_be_evaluated_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    from costhub.cli.shared.learning import evaluated
    from costhub.dataset.programs import Programs
    from costhub.models.trees.gbt import Gbt, GbtOptions

    rows = [np.full((1, 164), float(i)) for i in range(4)]
    same = Programs.from_list(rows, np.zeros(4, int), ("w",), np.full(4, 1e-3))
    several = Programs.from_list(rows, np.zeros(4, int), ("w",), np.array([1e-3, 2e-3, 3e-3, 4e-3]))
    model = Gbt(feature_spec="per_store@1", options=GbtOptions(rounds=2))
    model.fit(several, None, seed=0, progress=False)

    assert evaluated(model, same) is None
    assert "The model was not evaluated. The only workload" in capsys.readouterr().err
    assert evaluated(model, several) is not None


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
