from __future__ import annotations

import gzip
import os
import subprocess
from pathlib import Path

import pytest

from costhub.dataset.ansor.log import log_files
from costhub.errors import HubError
from costhub.hub.sources.bring import bring_source, source_folder
from costhub.hub.sources.catalogue import PublicSource


def git(folder: Path, *words: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    settings = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run(
        ["git", *settings, "-C", str(folder), *words], check=True, capture_output=True, text=True, env=environment
    )
    return done.stdout.strip()


def publish(place: Path, files: dict[str, bytes], *, form: str = "metaschedule") -> PublicSource:
    place.mkdir()
    for name, content in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content)
    git(place, "init", "--quiet")
    git(place, "config", "uploadpack.allowFilter", "true")
    git(place, "add", "-A")
    git(place, "commit", "--quiet", "-m", "all")
    return PublicSource(
        name="a/b",
        format=form,
        repository=place.as_uri(),
        revision=git(place, "rev-parse", "HEAD"),
        folder="results/ms/a",
        device="cpu0",
        licence="MIT",
        contributor="a/b",
    )


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COSTHUB_CACHE", str(tmp_path / "cache"))


def test_a_database_comes_with_its_licence_and_nothing_else(tmp_path: Path) -> None:
    records = gzip.compress(b"[]\n")
    files = {
        "LICENSE": b"MIT License\n",
        "results/ms/a/database_workload.json": b"{}\n",
        "results/ms/a/database_tuning_record.json.gz": records,
        "results/ms/a/logs/task.log": b"much",
        "results/ms/b/database_workload.json": b"other\n",
    }
    source = publish(tmp_path / "origin", files)

    folder = bring_source(source)

    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        "LICENSE": b"MIT License\n",
        "database_workload.json": b"{}\n",
        "database_tuning_record.json.gz": records,
    }
    assert not [path for path in folder.parent.iterdir() if path != folder]


def test_what_is_here_is_not_fetched_again(tmp_path: Path) -> None:
    files = {"results/ms/a/database_workload.sqlite": b"a", "results/ms/a/database_tuning_record.sqlite": b"b"}
    source = publish(tmp_path / "origin", files)
    first = bring_source(source)
    (tmp_path / "origin").rename(tmp_path / "gone")

    assert bring_source(source) == first


def test_logs_get_names_of_ours(tmp_path: Path) -> None:
    strange = {
        "results/ms/a/x;touch y.log": b"1",
        "results/ms/a/deep/-rf.json": b"2",
        "results/ms/a/run.so": b"\x7fELF",
    }
    source = publish(tmp_path / "origin", strange, form="ansor")

    folder = bring_source(source)

    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"log-0000.json": b"2", "log-0001.log": b"1"}


@pytest.mark.parametrize("form", ["metaschedule", "ansor"])
def test_a_folder_without_measurements_leaves_nothing(form: str, tmp_path: Path) -> None:
    source = publish(tmp_path / "origin", {"results/ms/a/README.md": b"soon"}, form=form)

    with pytest.raises(HubError, match=r"has no database_workload\.json|has 0 logs"):
        bring_source(source)

    assert not source_folder(source).exists()
    assert list((tmp_path / "cache/sources").iterdir()) == []


def test_a_link_in_the_place_of_a_database_leaves_nothing(tmp_path: Path) -> None:
    source = publish(tmp_path / "origin", {"results/ms/a/database_workload.json": b"{}"})
    (tmp_path / "origin/results/ms/a/database_tuning_record.json").symlink_to("/etc/passwd")
    git(tmp_path / "origin", "add", "-A")
    git(tmp_path / "origin", "commit", "--quiet", "-m", "link")
    head = git(tmp_path / "origin", "rev-parse", "HEAD")
    linked = PublicSource(**{**source.__dict__, "revision": head})

    with pytest.raises(HubError, match="is a symbolic link"):
        bring_source(linked)

    assert not source_folder(linked).exists()


def test_compressed_logs_keep_an_ending_that_says_so(tmp_path: Path) -> None:
    source = publish(tmp_path / "origin", {"results/ms/a/conv.log.gz": gzip.compress(b"1")}, form="ansor")

    folder = bring_source(source)

    assert [path.name for path in log_files(folder)] == ["log-0000.json.gz"]


def test_files_of_somebody_else_in_a_shared_cache_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"results/ms/a/database_workload.json": b"{}", "results/ms/a/database_tuning_record.json": b"[]"}
    source = publish(tmp_path / "origin", files)
    bring_source(source)
    monkeypatch.setattr("costhub.hub.sources.bring.is_own", lambda folder: False)

    with pytest.raises(HubError, match="belongs to somebody else"):
        bring_source(source)
