from __future__ import annotations

import getpass
import socket
from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.folder import DataFolder
from costhub.errors import CosthubError, DataError
from costhub.hub import staging
from costhub.hub.remote.manifest import verify
from costhub.hub.staging import folder_kind, own_names, own_names_in, personal_texts, read_card, staged

SHARD = "measurements/amd-epyc-zen5-1c/train-00000-of-00001.parquet"


def test_of_a_data_folder_locks_features_and_halves_stay_behind(measured: Any, tmp_path: Path) -> None:
    folder = measured(tmp_path / "data")
    for name in ("features/x.bin", "notes.partial", "measurements/amd-epyc-zen5-1c/.writing-1", ".env"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("secret")
    (folder / "splits").mkdir()
    (folder / "splits/one.json").write_text("{}")
    assert (folder / "measurements/amd-epyc-zen5-1c/.lock").exists()

    with staged(folder) as ready:
        names = set(ready.files())
        copied = ready.files()[SHARD].read_bytes()

    assert names == {
        *("README.md", SHARD, "splits/one.json"),
        *(f"{table}/train-00000-of-00001.parquet" for table in ("devices", "workloads")),
    }
    assert (ready.kind, ready.name, ready.folder.exists()) == ("dataset", "data", False)
    assert copied == (folder / SHARD).read_bytes()


def test_a_hidden_folder_of_measurements_stays_behind(measured: Any, tmp_path: Path) -> None:
    folder = measured(tmp_path / "data", 0, 5)
    (folder / "measurements/.old").mkdir()
    (folder / "measurements/.old/train-00000-of-00001.parquet").write_bytes(b"unchecked")

    with staged(folder) as ready:
        assert [name for name in ready.files() if "/." in name] == []


def test_rows_of_a_journal_go_as_a_shard(measured: Any, tmp_path: Path) -> None:
    folder = measured(tmp_path / "data", 0, 20)
    opened = DataFolder.open(folder)
    writer = opened.writer("amd-epyc-zen5-1c")
    row = opened.measurements().to_pylist()[0]
    writer.append({**row, "record_id": "pending"})  # and the process dies before it closes

    with staged(folder) as ready:
        table = DataFolder.open(ready.folder).measurements()
        names = [name for name in ready.files() if name.startswith("measurements/")]
    writer.close()

    assert "pending" in table["record_id"].to_pylist()
    assert [name.rsplit("/", 1)[1] for name in names] == [
        "train-00000-of-00002.parquet",
        "train-00001-of-00002.parquet",
    ]


def test_of_a_folder_too_large_for_a_hub_the_whole_size_is_told(
    measured: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = measured(tmp_path / "data", 0, 20)
    size = sum(path.stat().st_size for path in folder.rglob("*.parquet"))
    size += (folder / "README.md").stat().st_size if (folder / "README.md").exists() else 0
    monkeypatch.setattr(staging, "MAX_TOTAL_BYTES", size - 1)

    with (
        pytest.raises(DataError, match=rf"holds {size:,} bytes for a hub, and at most {size - 1:,} go"),
        staged(folder),
    ):
        pass


def test_a_link_is_no_file_of_the_folder(measured: Any, tmp_path: Path) -> None:
    folder = measured(tmp_path / "data")
    (folder / "splits").mkdir()
    (folder / "splits/x.json").symlink_to("/etc/hostname")

    with pytest.raises(DataError, match="is a link"), staged(folder):
        pass


def test_a_model_gets_its_manifest_and_a_card_from_its_figures(sound_model: Any) -> None:
    folder = sound_model("gbt")
    (folder / "README.md").unlink()

    with staged(folder) as ready:
        assert set(verify(ready.folder).files) == {
            "README.md",
            "config.json",
            "evaluation.json",
            "evaluation.png",
            "model.ubj",
        }
        assert "manifest.json" in ready.files()
        assert "name: given-gbt" in (ready.folder / "README.md").read_text()
    assert not (folder / "README.md").exists()


def test_a_card_in_latin_1_is_no_crash(tmp_path: Path) -> None:
    card = tmp_path / "README.md"
    card.write_bytes("---\nlicense: mit\n---\n# Dat\xe9\n".encode("latin-1"))

    with pytest.raises(DataError, match="not text in UTF-8"):
        read_card(card)


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is neither a model folder"):
        folder_kind(tmp_path)
    with pytest.raises(CosthubError), staged(tmp_path / "nothing"):
        pass


def test_names_that_tell_nothing_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "ada-laptop.lab.example")
    monkeypatch.setattr(getpass, "getuser", lambda: "root")
    monkeypatch.setattr(Path, "home", lambda: Path("/home/adal"))

    assert own_names() == ("ada-laptop", "ada-laptop.lab.example", "adal")


@pytest.mark.parametrize("host", ["a100", "EPYC", "zen4", "jetson"])
def test_a_host_with_the_name_of_its_hardware_tells_nothing(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: host)
    monkeypatch.setattr(getpass, "getuser", lambda: "lovelace")
    monkeypatch.setattr(Path, "home", lambda: Path("/home/lovelace"))

    assert own_names() == ("lovelace",)


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

    assert own_names_in(folder.path, ["ada-laptop"]) == [
        f"The column {column} holds 'ada-laptop', a name of this machine or its user."
    ]


def test_a_name_within_a_word_or_of_who_contributes_is_none(measured: Any, tmp_path: Path) -> None:
    folder = DataFolder.open(measured(tmp_path / "data", 0, 3))
    with folder.writer("amd-epyc-zen5-1c") as writer:
        row = folder.measurements().to_pylist()[0]
        writer.append({**row, "record_id": "new", "error": "adaptation", "contributor": "adap"})

    assert own_names_in(folder.path, ["adap"]) == []


def test_devices_are_looked_at_too(measured: Any, tmp_path: Path) -> None:
    folder = DataFolder.open(measured(tmp_path / "data", 0, 3))
    folder.put_device({**folder.devices().to_pylist()[0], "aliases": ["ada-laptop"]})

    assert own_names_in(folder.path, ["ada-laptop"])[0].startswith("The column aliases holds")


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
    monkeypatch.setattr("costhub.hub.staging.own_names", lambda: ("ada-laptop",))
    (tmp_path / "card.md").write_text(text)

    assert personal_texts({"card.md": tmp_path / "card.md"}) == [sentence]


def test_a_name_that_is_public_anyway_may_stand_on_a_card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("costhub.hub.staging.own_names", lambda: ("lovelace", "adal", "ada-laptop"))
    card = tmp_path / "card.md"
    card.write_text("Measured by Ada Lovelace, see hf-hub:adal/data. Not on ada-laptop.")

    public = ["hf-hub:adal/data", "Ada Lovelace", "ada-laptops"]

    assert personal_texts({"card.md": card}, public) == [
        "card.md holds 'ada-laptop', a name of this machine or its user."
    ]
    assert len(personal_texts({"card.md": card})) == 3


def test_a_contact_a_feature_spec_and_a_version_are_not_personal(sound_model: Any, tmp_path: Path) -> None:
    (tmp_path / "card.md").write_text("tiles@1, LLVM 19.1.7.2, write to ada@example.org")
    folder = sound_model("gbt")

    assert personal_texts({"card.md": tmp_path / "card.md"}) == []
    assert personal_texts({path.name: path for path in folder.iterdir()}) == []
