from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.shards.lock import FolderLock
from costhub.errors import ArgumentError, CosthubError, DataError
from costhub.hub.remote import folder_repo
from costhub.hub.remote.folder_repo import FolderRepo
from costhub.hub.remote.remote_repo import Head, StaleError


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

    with pytest.raises(StaleError, match="changed by someone else"):
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
    before = head(repo)
    with FolderLock(table):
        (table / "journal.jsonl").write_text("a row of the writer")
        repo.commit(before, {"contributions/a/x": one, "contributions/a/b/y": one}, [], message="beside")
        (table / "journal.jsonl").unlink()
        with pytest.raises(DataError, match="is being written by another process"):
            repo.commit(head(repo), {"README.md": one}, [], message="instead")
        assert table.is_dir()

    repo.commit(head(repo), {"README.md": one}, [], message="instead")
    assert {path.name for path in repo.folder.rglob("*") if path.is_file()} == {"README.md", "x", "y"}


def test_nothing_is_put_beside_what_was_deleted(repo: FolderRepo, tmp_path: Path) -> None:
    before = head(repo)
    repo.folder.rmdir()

    with pytest.raises(StaleError, match="changed by someone else"):
        repo.commit(before, {"contributions/a/x": local(tmp_path, "one")}, [], message="beside")
    assert not repo.folder.exists()


@pytest.mark.parametrize("taken", [False, True])
def test_no_failure_between_the_renames_loses_the_data(
    taken: bool, repo: FolderRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.commit(head(repo), {"x": local(tmp_path, "one")}, [], message="first")
    rename = Path.rename

    def interrupted(path: Path, target: Path) -> Path:
        if path.name == "new":
            if taken:  # by a collector that makes its folder again
                (target / "measurements").mkdir(parents=True)
            raise KeyboardInterrupt
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(CosthubError if taken else KeyboardInterrupt) as told:
        repo.commit(head(repo), {"x": local(tmp_path, "two")}, [], message="second")

    (old,) = [path for path in repo.folder.parent.glob("*data*") if (path / "x").exists()]
    assert (old / "x").read_text() == "one"
    assert (old == repo.folder) is not taken
    assert not taken or str(old) in str(told.value)


@pytest.mark.parametrize("late", ["measurements/cpu/train-9.parquet", "measurements/gpu/.lock"])
def test_what_is_finished_while_the_copy_is_made_is_not_lost(
    late: str, repo: FolderRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.commit(head(repo), {"measurements/cpu/a": local(tmp_path, "one")}, [], message="first")
    copy = folder_repo._copy

    def slow(source: Path, target: Path) -> None:
        (repo.folder / late).parent.mkdir(exist_ok=True)
        (repo.folder / late).write_text("rows")
        copy(source, target)

    monkeypatch.setattr(folder_repo, "_copy", slow)
    with pytest.raises(StaleError):
        repo.commit(head(repo), {"README.md": local(tmp_path, "two")}, [], message="second")

    assert (repo.folder / late).read_text() == "rows"


@pytest.mark.parametrize("table", ["devices", "workloads", "measurements", "measurements/cpu"])
def test_every_table_is_locked(table: str, repo: FolderRepo, tmp_path: Path) -> None:
    (repo.folder / table).mkdir(parents=True)
    with FolderLock(repo.folder / table), pytest.raises(DataError, match="written by another process"):
        repo.commit(head(repo), {"x": local(tmp_path, "one")}, [], message="instead")


def test_what_nobody_removed_stays(repo: FolderRepo, tmp_path: Path) -> None:
    one = local(tmp_path, "one")
    repo.commit(head(repo), {"contributions/a/x": one, "y": one}, [], message="first")
    for name in (".git/config", ".gitattributes", "measurements/cpu/.lock", "measurements/cpu/.writing-1"):
        (repo.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (repo.folder / name).write_text("kept")
    (repo.folder / "splits").mkdir(mode=0o700)
    (repo.folder / "link").symlink_to("y")
    repo.folder.chmod(0o2775)

    repo.commit(head(repo), {"z": one}, ["contributions/a/x"], message="second")

    found = {path.relative_to(repo.folder).as_posix() for path in repo.folder.rglob("*")}
    assert found == {
        *(".git", ".git/config", ".gitattributes", "link", "measurements", "measurements/cpu"),
        *("splits", "y", "z"),
    }
    assert (repo.folder / "link").is_symlink()
    assert stat.S_IMODE(repo.folder.stat().st_mode) == 0o2775
    assert stat.S_IMODE((repo.folder / "splits").stat().st_mode) == 0o700


def test_there_are_no_tags_and_no_hub_in_no_folder(repo: FolderRepo, tmp_path: Path) -> None:
    assert repo.find_pull_request("x") is None  # type: ignore[func-returns-value]
    with pytest.raises(ArgumentError, match="nor tags"):
        repo.tag("v1", "")
    with pytest.raises(ArgumentError, match="is not a folder"):
        FolderRepo(tmp_path / "nothing", "a/b", "model")
    assert FolderRepo(tmp_path / "hub", "a/b", "model").head() is None
