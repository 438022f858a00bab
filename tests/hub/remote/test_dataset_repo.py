"""The tables of a dataset on a hub: what is listed, what is fetched, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from costhub.errors import HubError
from costhub.hub.remote.dataset_repo import fetch_tables_at, find_tables, shards_of, stored_shards

SHARD = "measurements/acme/train-00000-of-00001.parquet"
FILES = {SHARD: b"rows", "splits/mine.json": b"{}", "README.md": b"text", "sample/train-00000-of-00001.parquet": b"s"}


def test_shards_and_splits_are_fetched_and_nothing_else(hugging_face: Any) -> None:
    commit = hugging_face.commit("datasets/lab/data", FILES)
    head = find_tables("lab/data")

    folder = fetch_tables_at("lab/data", head)

    assert (head.commit, list(shards_of(head))) == (commit, [SHARD])
    found = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert found == {SHARD: b"rows", "splits/mine.json": b"{}"}
    # Also where the hub lists git's id of a small file, and no sha256.
    assert stored_shards(folder) == shards_of(head)


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"README.md": b"text"}, "is not a data folder: it has no shards"),
        ({**FILES, "workloads/x.parquet": b"?"}, "holds workloads/x.parquet, which is not named as a shard"),
    ],
)
def test_what_is_no_data_folder_is_refused(hugging_face: Any, files: dict[str, bytes], sentence: str) -> None:
    hugging_face.commit("datasets/lab/data", files)

    with pytest.raises(HubError, match=f"^hf-hub:lab/data {sentence}"):
        find_tables("lab/data")


def test_an_answer_that_makes_no_sense_is_a_sentence(hugging_face: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def fail(*_: Any, **__: Any) -> None:
        raise KeyError("siblings")

    hugging_face.commit("datasets/lab/data", FILES)
    head = find_tables("lab/data")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)

    with pytest.raises(HubError, match=r"^hf-hub:lab/data got an answer that no Hugging Face hub gives \(KeyError"):
        fetch_tables_at("lab/data", head)


def test_a_dataset_that_is_not_there_is_refused(hugging_face: Any) -> None:
    with pytest.raises(HubError, match="hf-hub:lab/nothing does not exist"):
        find_tables("lab/nothing")


def test_a_file_in_the_cache_that_the_commit_does_not_list_is_refused(hugging_face: Any) -> None:
    hugging_face.commit("datasets/lab/data", FILES)
    head = find_tables("lab/data")
    folder = fetch_tables_at("lab/data", head)
    (folder / SHARD).resolve().write_bytes(b"evil")

    with pytest.raises(HubError, match="is not the file that hf-hub:lab/data lists at commit"):
        fetch_tables_at("lab/data", head)
