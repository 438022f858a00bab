from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from costhub.hub.remote.manifest import verify


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the commands run in."""
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def test_what_is_locked_is_pulled_and_agrees(small_hub: Path, costhub: Any, project: Path) -> None:
    done = costhub("lock", "one")
    assert (done.code, done.err) == (0, "Wrote costhub.lock.\n")
    assert done.out.startswith("model one: costhub/acme-one-gbt ")

    checked = costhub("lock", "--check")
    assert (checked.code, checked.out) == (0, "Everything matches costhub.lock.\n")
    folder = Path(costhub("pull", "--locked", "one").out.strip())
    assert verify(folder).revision == json.loads((project / "costhub.lock").read_text())["pins"][0]["sha256"]


def test_another_lock_file_is_named(small_hub: Path, costhub: Any, project: Path) -> None:
    costhub("lock", "one", "--file", "other.lock")

    assert costhub("pull", "--locked", "one").code == 2
    done = costhub("pull", "--locked", "one", "--lock-file", "other.lock")
    assert (done.code, Path(done.out.strip()).is_dir()) == (0, True)
    assert "give --locked as well" in costhub("pull", "one", "--lock-file", "other.lock").err


def test_a_difference_is_a_sentence_and_exit_code_1(small_hub: Path, costhub: Any, project: Path) -> None:
    costhub("lock", "one")
    lock = project / "costhub.lock"
    content = json.loads(lock.read_text())
    content["pins"][0]["sha256"] = "0" * 64
    lock.write_text(json.dumps(content))

    done = costhub("lock", "--check")
    assert done.code == 1
    assert done.out.startswith("The model one is another version: its sha256 is ")
    assert json.loads(costhub("lock", "--check", "--json").out)["differences"] == done.out.splitlines()
    refused = costhub("pull", "--locked", "one")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err.startswith("costhub: one is not available as costhub.lock locks it: ")


def test_names_beside_check_and_an_architecture_beside_locked_are_refused(small_hub: Path, costhub: Any) -> None:
    assert "leave the names out" in costhub("lock", "--check", "one").err
    assert "one architecture" in costhub("pull", "--locked", "one", "--arch", "mlp").err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, ("lock", "--check")),
        (None, ("pull", "--locked", "one")),
        ("{", ("lock", "one")),
        ("[1]", ("lock", "--check")),
        ('{"version": 1}', ("lock", "--check")),
        ('{"version": 1, "pins": [1]}', ("lock", "--check")),
        ('{"version": 1, "pins": [{"kind": "model"}]}', ("lock", "--check")),
    ],
)
def test_a_missing_or_damaged_file_is_a_wrong_input(
    content: str | None, words: tuple[str, ...], small_hub: Path, costhub: Any, project: Path
) -> None:
    if content is not None:
        (project / "costhub.lock").write_text(content)

    done = costhub(*words)

    assert done.code == 2
    assert "`costhub lock" in done.err
    assert "object has no attribute" not in done.err


def test_a_file_of_a_newer_costhub_asks_for_an_update(small_hub: Path, costhub: Any, project: Path) -> None:
    (project / "costhub.lock").write_text('{"version": 99, "locks": {}}')

    assert "Update costhub" in costhub("lock", "--check").err


def test_a_locked_dataset_is_pulled_as_the_folder_that_data_takes(costhub: Any, project: Path) -> None:
    assert costhub("lock", "--data", "nvidia-h200").code == 0

    done = costhub("pull", "--locked", "--data", "nvidia-h200")

    assert (done.code, done.err) == (0, "")
    assert costhub("stats", done.out.strip()).code == 0
    assert json.loads(costhub("pull", "--locked", "--data", "nvidia-h200", "--json").out)["folder"] == done.out.strip()


def test_data_needs_a_lock_and_takes_no_place_of_its_own(costhub: Any, project: Path) -> None:
    costhub("lock", "--data", "nvidia-h200")

    assert "give --locked as well" in costhub("pull", "--data", "nvidia-h200").err
    assert "leave --out and --arch out" in costhub("pull", "--locked", "--data", "nvidia-h200", "--out", "x").err
