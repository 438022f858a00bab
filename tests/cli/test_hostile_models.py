"""Trees that would lead XGBoost out of its memory, on every way into costhub: a sentence each, and nothing is left."""

from __future__ import annotations

import runpy
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import HfApi

from costhub.files import CACHE_VARIABLE, cache_root
from costhub.hub.remote.manifest import write_manifest
from tests.hostile_trees import FORMS, spoiled

SIX = ("child-oob", "child-oob2", "feat-oob", "neg-child", "cycle", "self-root")
"""The forms that passed every check of 0.1.0, and crashed whoever predicted with them."""


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    yield
    assert [path for path in cache_root().rglob("*") if path.is_file()] == []


@pytest.fixture
def hostile(sound_model: Any) -> Callable[[str], Path]:
    """A model folder whose trees are spoilt, with its card and a manifest of what it holds now."""

    def make(form: str) -> Path:
        folder: Path = sound_model("gbt")
        path = folder / "model.ubj"
        path.write_bytes(spoiled(path.read_bytes(), FORMS[form][0]))
        write_manifest(folder)
        return folder

    return make


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    build = runpy.run_path(str(Path(__file__).with_name("measured_folder.py")))["build_data"]
    folder: Path = build(tmp_path_factory.mktemp("measured") / "data")
    return folder


@pytest.fixture
def served(hugging_face: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The hub on this machine; its fixture removes the variables of costhub."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return hugging_face


@pytest.mark.parametrize("form", SIX)
def test_pulled_from_a_hub(form: str, hostile: Any, served: Any, costhub: Any) -> None:
    served.commit("evil/model", files_of(hostile(form)))

    done = costhub("pull", "hf-hub:evil/model")

    assert (done.code, done.out) == (2, "")
    assert "holds trees that costhub did not train" in done.err


def test_pulled_from_a_hub_to_a_folder(hostile: Any, served: Any, costhub: Any, tmp_path: Path) -> None:
    served.commit("evil/model", files_of(hostile("nan")))

    done = costhub("pull", "hf-hub:evil/model", "--out", str(tmp_path / "mine"))

    assert (done.code, done.out) == (2, "")
    assert "split_conditions is not finite" in done.err
    assert not (tmp_path / "mine").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_pulled_with_the_manifest_of_sound_trees(sound_model: Any, served: Any, costhub: Any) -> None:
    folder = sound_model("gbt", manifest=True)
    path = folder / "model.ubj"
    path.write_bytes(spoiled(path.read_bytes(), FORMS["child-oob"][0]))
    served.commit("evil/model", files_of(folder))

    done = costhub("pull", "hf-hub:evil/model")

    assert done.code == 2
    assert "model.ubj is damaged" in done.err


@pytest.mark.parametrize("form", SIX)
def test_used_in_its_folder(form: str, hostile: Any, data: Path, costhub: Any) -> None:
    folder = str(hostile(form))

    for verb, *options in (["check"], ["evaluate", "--data", str(data)], ["card", "--data", str(data)]):
        done = costhub(verb, folder, *options)

        assert (done.code, done.out) == (2, ""), verb
        assert "holds trees that costhub did not train" in done.err, verb


@pytest.mark.parametrize("member", ["blend", "residual", "conditioned", "ensemble"])
def test_as_a_part_of_another_model(member: str, costhub: Any, tmp_path: Path) -> None:
    folder = tmp_path / "given"
    shutil.copytree(Path(__file__).parents[1] / "artefacts/0.1.0/models" / member, folder)
    path = next(folder.rglob("*.ubj"))
    path.write_bytes(spoiled(path.read_bytes(), FORMS["child-oob"][0]))

    done = costhub("pull", str(folder))

    assert done.code == 2
    assert f"{path.name} holds trees that costhub did not train: a child is not a node" in done.err


def test_named_to_a_search(hostile: Any, costhub: Any, tmp_path: Path) -> None:
    model, out = str(hostile("child-oob")), str(tmp_path / "out")

    done = costhub("tune", "matmul.128x128x128", "--model", model, "--trials", "2", "--out", out)

    assert done.code == 2
    assert "a child is not a node of its tree" in done.err


def test_published(hostile: Any, served: Any, costhub: Any, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    folder = str(hostile("feat-oob"))

    to_folder = costhub("publish", folder, "--to", str(tmp_path / "shared"), "--as", "evil/model", "--yes")
    to_hub = costhub("publish", folder, "--to", "hf-hub:evil/model", "--yes")

    for done in (to_folder, to_hub):
        assert done.code == 2, done.err
        assert "holds trees that costhub did not train" in done.err
    assert list((tmp_path / "shared").iterdir()) == []
    assert "evil/model" not in served.commits


def test_offered_as_a_pull_request_of_a_model(hostile: Any, served: Any, costhub: Any) -> None:
    served.commit("acme/one", {"README.md": b"x"})
    api = HfApi(endpoint=served.url, token="of-the-test")  # noqa: S106 - nobody else knows it
    api.upload_folder(repo_id="acme/one", folder_path=hostile("cycle"), create_pr=True)
    before = served.files("acme/one")

    judged = costhub("review", "hf-hub:acme/one@refs/pr/1")
    merged = costhub("review", "hf-hub:acme/one@refs/pr/1", "--merge")

    assert judged.code == 1
    assert "holds trees that costhub did not train" in judged.out + judged.err
    assert merged.code != 0
    assert served.files("acme/one") == before


def test_offered_as_a_contribution_of_measurements(hostile: Any, served: Any, costhub: Any, tmp_path: Path) -> None:
    served.commit("datasets/acme/data", {"README.md": b"x"})
    place = tmp_path / "inbox/contributions/0123456789abcdef"
    place.parent.mkdir(parents=True)
    shutil.copytree(hostile("child-oob"), place)
    api = HfApi(endpoint=served.url, token="of-the-test")  # noqa: S106 - nobody else knows it
    api.upload_folder(repo_id="acme/data", repo_type="dataset", folder_path=tmp_path / "inbox", create_pr=True)
    before = served.files("datasets/acme/data")

    done = costhub("review", "hf-hub:acme/data@refs/pr/1", "--merge")

    assert done.code == 1
    assert "a contribution has shards only" in done.err
    assert served.files("datasets/acme/data") == before
