from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from costhub.hub.remote.manifest import verify


def test_it_says_which_model_and_why_and_where(small_hub: Path, costhub: Any) -> None:
    done = costhub("pull", "one")

    (folder,) = done.out.splitlines()
    first, why, revision = done.err.splitlines()
    assert done.code == 0
    assert first == "costhub/acme-one-gbt: the gbt model for acme-one, from the embedded hub."
    assert why.startswith("Of the 2 models for acme-one it has the highest top_1")
    assert verify(Path(folder)).revision.startswith(revision.removeprefix("revision "))


def test_the_revision_it_prints_pins_the_model(small_hub: Path, costhub: Any) -> None:
    revision = costhub("pull", "one").err.splitlines()[2].removeprefix("revision ")

    done = costhub("pull", f"one@{revision}")

    assert done.code == 0
    assert f"pinned revision {revision}" in done.err


def test_out_and_arch_are_obeyed(small_hub: Path, costhub: Any, tmp_path: Path) -> None:
    done = costhub("pull", "one", "--arch", "mlp", "--out", str(tmp_path / "mine"))

    assert done.out.splitlines()[-1] == str(tmp_path / "mine")
    assert json.loads((tmp_path / "mine" / "config.json").read_text())["arch"] == "mlp"


def test_json_is_for_programs(small_hub: Path, costhub: Any, tmp_path: Path) -> None:
    content = json.loads(costhub("pull", "acme-one", "--out", str(tmp_path / "mine"), "--json").out)

    assert content["folder"] == str(tmp_path / "mine")
    assert (content["name"], content["device"], content["arch"]) == (
        "costhub/acme-one-gbt",
        "acme-one",
        "gbt",
    )
    assert content["top_1"] == 0.9


def test_a_device_without_a_model_is_refused(small_hub: Path, costhub: Any) -> None:
    done = costhub("pull", "blit-gpu")

    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("costhub: blit-gpu is in the index but has no model yet.")


def test_an_occupied_folder_is_left_alone(small_hub: Path, costhub: Any, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("precious")

    done = costhub("pull", "one", "--out", str(tmp_path / "mine"))

    assert done.code == 2
    assert "nothing was overwritten" in done.err
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.tex"]


def test_auto_takes_the_model_of_the_device_most_like_this_one(small_hub: Path, costhub: Any) -> None:
    done = costhub("pull", "auto")

    assert done.code == 0
    first, why = done.err.splitlines()[:2]
    assert "the gbt model for acme-one" in first
    assert why.startswith("acme-one is the only cpu device with a model")
