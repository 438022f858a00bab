from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from costhub.cli.publishing.publish import _lines
from costhub.dataset.folder import DataFolder
from costhub.hub.publish import PublishPlan

SRC = Path(__file__).parents[3] / "src"


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("costhub.hub.model_check.model_gate.load_in_child", lambda folder: None)


def test_a_dry_run_shows_files_and_sizes_and_sends_nothing(costhub: Any, sound_model: Any, hugging_face: Any) -> None:
    done = costhub("publish", str(sound_model("gbt")), "--to", "hf-hub:acme/one", "--dry-run")

    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == "hf-hub:acme/one, a model, which is new:"
    assert "     3.6 MB  model.ubj" in lines
    assert re.match(r"6 files, 3\.\d MB; 0 are already there", lines[-2])
    assert lines[-1] == "Nothing was sent."
    assert hugging_face.commits == {}


def test_without_yes_and_without_a_person_nothing_goes(costhub: Any, sound_model: Any, hugging_face: Any) -> None:
    done = costhub("publish", str(sound_model("gbt")), "--to", "hf-hub:acme/one")

    assert done.code == 1
    assert "there is no terminal on which to ask for confirmation" in done.err
    assert hugging_face.commits == {}


@pytest.mark.parametrize("command", ["publish", "contribute"])
def test_who_is_asked_sees_what_would_go(
    command: str,
    costhub: Any,
    measured: Any,
    hugging_face: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("publish", "contribute"):
        monkeypatch.setattr(f"costhub.hub.{name}.check_folder", lambda *_, **__: [])
    if command == "contribute":
        costhub("publish", str(measured(tmp_path / "old", 9, 5)), "--to", "hf-hub:acme/data", "--yes")
    folder = str(measured(tmp_path / "data", 0, 5))

    asked = costhub(command, folder, "--to", "hf-hub:acme/data", "--json")
    agreed = costhub(command, folder, "--to", "hf-hub:acme/data", "--json", "--dry-run")

    assert "hf-hub:acme/data" in asked.err.splitlines()[0]
    assert (asked.code, agreed.err, json.loads(agreed.out)["to"]) == (1, "", "hf-hub:acme/data")


def test_paths_of_a_hub_do_not_reach_the_terminal_as_they_are() -> None:
    plan = PublishPlan("hf-hub:acme/data", "dataset", {"a\x1b[2J": 1}, ["b\x1b[2J\nc"], unchanged=0, is_new=False)

    _, added, removed, _ = _lines(plan)

    assert added.endswith("  a?[2J")
    assert removed == "    removed  b?[2J c"


def test_it_says_where_it_went(costhub: Any, sound_model: Any, hugging_face: Any) -> None:
    folder = str(sound_model("gbt"))
    done = costhub("publish", folder, "--to", "hf-hub:acme/one", "--tag", "v1", "--yes")
    told = json.loads(costhub("publish", folder, "--to", "hf-hub:acme/one", "--yes", "--json").out)
    again = costhub("publish", folder, "--to", "hf-hub:acme/one", "--yes")

    assert again.out.splitlines()[-1].startswith("Unchanged: ")
    assert done.out.splitlines()[-1].startswith(f"Published: {hugging_face.url}/acme/one/commit/")
    assert done.out.splitlines()[-1].endswith(" as v1")
    assert (told["files"], told["published"], told["commit"]) == (
        {},
        True,
        hugging_face.refs["acme/one"]["v1"],
    )


def test_noisy_rows_are_said_before_the_question_with_what_to_do(
    costhub: Any, noisy: Any, hugging_face: Any, tmp_path: Path
) -> None:
    folder = str(noisy(tmp_path / "data"))

    done = costhub("publish", folder, "--to", "hf-hub:acme/data", "--dry-run")
    told = json.loads(costhub("publish", folder, "--to", "hf-hub:acme/data", "--dry-run", "--json").out)

    (rows,) = (found["rows"] for found in told["warnings"] if found["rule"] == "CH060")
    assert rows > 20
    assert f"CH060 warns of {rows} rows; it expects that most repeats of a session on a CPU agree. To do: " in done.out
    assert "Warnings do not keep data from being published: the card counts such rows under Limits" in done.out


def test_a_disturbed_probe_is_said_before_the_question_with_what_to_do(
    costhub: Any, measured: Any, hugging_face: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("costhub.hub.publish.check_folder", lambda *_, **__: [])
    folder = DataFolder.open(measured(tmp_path / "data", 0, 5))
    (row,) = folder.devices().to_pylist()
    folder.put_device({**row, "dram_gbs": row["dram_gbs"] / 3})
    words = ("publish", str(folder.path), "--to", "hf-hub:acme/data", "--dry-run")

    done, told = costhub(*words), json.loads(costhub(*words, "--json").out)

    assert (done.code, done.err) == (0, "")
    (sentence,) = told["low_figures"]
    assert sentence.startswith("amd-epyc-zen5-1c: reading memory is 3.0 times lower than the device index says (")
    assert sentence in done.out.splitlines()
    assert "Run `costhub probe --out FOLDER` on the idle device" in done.out


def test_a_refusal_is_one_sentence(costhub: Any, sound_model: Any, hugging_face: Any) -> None:
    folder = sound_model("gbt")
    (folder / "x.pkl").write_bytes(b"\x80\x04.")

    done = costhub("publish", str(folder), "--to", "hf-hub:acme/one", "--yes")

    assert (done.code, done.out) == (2, "")
    assert len(done.err.splitlines()) == 1


@pytest.mark.slow
def test_the_settings_of_the_client_are_those_of_its_environment(sound_model: Any, server: Any, tmp_path: Path) -> None:
    server.token = "of-the-lab"  # noqa: S105 - the tests' own
    env = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "COSTHUB_"))}
    env |= {"HF_ENDPOINT": server.url, "HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_XET": "1"}
    env |= {"PYTHONPATH": str(SRC), "HF_TOKEN": "of-the-lab"}
    code = "from costhub.cli.main import main; main()"
    command = [
        sys.executable,
        "-c",
        code,
        "publish",
        str(sound_model("gbt")),
        "--to",
        "hf-hub:acme/one",
        "--yes",
    ]

    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=120)

    assert (done.returncode, done.stderr) == (0, "")
    assert "config.json" in server.files("acme/one")
    assert "of-the-lab" not in done.stdout
