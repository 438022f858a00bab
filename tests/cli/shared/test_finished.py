from __future__ import annotations

import json
from pathlib import Path

import pytest

from costhub.cli.shared.finished import asked_for, finished_before, finished_text
from costhub.dataset.folder import DataFolder
from costhub.errors import ModelError

TOLD = {"version": 1, "source": "acme/a-mlp", "trials": 1, "asked_sha256": "ab"}


def test_only_what_changes_the_model_counts(tmp_path: Path) -> None:
    data = DataFolder.create(tmp_path / "data").path
    asked = asked_for({"seed": 0, "out": tmp_path, "explain": False, "as_json": False})

    assert asked == asked_for({"seed": 0, "out": tmp_path / "m", "explain": True, "as_json": True})
    assert len({asked, asked_for({"seed": 1}), asked_for({"seed": 0}, data)}) == 3


@pytest.mark.parametrize("content", ["{", "[]", "{}", json.dumps({**TOLD, "asked_sha256": "cd"}), "[" * 100_000])
def test_another_file_is_no_finished_model(tmp_path: Path, content: str) -> None:
    assert finished_before(tmp_path, "ab") is None
    (tmp_path / "adaptation.json").write_text(content)

    assert finished_before(tmp_path, "ab") is None


def test_a_finished_model_is_told_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "adaptation.json").write_text(json.dumps(TOLD))

    told = finished_before(tmp_path, "ab")

    assert told == TOLD
    text = finished_text(tmp_path, told, explain=False, as_json=False)
    assert f"{tmp_path} is finished" in text
    assert "from acme/a-mlp and 1 trial. Use it with `costhub tune resnet18.c7 --model" in text
    assert f"To start over, remove {tmp_path}" in text


def test_a_file_of_a_newer_costhub_is_refused(tmp_path: Path) -> None:
    (tmp_path / "adaptation.json").write_text(json.dumps({**TOLD, "version": 99}))

    with pytest.raises(ModelError, match="newer"):
        finished_before(tmp_path, "ab")


def test_what_a_named_file_and_a_model_folder_hold_counts(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    config, split = tmp_path / "model" / "config.json", tmp_path / "split.json"
    seen = set()
    for first, second in (("a", "b"), ("a2", "b"), ("a2", "b2")):
        config.write_text(first)
        split.write_text(second)
        asked = asked_for({"name": str(tmp_path / "model"), "split": str(split), "out": "o"})
        assert asked == asked_for({"name": str(tmp_path / "model"), "split": str(split), "out": "elsewhere"})
        seen.add(asked)
    assert len(seen) == 3


def test_what_the_files_of_an_argument_that_is_repeated_hold_counts(tmp_path: Path) -> None:
    network = tmp_path / "mine.pt2"
    network.write_bytes(b"one")
    before = asked_for({"workloads": ("resnet18", str(network))})
    network.write_bytes(b"other")

    assert asked_for({"workloads": ("resnet18", str(network))}) != before
    assert asked_for({"workloads": ("resnet18",)}) == asked_for({"workloads": ("resnet18",)})
