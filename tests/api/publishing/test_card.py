"""`costhub.card`: the card of a model, from figures in its folder or of data by name."""

from __future__ import annotations

import json
import runpy
import shutil
from pathlib import Path

import pytest

from costhub.api.evaluation import evaluate
from costhub.api.learning import adapt, train
from costhub.api.models import pull, save_model
from costhub.api.publishing import card as module
from costhub.api.publishing.card import card
from costhub.cards.model_card import is_as_rendered, parse
from costhub.dataset.splits.split import Split
from costhub.errors import ArgumentError, DataError
from costhub.hub.catalogue.find import find_model
from costhub.hub.catalogue.hubs import read_config
from costhub.hub.data import load_programs
from costhub.hub.remote.manifest import verify, write_manifest

_measured = runpy.run_path(str(Path(__file__).parents[2] / "cli/measured_folder.py"))
build_data, train_model = _measured["build_data"], _measured["train_model"]


WORKLOADS_HELD_OUT = ["id-conv2d0", "id-matmul0"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = build_data(tmp_path_factory.mktemp("measured") / "data")
    return folder


@pytest.fixture(scope="module")
def trained(data: Path) -> Path:
    """A model that has learned from all workloads but conv2d0 and matmul0."""
    folder: Path = train_model(data, data.parent)
    return folder


@pytest.fixture
def bare(trained: Path, tmp_path: Path) -> Path:
    """A copy of the model without card and figures."""
    folder = Path(shutil.copytree(trained, tmp_path / "model"))
    for name in ("README.md", "evaluation.json"):
        (folder / name).unlink()
    return folder


def test_data_give_a_card_with_the_figures_of_evaluate(bare: Path, data: Path) -> None:
    made = card(bare, data)

    assert made.path == bare / "README.md"
    assert is_as_rendered(made.path.read_text())
    assert made.totals == parse(made.path.read_text()).totals == evaluate(bare, data).totals
    assert read_config(bare)["metrics"] == made.totals
    assert str(made) == repr(made)
    assert str(made).startswith(f"Wrote {made.path}: top_1 {made.totals['top_1']:.3f}, top_5 ")
    assert made.to_json() == {"card": str(made.path), **made.totals}
    frame = made.to_pandas()
    assert list(frame["workload"]) == ["conv2d0", "matmul0"]
    assert frame["pairwise"].mean() == pytest.approx(made.totals["pairwise"])


def test_new_figures_are_of_the_data_they_come_from_and_of_nothing_else(bare: Path, data: Path) -> None:
    config = json.loads((bare / "config.json").read_text())
    config |= {"test_datasets": ["lab/elsewhere@aea010585955"], "test_workloads": ["id-matmul2"]}
    (bare / "config.json").write_text(json.dumps(config))

    made = card(bare, data)

    assert (read_config(bare)["test_datasets"], read_config(bare)["test_workloads"]) == ([], WORKLOADS_HELD_OUT)
    assert "lab/elsewhere" not in made.path.read_text()


def test_a_split_chooses_what_the_figures_are_of(bare: Path, data: Path) -> None:
    made = card(str(bare), str(data), split=Split("one", (), ("id-matmul0",), 0), device="acme-one")

    assert list(made.to_pandas()["workload"]) == ["matmul0"]
    assert parse(made.path.read_text()).held_out["workloads"] == 1


def test_the_figures_in_the_folder_give_the_same_card_again(trained: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(trained, tmp_path / "model"))
    (folder / "README.md").unlink()

    made = card(folder)

    assert made.path.read_bytes() == (trained / "README.md").read_bytes()


def test_what_has_no_figures_or_those_of_another_device_gets_no_card(bare: Path, tmp_path: Path) -> None:
    elsewhere = build_data(tmp_path / "elsewhere", device_id="blit-two")

    with pytest.raises(DataError, match=r"holds no figures for a card .* Use --data \(data= in Python\)"):
        card(bare)
    with pytest.raises(DataError, match="The figures are for blit-two"):
        card(bare, elsewhere)
    with pytest.raises(ArgumentError, match="give --data"):
        card(bare, split="one")
    assert not (bare / "README.md").exists()


def test_a_model_of_a_hub_is_copied_and_not_changed(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"belongs to a hub and is not changed; .* \(out= in Python\)"):
        card("nvidia-h200-gbt")

    made = card("nvidia-h200-gbt", out=tmp_path / "mine")

    assert made.path == tmp_path / "mine/README.md"
    verify(tmp_path / "mine")


def test_the_caches_copy_of_a_model_is_not_changed() -> None:
    folder = pull("nvidia-h200-gbt")

    with pytest.raises(ArgumentError, match=r"is the cache's copy of a model of a hub and is not changed"):
        card(folder)
    assert pull("nvidia-h200-gbt") == folder


def test_a_model_that_was_adapted_in_python_gets_the_card_of_what_was_held_out(trained: Path, tmp_path: Path) -> None:
    data = build_data(tmp_path / "there", device_id="acme-two")
    split = Split("mine", tuple(f"id-{name}" for name in ("conv2d1", "matmul1", "matmul2")), ("id-conv2d0",), 0)
    found = adapt(trained, load_programs(data, workloads=set(split.train)), progress=False)
    save_model(found.model, tmp_path / "mine", found.learned, test_workloads=split.test)

    made = card(tmp_path / "mine", data, split=split)

    assert list(made.to_pandas()[["device_id", "workload"]].iloc[0]) == ["acme-two", "conv2d0"]
    assert parse(made.path.read_text()).totals == made.totals


def test_a_model_that_was_trained_and_saved_in_python_gets_its_card(data: Path, tmp_path: Path) -> None:
    programs = load_programs(data, workloads={"conv2d1", "conv2d2", "matmul1"})
    save_model(train(programs, "gbt", options={"rounds": 5}, progress=False), tmp_path / "mine", programs, data=data)

    made = card(tmp_path / "mine", data)

    assert sorted(made.to_pandas()["workload"]) == ["conv2d0", "matmul0", "matmul2"]
    assert parse(made.path.read_text()).totals == made.totals


def test_an_interruption_leaves_a_model_that_is_not_damaged(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(trained, tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "metrics": {}}))
    write_manifest(folder)

    def interrupt(_: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module, "write_manifest", interrupt)
        with pytest.raises(KeyboardInterrupt):
            card(folder)

    assert find_model(str(folder)).revision is None
    assert read_config(folder)["metrics"] == card(folder).totals


def test_a_number_that_json_lacks_is_told_before_anything_is_written(trained: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(trained, tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "metrics": {}, "options": {"rate": float("nan")}}))
    write_manifest(folder)
    (folder / "README.md").write_text("mine")
    write_manifest(folder)

    with pytest.raises(DataError, match="hold a number that is not finite"):
        card(folder)

    assert (folder / "README.md").read_text() == "mine"
    verify(folder)


def test_devices_that_are_not_a_list_of_texts_are_told(trained: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(trained, tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "train_devices": 5}))

    with pytest.raises(DataError, match="train_devices is not a list of strings"):
        card(folder)
