from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.shards.lock import FolderLock
from costhub.errors import DataError, HubError
from costhub.hub import folder_repo
from costhub.hub.folder_repo import FolderRepo
from costhub.hub.remote_repo import Head, StaleError


@pytest.fixture
def repo(tmp_path: Path) -> FolderRepo:
    (tmp_path / "hub").mkdir()
    made = FolderRepo(tmp_path / "hub", "lab/data", "dataset")
    made.create()
    return made


def local(tmp_path: Path, text: str) -> Path:
    path = tmp_path / f"local-{text}"
    path.write_text(text)
    return path


def head(repo: FolderRepo) -> Head:
    found = repo.head()
    assert found is not None
    return found


def test_a_commit_adds_replaces_and_removes(repo: FolderRepo, tmp_path: Path) -> None:
    one, two = local(tmp_path, "one"), local(tmp_path, "two")
    repo.commit(head(repo), {"a/x": one, "y": one}, [], message="first")
    done = repo.commit(head(repo), {"y": two}, ["a/x"], message="second")

    assert done.commit == head(repo).commit
    assert {p.name: p.read_text() for p in repo.folder.rglob("*") if p.is_file()} == {"y": "two"}
    assert repo.folder == tmp_path / "hub/datasets/lab/data"


def test_a_stale_head_is_refused(repo: FolderRepo, tmp_path: Path) -> None:
    before = head(repo)
    repo.commit(before, {"x": local(tmp_path, "one")}, [], message="quicker")

    with pytest.raises(StaleError, match="changed by somebody else"):
        repo.commit(before, {"x": local(tmp_path, "two")}, [], message="late")

    assert (repo.folder / "x").read_text() == "one"


def test_a_failure_in_between_leaves_the_old_folder(
    repo: FolderRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.commit(head(repo), {"x": local(tmp_path, "one")}, [], message="first")

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folder_repo, "_copy", fail)
    with pytest.raises(OSError, match="No space"):
        repo.commit(head(repo), {"x": local(tmp_path, "two")}, [], message="second")

    assert [path.name for path in repo.folder.iterdir()] == ["x"]
    assert (repo.folder / "x").read_text() == "one"
    assert [path.name for path in repo.folder.parent.iterdir() if path.name != ".lock"] == ["data"]


def test_what_is_put_beside_does_not_disturb_a_writer(repo: FolderRepo, tmp_path: Path) -> None:
    table = repo.folder / "measurements/cpu"
    table.mkdir(parents=True)
    one = local(tmp_path, "one")
    with FolderLock(table):
        repo.commit(head(repo), {"contributions/a/x": one, "contributions/a/b/y": one}, [], message="beside")
        with pytest.raises(DataError, match="is being written by another process"):
            repo.commit(head(repo), {"README.md": one}, [], message="instead")
        assert table.is_dir()

    repo.commit(head(repo), {"README.md": one}, [], message="instead")
    assert {path.name for path in repo.folder.rglob("*") if path.is_file()} == {"README.md", "x", "y"}


def test_there_are_no_tags_and_no_hub_in_no_folder(repo: FolderRepo, tmp_path: Path) -> None:
    assert repo.find_pull_request("x") is None  # type: ignore[func-returns-value]
    with pytest.raises(HubError, match="no tags"):
        repo.tag("v1", "")
    with pytest.raises(HubError, match="is not a folder"):
        FolderRepo(tmp_path / "nothing", "a/b", "model")
    assert FolderRepo(tmp_path / "hub", "a/b", "model").head() is None
