from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from costhub.cards.card_check import check_card_text
from costhub.cards.dataset_card import LATENCIES_PICTURE, bibtex, complete_dataset_card, parse
from costhub.cards.markdown import split
from costhub.dataset.check.folder import check_folder
from costhub.dataset.credit import joined_credit
from costhub.dataset.folder import DataFolder
from costhub.dataset.shards.shard import seal_state
from costhub.errors import DataError
from costhub.hub.catalogue.hubs import EMBEDDED
from costhub.hub.data import load_measurements
from costhub.hub.dataset_documents import (
    croissant_facts,
    data_facts,
    folder_credit,
    tables_revision,
    write_dataset_documents,
    write_sample,
)
from costhub.hub.sources.catalogue import load_sources


def test_rows_licences_and_versions_are_counted(measured: Any, tmp_path: Path) -> None:
    folder = measured(tmp_path / "data", 13_700, 60)
    table = DataFolder.open(folder).measurements()

    facts = data_facts(folder)

    assert facts.rows == {"amd-epyc-zen5-1c": 60}
    assert facts.total == 60
    assert facts.ok == table["status"].to_pylist().count("ok")
    assert facts.workloads == len(set(table["workload_id"].to_pylist()))
    assert facts.licences == ("CC-BY-4.0",)
    assert facts.tvm_versions == ("0.27.0.post1",)


def test_an_empty_folder_has_no_rows(tmp_path: Path) -> None:
    DataFolder.create(tmp_path / "data")

    assert data_facts(tmp_path / "data").total == 0
    with pytest.raises(DataError):
        data_facts(tmp_path / "nothing")


SAMPLE = "sample/train-00000-of-00001.parquet"


SHIPPED = sorted(path for path in (EMBEDDED / "datasets").glob("*/*") if path.is_dir())


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: str(folder.name))
def test_a_shipped_dataset_has_the_card_of_its_tables(folder: Path) -> None:
    card = parse((folder / "README.md").read_text())

    assert card.revision == tables_revision(folder)
    assert card.rows == DataFolder.open(folder).measurements(columns=["record_id"]).num_rows
    assert (len(card.licences), card.pictures) == (1, [LATENCIES_PICTURE])
    assert (folder / SAMPLE).is_file()


def documented(folder: Path, **others: Any) -> Any:
    told: dict[str, Any] = {"name": "acme/data", "address": "acme/data", "changes": [], "date": "2026-01-02"}
    text = (folder / "README.md").read_text()
    return write_dataset_documents(folder, text, **{**told, **others})


def test_the_card_counts_what_is_in_the_tables(measured: Any, tmp_path: Path) -> None:
    folder = measured(tmp_path / "data")

    card = documented(folder, version="v1")

    text = (folder / "README.md").read_text()
    (device,) = card.devices
    assert parse(text) == card
    assert (card.rows, device["rows"], device["device_id"]) == (40, 40, "amd-epyc-zen5-1c")
    assert card.ok == DataFolder.open(folder).measurements(status="ok").num_rows
    assert card.licences == ["CC-BY-4.0"]
    assert card.changes[0] == {
        "date": "2026-01-02",
        "version": "v1",
        "rows": 40,
        "added": 40,
        "revision": tables_revision(folder),
    }
    assert (folder / LATENCIES_PICTURE).read_bytes().startswith(b"\x89PNG")
    check_card_text(split(text)[1], "README.md")


def test_the_same_tables_give_the_same_files(measured: Any, tmp_path: Path) -> None:
    def files(folder: Path) -> dict[str, bytes]:
        return {name: (folder / name).read_bytes() for name in ("README.md", LATENCIES_PICTURE, SAMPLE)}

    folder = measured(tmp_path / "data")
    first = documented(folder)
    before = files(folder)
    documented(folder, changes=first.changes, date="2026-03-04", version="later")

    assert files(folder) == before


def test_a_sample_is_small_sealed_and_of_every_device(measured: Any, tmp_path: Path) -> None:
    folder = DataFolder.open(measured(tmp_path / "data"))
    row = folder.measurements().to_pylist()[0]
    with folder.writer("other") as writer:
        writer.append({**row, "record_id": "x", "device_id": "other"})

    assert write_sample(folder.path, each=7) == 8
    assert seal_state(folder.path / SAMPLE) == "sealed"


def test_an_empty_folder_gets_no_sample(tmp_path: Path) -> None:
    folder = DataFolder.create(tmp_path / "data")

    assert write_sample(folder.path) == 0
    assert not (folder.path / "sample").exists()


def test_nobody_takes_the_sample_for_measurements(measured: Any, tmp_path: Path) -> None:
    folder = measured(tmp_path / "data")
    documented(folder)

    assert load_measurements(folder).num_rows == 40
    assert DataFolder.open(folder).device_ids() == ["amd-epyc-zen5-1c"]
    assert check_folder(folder, progress=False) == []  # strict: no warning either


@pytest.mark.filterwarnings("default")  # datasets' own
def test_datasets_loads_every_configuration(measured: Any, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    folder = measured(tmp_path / "data")
    card = documented(folder)

    def rows(name: str | None) -> int:
        loaded = datasets.load_dataset(str(folder), name, split="train", cache_dir=str(tmp_path / "cache"))
        return len(loaded)

    names = [entry["config_name"] for entry in card.configs()]
    assert names == ["measurements", "workloads", "devices", "sample", "amd-epyc-zen5-1c"]
    assert datasets.get_dataset_config_names(str(folder)) == names
    assert rows(None) == rows("measurements") == rows("amd-epyc-zen5-1c") == 40
    assert rows("sample") == card.sample_rows == 40
    assert rows("workloads") == DataFolder.open(folder).workloads().num_rows


def test_a_card_says_whose_code_was_measured(measured: Any, tmp_path: Path) -> None:
    folder = measured(tmp_path / "data", count=3)
    source = DataFolder.open(folder)
    rows = [row | {"transplanted_from": "ansor"} for row in source.measurements().to_pylist()]
    made = DataFolder.create(tmp_path / "transplanted")
    made.put_device(source.devices().to_pylist()[0])
    made.put_workloads(source.workloads().to_pylist())
    with made.writer(rows[0]["device_id"]) as writer:
        for row in rows:
            writer.append(row)

    assert documented(folder).transplanted_from == []
    assert documented(made.path).transplanted_from == ["ansor"]
    assert "- Latencies are those of code by ansor" in (made.path / "README.md").read_text()
    assert parse((made.path / "README.md").read_text()).transplanted_from == ["ansor"]


def shipped(name: str) -> str:
    return (EMBEDDED / "datasets/costhub" / name / "README.md").read_text()


@pytest.mark.parametrize("name", ["nvidia-v100", "nvidia-k80", "amd-mi50", "nvidia-a100"])
def test_imported_datasets_say_who_measured_and_from_which_revision(name: str) -> None:
    sources = [source for source in load_sources() if source.dataset == f"costhub/{name}"]
    text = shipped(name)

    assert sources
    for source in sources:
        assert all(fact in text for fact in (source.repository, source.revision, source.folder, source.licence))
        assert f"{source.contributor} measured them" in text


def test_the_dataset_of_an_unknown_author_says_so_and_cites_nobody() -> None:
    text = shipped("nvidia-h200")

    assert "Who measured them is not known" in text
    assert "author = {{unknown}}" in text
    assert "Measured by" not in text
    assert "Measured by costhub" in shipped("amd-epyc-zen4")


def test_the_version_of_a_strange_card_may_have_no_date() -> None:
    card = parse(shipped("nvidia-a100"))

    assert croissant_facts(replace(card, changes=[{"version": "v1"}])).date == ""
    assert croissant_facts(replace(card, changes=[{"date": "2026-01-02"}])).date == "2026-01-02"


def test_the_origins_of_a_card_are_those_of_its_rows() -> None:
    card = parse(shipped("nvidia-a100"))

    [origin] = card.origins
    assert (origin["rows"], origin["contributor"], origin["licence"]) == (card.rows, *card.contributors, *card.licences)
    assert parse(shipped("amd-epyc-zen5")).origins == []


@pytest.mark.parametrize("name", ["nvidia-v100", "nvidia-k80", "amd-mi50"])
def test_the_paper_of_imported_rows_is_cited(name: str) -> None:
    card = parse(shipped(name))

    assert "made for Roller: Fast and Efficient Tensor Compilation for Deep Learning (OSDI 2022)" in bibtex(card)
    assert bibtex(card) in shipped(name)


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: str(folder.name))
def test_shipped_cards_are_as_they_are_rendered(folder: Path) -> None:
    text = (folder / "README.md").read_text(encoding="utf-8")

    # Of a text whose hash is another one, costhub would think that people wrote it, and leave it as it is.
    assert complete_dataset_card(text, parse(text)) == text


def imported(folder: Path, place: Path) -> Path:
    """A copy of a data folder whose rows bob imported."""
    source = DataFolder.open(folder)
    made = DataFolder.create(place)
    made.put_device(source.devices().to_pylist()[0])
    made.put_workloads(source.workloads().to_pylist())
    with made.writer(source.device_ids()[0]) as writer:
        for row in source.measurements().to_pylist():
            writer.append({**row, "proposed_by": "imported", "contributor": "bob", "licence": "MIT"})
    return place


def test_a_card_that_says_who_only_imported_rows_keeps_saying_it(measured: Any, tmp_path: Path) -> None:
    folder = imported(measured(tmp_path / "data", count=3), tmp_path / "imported")
    documented(folder)
    text = (folder / "README.md").read_text()
    assert "Measured by bob." in text
    assert folder_credit(folder) == "bob (MIT)"

    (folder / "README.md").write_text(text.replace("    places: []\n", "    places: []\n    only_imported: true\n"))
    card = documented(folder)

    assert [origin["only_imported"] for origin in card.origins] == [True]
    assert documented(folder).origins == card.origins
    assert "Who measured them is not known" in (folder / "README.md").read_text()
    assert folder_credit(folder) == "measurer not recorded (MIT)"


@pytest.mark.parametrize("content", [None, b"\xff\xfe", b"---\ncosthub: {dataset_card_version: 99}\n---\n\nText.\n"])
def test_rows_are_credited_whatever_their_readme_is(content: bytes | None, measured: Any, tmp_path: Path) -> None:
    folder = measured(tmp_path / "data", count=3)
    (folder / "README.md").unlink()
    if content is not None:
        (folder / "README.md").write_bytes(content)

    assert folder_credit(folder) == "costhub (CC-BY-4.0)"


MODELS = sorted(path for path in (EMBEDDED / "models").glob("*/*") if path.is_dir())


@pytest.mark.parametrize("model", MODELS, ids=lambda model: str(model.name))
def test_a_shipped_model_credits_those_who_measured_what_it_learned_from(model: Path) -> None:
    config = json.loads((model / "config.json").read_text())
    learned_on = set(config["train_devices"] or [config["device_id"]])
    folders = [EMBEDDED / "datasets" / name.partition("@")[0] for name in config["datasets"]]
    own = {folder: learned_on & set(DataFolder.open(folder).device_ids()) for folder in folders}

    credit = joined_credit(*(folder_credit(folder, sorted(own[folder])) for folder in folders))

    assert all(own.values())
    assert config["data_credit"] == credit
    assert f"| measured by | {credit} |" in (model / "README.md").read_text()


def test_nobody_is_said_to_have_measured_what_costhub_imported() -> None:
    credits = {model.name: json.loads((model / "config.json").read_text())["data_credit"] for model in MODELS}

    assert {name for name, credit in credits.items() if "measurer not recorded (Apache-2.0)" in credit} == {
        *("nvidia-h200-blend", "nvidia-h200-gbt", "nvidia-h200-mlp"),
        "any-gpu-conditioned",
    }
    assert [name for name, credit in credits.items() if "costhub (Apache-2.0)" in credit] == []
