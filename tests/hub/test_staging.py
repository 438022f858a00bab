from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.folder import DataFolder
from costhub.errors import CosthubError, DataError
from costhub.hub.manifest import verify
from costhub.hub.staging import kind_of, read_card, staged

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

    with pytest.raises(DataError, match="no text in UTF-8"):
        read_card(card)


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is neither a model folder"):
        kind_of(tmp_path)
    with pytest.raises(CosthubError), staged(tmp_path / "nothing"):
        pass
