"""`croissant.json`, read by the reference implementation of Croissant."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from costhub.cards import dataset_card
from costhub.dataset.croissant import CROISSANT, CroissantFacts, croissant_differences, croissant_text
from costhub.dataset.schema import TABLES
from costhub.dataset.shards.shard_set import shard_paths
from costhub.dataset.splits.split import list_splits
from costhub.hub.catalogue.hubs import EMBEDDED
from costhub.hub.dataset_documents import croissant_facts
from costhub.hub.publish import publish

# Both warn of what mlcroissant and rdflib do themselves: a class that will go, and an argument of pandas.
pytestmark = [
    pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame.reset_index is deprecated"),
]
SHIPPED = sorted(EMBEDDED.glob("datasets/*/*"))
H200 = EMBEDDED / "datasets/costhub/nvidia-h200"
FACTS = CroissantFacts(name="mine", description="Mine.", licences=["MIT"], creators=["me"], keywords=["tvm"])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A copy of a shipped dataset."""
    return Path(shutil.copytree(H200, tmp_path / "data"))


def opened(folder: Path) -> Any:
    """The dataset as the reference reader sees it; it raises where the document is invalid."""
    mlcroissant = pytest.importorskip("mlcroissant")
    return mlcroissant.Dataset(jsonld=str(folder / CROISSANT))


def plain(value: Any) -> Any:
    """A value of the reference reader as Arrow gives it: its texts are bytes, its gaps in lists are None."""
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value


def records(folder: Path, table: str) -> Iterator[dict[str, Any]]:
    for record in opened(folder).records(table):
        yield {name.removeprefix(f"{table}/"): plain(value) for name, value in record.items()}


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_a_shipped_document_is_valid_without_a_warning(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        found = opened(folder)

    assert caplog.messages == []
    assert not found.metadata.issues.errors
    assert not found.metadata.issues.warnings
    named = {each.name for each in found.metadata.record_sets}
    assert named == {*TABLES, *(["splits"] if list_splits(folder) else [])}


@pytest.mark.parametrize("folder", SHIPPED, ids=lambda folder: folder.name)
def test_a_shipped_document_says_what_card_and_shards_say(folder: Path) -> None:
    card = dataset_card.parse((folder / "README.md").read_text(encoding="utf-8"))

    assert (folder / CROISSANT).read_text(encoding="utf-8") == croissant_text(folder, croissant_facts(card))
    assert croissant_differences(folder) == []


@pytest.mark.slow
def test_measurements_read_by_croissant_are_those_of_arrow() -> None:
    (shard,) = shard_paths(H200 / "measurements" / "nvidia-h200")
    expected = pq.read_table(shard).to_pylist()

    found = list(records(H200, "measurements"))

    assert len(found) == len(expected) == 2520
    assert found[0].keys() == expected[0].keys()
    for ours, theirs in zip(found, expected, strict=True):
        assert {k: v for k, v in ours.items() if k != "timestamp"} == {
            k: v for k, v in theirs.items() if k != "timestamp"
        }
        assert ours["timestamp"] is None or ours["timestamp"].to_pydatetime() == theirs["timestamp"]


def test_networks_of_a_workload_are_read_with_their_weights() -> None:
    (shard,) = shard_paths(H200 / "workloads")
    expected = pq.read_table(shard).to_pylist()

    found = list(records(H200, "workloads"))

    assert [row["workload_id"] for row in found] == [row["workload_id"] for row in expected]
    weights = [
        [(part["workloads/networks/name"].decode(), part["workloads/networks/weight"]) for part in row["networks"]]
        for row in found
    ]
    assert weights == [[(part["name"], part["weight"]) for part in row["networks"]] for row in expected]


def test_a_changed_shard_is_noticed(data: Path) -> None:
    (shard,) = shard_paths(data / "workloads")
    shard.write_bytes(shard.read_bytes() + b"\0")
    (data / "splits" / "more.json").write_text("{}")
    next((data / "splits").glob("operator-*.json")).unlink()

    told = " ".join(croissant_differences(data))

    assert "1 file it does not list, such as splits/more.json." in told
    assert "1 file it lists, but the folder lacks, such as splits/operator-" in told
    assert "1 file it lists with another sha256, such as workloads/train-00000-of-00001.parquet." in told


@pytest.mark.parametrize("kind", ["pipe", "dead link"])
def test_a_shard_that_is_no_file_has_changed(data: Path, kind: str) -> None:
    """It is said like any other change: a check must not wait for a pipe, nor end with an error."""
    (data / CROISSANT).write_text(croissant_text(data, FACTS), encoding="utf-8")
    shard = next(data.rglob("measurements/*/*.parquet"))
    shard.unlink()
    if kind == "pipe":
        os.mkfifo(shard)
    else:
        shard.symlink_to(data / "nothing")

    told = " ".join(croissant_differences(data))

    assert shard.name in told


def test_a_huge_file_has_changed_and_is_not_read(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (data / CROISSANT).write_text(croissant_text(data, FACTS), encoding="utf-8")
    shard = max(data.rglob("*.parquet"), key=lambda path: path.stat().st_size)
    assert croissant_differences(data) == []
    monkeypatch.setattr("costhub.dataset.croissant.MOST_SHARD_BYTES", shard.stat().st_size - 1)

    assert f"1 file it lists with another sha256, such as {shard.relative_to(data)}." in croissant_differences(data)


_MIXED = [{"@type": "cr:FileObject", "contentUrl": name, "sha256": "x"} for name in (1, "a")]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"distribution": [1]}', "[" * 100_000, "\xff", json.dumps({"distribution": _MIXED})],
)
def test_what_is_no_document_is_said_to_be_none(data: Path, text: str) -> None:
    (data / CROISSANT).write_text(text, encoding="latin-1")

    assert croissant_differences(data) == ["It is not a Croissant document that costhub wrote."]


def test_the_same_folder_gives_the_same_document_with_every_file(data: Path) -> None:
    text = croissant_text(data, FACTS)

    assert croissant_text(data, FACTS) == text
    files = {each["@id"] for each in json.loads(text)["distribution"] if each["@type"] == "cr:FileObject"}
    tables = {path.relative_to(data).as_posix() for table in TABLES for path in (data / table).rglob("*.parquet")}
    assert files == tables | {f"splits/{name}.json" for name in list_splits(data)}


@pytest.mark.slow
def test_publishing_writes_a_document_of_what_it_sends(data: Path, tmp_path: Path) -> None:
    (data / CROISSANT).unlink()
    (tmp_path / "hub").mkdir()

    publish(data, str(tmp_path / "hub"), name="lab/mine", agree=True)

    place = tmp_path / "hub/datasets/lab/mine"
    assert json.loads((place / CROISSANT).read_text())["name"] == "lab/mine"
    assert croissant_differences(place) == []
