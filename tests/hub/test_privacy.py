from __future__ import annotations

import getpass
import socket
from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.folder import DataFolder
from costhub.hub.privacy import own_names, own_traces, personal_texts


def test_names_that_tell_nothing_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "ada-laptop.lab.example")
    monkeypatch.setattr(getpass, "getuser", lambda: "root")
    monkeypatch.setattr(Path, "home", lambda: Path("/home/adal"))

    assert own_names() == ("ada-laptop", "ada-laptop.lab.example", "adal")


def test_a_user_without_a_name_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> str:
        raise OSError("no such user")

    monkeypatch.setattr(getpass, "getuser", fail)

    assert isinstance(own_names(), tuple)


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("error", "cannot open /srv/ada-laptop/x"),
        ("error", "on ADA-Laptop: killed"),
        ("session", "ada-laptop"),
        ("compiler_version", "LLVM 19 (built on ada-laptop)"),
        ("board", "ada-laptop:9000"),
    ],
)
def test_a_name_is_found_in_any_text(measured: Any, tmp_path: Path, column: str, text: str) -> None:
    folder = DataFolder.open(measured(tmp_path / "data", 0, 3))
    with folder.writer("amd-epyc-zen5-1c") as writer:
        row = folder.measurements().to_pylist()[0]
        writer.append({**row, "record_id": "new", column: text})

    assert own_traces(folder.path, ["ada-laptop"]) == [
        f"The column {column} holds 'ada-laptop', a name of this machine or its user."
    ]


def test_a_name_within_a_word_or_of_who_contributes_is_none(measured: Any, tmp_path: Path) -> None:
    folder = DataFolder.open(measured(tmp_path / "data", 0, 3))
    with folder.writer("amd-epyc-zen5-1c") as writer:
        row = folder.measurements().to_pylist()[0]
        writer.append({**row, "record_id": "new", "error": "adaptation", "contributor": "adap"})

    assert own_traces(folder.path, ["adap"]) == []


def test_devices_are_looked_at_too(measured: Any, tmp_path: Path) -> None:
    folder = DataFolder.open(measured(tmp_path / "data", 0, 3))
    folder.put_device({**folder.devices().to_pylist()[0], "aliases": ["ada-laptop"]})

    assert own_traces(folder.path, ["ada-laptop"])[0].startswith("The column aliases holds")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("trained in /home/ada/models", "card.md holds a home folder."),
        ("on gpu03.cs.example.edu", "card.md holds the name of a machine."),
        ("on 10.1.2.3 and fe80::1ff:fe23:4567:890a", "card.md holds a network address."),
        ("on my ADA-Laptop", "card.md holds 'ada-laptop', a name of this machine or its user."),
    ],
)
def test_a_card_tells_nothing_of_a_machine(
    text: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("costhub.hub.privacy.own_names", lambda: ("ada-laptop",))
    (tmp_path / "card.md").write_text(text)

    assert personal_texts({"card.md": tmp_path / "card.md"}) == [sentence]


def test_a_contact_a_feature_spec_and_a_version_are_not_personal(sound_model: Any, tmp_path: Path) -> None:
    (tmp_path / "card.md").write_text("tiles@1, LLVM 19.1.7.2, write to ada@example.org")
    folder = sound_model("gbt")

    assert personal_texts({"card.md": tmp_path / "card.md"}) == []
    assert personal_texts({path.name: path for path in folder.iterdir()}) == []
