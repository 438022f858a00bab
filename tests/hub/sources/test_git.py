from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from costhub.errors import HubError
from costhub.hub.sources import git as module
from costhub.hub.sources.git import GitFile, GitRevision


def git(folder: Path, *words: str) -> str:
    settings = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", *settings, "-C", str(folder), *words], check=True, capture_output=True, text=True, env=environment
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits; the file of the first is what a revision should give."""
    place = tmp_path / "origin"
    (place / "results/a").mkdir(parents=True)
    git(place, "init", "--quiet", "--initial-branch=main")
    git(place, "config", "uploadpack.allowFilter", "true")
    (place / "results/a/records.json").write_bytes(b"old\n" * 3)
    (place / "LICENSE").write_text("MIT\n")
    (place / "huge.bin").write_bytes(os.urandom(1 << 20))
    git(place, "add", "-A")
    git(place, "commit", "--quiet", "-m", "one")
    return place


def commit(place: Path, message: str = "more") -> str:
    git(place, "add", "-A")
    git(place, "commit", "--quiet", "-m", message)
    return git(place, "rev-parse", "HEAD")


def test_files_of_a_revision_that_is_no_longer_the_newest(repository: Path, tmp_path: Path) -> None:
    first = git(repository, "rev-parse", "HEAD")
    (repository / "results/a/records.json").write_text("new\n")
    commit(repository)

    with GitRevision(repository.as_uri(), first) as revision:
        [file] = revision.files("results/a")
        revision.copy([file], [tmp_path / "copy"], limit=100)

    assert file.path == "results/a/records.json"
    assert (tmp_path / "copy").read_bytes() == b"old\n" * 3


def test_only_what_is_read_is_fetched(repository: Path, tmp_path: Path) -> None:
    with GitRevision(repository.as_uri(), git(repository, "rev-parse", "HEAD")) as revision:
        revision.copy(revision.files("results"), [tmp_path / "copy"], limit=100)

        assert revision._folder is not None
        fetched = sum(path.stat().st_size for path in revision._folder.glob("objects/**/*") if path.is_file())
    assert fetched < 1 << 19


def test_a_server_without_filters_serves_too(repository: Path, tmp_path: Path) -> None:
    git(repository, "config", "uploadpack.allowFilter", "false")

    with GitRevision(repository.as_uri(), git(repository, "rev-parse", "HEAD")) as revision:
        revision.copy(revision.files("results"), [tmp_path / "copy"], limit=100)

    assert (tmp_path / "copy").read_bytes() == b"old\n" * 3


@pytest.mark.parametrize(
    "address",
    [
        "ext::sh -c 'touch made'",
        "ssh://host/path",
        "git://host/path",
        "http://host/path",
        "--upload-pack=touch made",
        "-u",
        "host:path",
        "fd::0",
        "../origin",
    ],
)
def test_other_protocols_are_refused(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(HubError, match="address that costhub fetches"), GitRevision(address, "0" * 40) as revision:
        revision.files()

    assert list(tmp_path.iterdir()) == []


def test_the_settings_of_the_user_are_not_read(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may hold credentials, which a stranger's server must not get, or lead to another protocol."""
    (tmp_path / ".gitconfig").write_text(
        f'[url "ext::touch {tmp_path}/made #"]\n  insteadOf = {repository.as_uri()}\n[protocol]\n  allow = always\n'
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GIT_ALLOW_PROTOCOL", "ext")

    with GitRevision(repository.as_uri(), git(repository, "rev-parse", "HEAD")) as revision:
        assert revision.files()

    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("kind", ["link", "submodule"])
def test_what_is_no_regular_file_is_refused(kind: str, repository: Path) -> None:
    if kind == "link":
        (repository / "results/a/passwords").symlink_to("/etc/passwd")
        sentence = "results/a/passwords in .* is a symbolic link"
        head = commit(repository)
    else:
        oid = git(repository, "rev-parse", "HEAD")
        git(repository, "update-index", "--add", "--cacheinfo", f"160000,{oid},results/a/module")
        git(repository, "commit", "--quiet", "-m", "module")
        sentence, head = "results/a/module in .* is a submodule", git(repository, "rev-parse", "HEAD")

    with GitRevision(repository.as_uri(), head) as revision, pytest.raises(HubError, match=sentence):
        revision.files("results")


def test_nothing_of_the_repository_runs(repository: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"
    (repository / ".gitattributes").write_text("* filter=evil\n")
    (repository / ".gitmodules").write_text(
        f'[submodule "a"]\n  path = a\n  url = ext::touch {made}\n  update = !touch {made}\n'
    )
    for hook in ("post-checkout", "post-merge", "reference-transaction", "post-index-change"):
        path = repository / ".git/hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\ntouch {made}-client\n")
        path.chmod(0o755)
    head = commit(repository)
    for left in tmp_path.glob("made*"):
        left.unlink()  # of our own commit

    with GitRevision(repository.as_uri(), head) as revision:
        revision.copy(revision.files("results"), [tmp_path / "copy"], limit=100)

    assert list(tmp_path.glob("made*")) == []


def test_a_file_over_the_limit_is_refused(repository: Path, tmp_path: Path) -> None:
    with GitRevision(repository.as_uri(), git(repository, "rev-parse", "HEAD")) as revision:
        huge = next(file for file in revision.files() if file.path == "huge.bin")
        with pytest.raises(HubError, match="has more than 1,000 bytes"):
            revision.copy([huge], [tmp_path / "copy"], limit=1000)

    assert (tmp_path / "copy").stat().st_size <= 1000


def test_a_fetch_over_the_limit_is_refused(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LIMITED", ("sh", "-c", 'ulimit -f 256; exec "$@"', "sh"))

    with GitRevision(repository.as_uri(), git(repository, "rev-parse", "HEAD")) as revision:
        huge = next(file for file in revision.files() if file.path == "huge.bin")
        with pytest.raises(HubError, match="cannot be fetched"):
            revision.copy([huge], [tmp_path / "copy"], limit=1 << 30)


def test_a_pointer_of_lfs_is_a_sentence(repository: Path, tmp_path: Path) -> None:
    (repository / "results/a/records.json").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")

    with GitRevision(repository.as_uri(), commit(repository)) as revision, pytest.raises(HubError, match="Git LFS"):
        revision.copy(revision.files("results"), [tmp_path / "copy"], limit=1000)


@pytest.mark.parametrize(
    ("revision", "folder", "sentence"),
    [("0" * 40, "", "Revision 000000000000 of .* cannot be fetched"), ("", "nowhere", "has no files in nowhere")],
)
def test_what_is_missing_is_a_sentence(revision: str, folder: str, sentence: str, repository: Path) -> None:
    revision = revision or git(repository, "rev-parse", "HEAD")

    with GitRevision(repository.as_uri(), revision) as asked, pytest.raises(HubError, match=sentence):
        asked.files(folder)


def test_a_repository_or_file_that_is_missing_is_a_sentence(repository: Path, tmp_path: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")

    with GitRevision((tmp_path / "none").as_uri(), head) as none, pytest.raises(HubError, match="cannot be fetched"):
        none.files()
    with GitRevision(repository.as_uri(), head) as revision:
        revision.files()
        with pytest.raises(HubError, match="cannot be fetched"):
            revision.copy([GitFile("a", "1" * 40)], [tmp_path / "copy"], limit=10)


def test_names_are_shown_without_what_a_terminal_interprets(repository: Path) -> None:
    (repository / "results/a/\x1b[31m").symlink_to("x")

    with GitRevision(repository.as_uri(), commit(repository)) as revision, pytest.raises(HubError) as caught:
        revision.files("results")

    assert "\x1b" not in str(caught.value)


def test_git_that_hangs_is_ended_with_its_children(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "git").write_text('#!/bin/sh\ncase "$*" in *fetch*) sleep 600 & sleep 600;; esac\n')
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(module, "_LOCAL_TIMEOUT_S", 0.3)
    began = time.monotonic()

    with (
        pytest.raises(HubError, match=r"git took longer than 0\.3 s"),
        GitRevision(repository.as_uri(), "0" * 40) as asked,
    ):
        asked.files()

    assert time.monotonic() - began < 60
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path / "git") not in running


def test_a_machine_without_git_is_a_sentence(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(tmp_path))

    with GitRevision(repository.as_uri(), "0" * 40) as asked, pytest.raises(HubError, match="git is not installed"):
        asked.files()


def test_a_partial_clone_on_this_machine_runs_nothing(repository: Path, tmp_path: Path) -> None:
    """A server that lacks an object may fetch it from elsewhere, as its own settings say (CVE-2024-32004)."""
    evil, ran = tmp_path / "evil.git", tmp_path / "ran"
    script = tmp_path / "evil.sh"
    script.write_text(f"#!/bin/sh\ntouch {ran}\n")
    script.chmod(0o755)
    git(tmp_path, "clone", "--quiet", "--bare", "--filter=blob:none", repository.as_uri(), str(evil))
    blob = git(repository, "rev-parse", "HEAD:results/a/records.json")
    for name, value in {
        "remote.origin.url": f"file://{tmp_path}/nowhere",
        "remote.origin.uploadpack": str(script),
        "uploadpack.allowFilter": "true",
        "uploadpack.allowAnySHA1InWant": "true",
    }.items():
        git(evil, "config", name, value)

    revision = git(evil, "rev-parse", "HEAD")
    with pytest.raises(HubError), GitRevision(evil.as_uri(), revision) as opened:
        opened.copy([GitFile("records.json", blob)], [tmp_path / "copy"], limit=100)

    assert not ran.exists()


def test_folders_that_hold_each_other_are_not_listed_for_ever(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_LISTING_BYTES", 100)

    with (
        GitRevision(repository.as_uri(), git(repository, "rev-parse", "HEAD")) as revision,
        pytest.raises(HubError, match="lists more than"),
    ):
        revision.files()


def test_all_files_together_have_a_limit(repository: Path, tmp_path: Path) -> None:
    with GitRevision(repository.as_uri(), git(repository, "rev-parse", "HEAD")) as revision:
        [file] = revision.files("results")
        targets = [tmp_path / str(number) for number in range(3)]
        with pytest.raises(HubError, match="together have more than 30 bytes"):
            revision.copy([file] * 3, targets, limit=100, most=30)
