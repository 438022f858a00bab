from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costhub.errors import HubError
from costhub.hub.remote import watch
from costhub.hub.remote.manifest import hash_file
from costhub.hub.remote.remote_repo import Head, RemoteRepo, StaleError, blob_id

CARD = b"---\nlicense: mit\n---\n# T\n"


@pytest.fixture
def repo(hugging_face: Any) -> RemoteRepo:
    hugging_face.commit("datasets/acme/data", {"README.md": CARD, "a.parquet": b"PAR1"})
    return RemoteRepo("acme/data", "dataset")


@pytest.fixture
def local(tmp_path: Path) -> Path:
    path = tmp_path / "local"
    path.write_bytes(b"PAR1 of this machine")
    return path


def head(repo: RemoteRepo) -> Head:
    found = repo.head()
    assert found is not None
    return found


def test_the_head_knows_its_files_by_their_bytes(repo: RemoteRepo, tmp_path: Path) -> None:
    found = head(repo)
    for name, content in (("README.md", CARD), ("a.parquet", b"PAR1")):
        (tmp_path / "same").write_bytes(content)
        assert found.has(name, tmp_path / "same")
        (tmp_path / "same").write_bytes(content + b"!")
        assert not found.has(name, tmp_path / "same")
    assert found.sizes == {"README.md": len(CARD), "a.parquet": 4}
    assert RemoteRepo("acme/nothing", "dataset").head() is None


@pytest.mark.parametrize("size", [-1, 1 << 90, None, "4", 1.5, True])
def test_a_size_that_no_file_has_is_a_sentence(repo: RemoteRepo, size: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def entries(files: dict[str, bytes]) -> list[dict[str, Any]]:
        return [{"type": "file", "path": name, "size": size, "oid": "0" * 40} for name in files]

    monkeypatch.setattr(sys.modules["loopback_hub"], "_entries", entries)

    with pytest.raises(HubError, match=r"lists README.md with .* bytes, as no Hugging Face hub does"):
        repo.head()


def test_a_listing_that_was_cut_short_is_none(
    repo: RemoteRepo, hugging_face: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    hugging_face.commit(f"datasets/{repo.name}", {f"measurements/a/{number}.bin": b"x" for number in range(4)})
    monkeypatch.setattr("costhub.hub.remote.remote_repo.MOST_LISTED", 5)

    with pytest.raises(HubError, match="lists 5 files and folders or more"):
        repo.head()


def test_a_revision_that_there_is_not_is_said_to_be_none(repo: RemoteRepo) -> None:
    with pytest.raises(HubError, match="does not have the revision asked for"):
        repo.head("v99")


def test_git_names_files_as_we_do(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"hello\n")

    assert blob_id(tmp_path / "x") == "ce013625030ba8dba906f756967f9e9ca394464a"
    assert hash_file(tmp_path / "x").sha256.startswith("5891b5b522d5df08")


def test_a_commit_is_made_on_the_head_that_was_seen(repo: RemoteRepo, local: Path, hugging_face: Any) -> None:
    seen = head(repo)
    hugging_face.change("datasets/acme/data", {"x.json": b"1"}, message="quicker")

    with pytest.raises(StaleError, match="changed by someone else"):
        repo.commit(seen, {"b.parquet": local}, [], message="late")

    done = repo.commit(head(repo), {"b.parquet": local}, ["a.parquet"], message="again")
    assert done.commit == hugging_face.refs["datasets/acme/data"]["main"]
    assert set(hugging_face.files("datasets/acme/data")) == {"README.md", "x.json", "b.parquet"}


def test_an_upload_that_is_cut_is_sent_again(repo: RemoteRepo, local: Path, hugging_face: Any) -> None:
    hugging_face.faults.append(_fault("PUT /lfs/"))
    hugging_face.faults.append(_fault("PUT /lfs/", status=503))

    repo.commit(head(repo), {"b.parquet": local}, [], message="more")

    assert hugging_face.files("datasets/acme/data")["b.parquet"] == local.read_bytes()
    assert len([r for r in hugging_face.requests if r.startswith("PUT /lfs/")]) == 3


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ({"request": "POST .*/commit/"}, "could not be reached at http://127.0.0.1"),
        ({"request": "POST .*/commit/", "status": 500}, "answered 500"),
        ({"request": "POST .*/commit/", "status": 403}, "does not let you write to it"),
        ({"request": "POST .*/commit/", "status": 413}, "answered 413"),
        ({"request": "POST .*/commit/", "status": 405}, "read-only server, such as a mirror. Set HF_ENDPOINT"),
        ({"request": "PUT /lfs/", "status": 403, "times": 9}, "does not accept the files"),
        ({"request": "POST .*/preupload/", "status": 401}, "Log in with `hf auth login`"),
    ],
)
def test_what_fails_is_a_sentence_and_nothing_is_half_done(
    repo: RemoteRepo, local: Path, hugging_face: Any, fault: dict[str, Any], sentence: str
) -> None:
    seen, before = head(repo), dict(hugging_face.files("datasets/acme/data"))
    hugging_face.faults.append(_fault(**fault))

    with pytest.raises(HubError) as failed:
        repo.commit(seen, {"b.parquet": local}, [], message="more")

    assert sentence in str(failed.value)
    assert len(str(failed.value).splitlines()) == 1
    assert hugging_face.files("datasets/acme/data") == before


def test_a_server_without_pull_requests_is_told_from_a_repository_that_is_not_there(
    repo: RemoteRepo, hugging_face: Any
) -> None:
    assert repo.find_pull_request("mark") is None
    del hugging_face.commits["datasets/acme/data"]  # a mirror answers as if it were not there

    with pytest.raises(HubError, match="read-only server, such as a mirror"):
        repo.find_pull_request("mark")


def test_a_licence_that_the_hub_does_not_know_is_a_sentence(repo: RemoteRepo, tmp_path: Path) -> None:
    (tmp_path / "card").write_text("---\nlicense: my-own\n---\n")

    with pytest.raises(HubError, match='"license" must be one of'):
        repo.commit(head(repo), {"README.md": tmp_path / "card"}, [], message="x")


def test_without_a_token_nothing_is_made(hugging_face: Any) -> None:
    hugging_face.token = "secret"  # noqa: S105 - the tests' own

    with pytest.raises(HubError, match="hf auth login"):
        RemoteRepo("acme/new", "model").create()


def test_a_tag_stays_on_its_commit(repo: RemoteRepo, local: Path, hugging_face: Any) -> None:
    first = head(repo).commit
    repo.tag("v1", first)
    repo.tag("v1", first)
    later = repo.commit(head(repo), {"b.parquet": local}, [], message="more").commit

    with pytest.raises(HubError, match="a version never changes"):
        repo.tag("v1", later)
    assert hugging_face.refs["datasets/acme/data"]["v1"] == first


def test_a_pull_request_is_found_by_its_mark_and_closed_once(repo: RemoteRepo, local: Path, hugging_face: Any) -> None:
    done = repo.commit(head(repo), {"b.parquet": local}, [], message="Rows [abc]", pull_request=True)

    assert [pull.num for pull in repo.open_pull_requests()] == [1]
    found = repo.find_pull_request("[abc]")
    assert found is not None
    assert (found.pull_request, found.url) == (1, done.url)
    assert repo.find_pull_request("[xyz]") is None
    assert repo.title_of(1) == "Rows [abc]"

    repo.close(1, "Thanks.")
    repo.close(1, "Thanks.")
    (pull,) = hugging_face.pulls["datasets/acme/data"]
    assert (pull.status, pull.comments) == ("closed", ["Thanks."])
    # Whoever was turned down may try again.
    assert repo.find_pull_request("[abc]") is None
    assert repo.open_pull_requests() == []


def test_a_server_without_xet_storage_is_named(repo: RemoteRepo, local: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", False)

    with pytest.raises(HubError, match="HF_HUB_DISABLE_XET=1"):
        repo.commit(head(repo), {"b.parquet": local}, [], message="more")


def test_xet_in_the_client_is_no_obstacle_where_nothing_is_large(
    repo: RemoteRepo, tmp_path: Path, hugging_face: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", False)
    (tmp_path / "x.json").write_text("{}")

    done = repo.commit(head(repo), {"x.json": tmp_path / "x.json"}, [], message="more", pull_request=True)

    assert done.pull_request == 1
    assert hugging_face.files("datasets/acme/data", "refs/pr/1")["x.json"] == b"{}"


@pytest.mark.parametrize(
    ("question", "ask"),
    [
        ("repo_info", lambda repo: repo.head()),
        ("get_repo_discussions", lambda repo: repo.open_pull_requests()),
        ("get_repo_discussions", lambda repo: repo.find_pull_request("mark")),
        ("get_discussion_details", lambda repo: repo.title_of(1)),
        ("get_discussion_details", lambda repo: repo.close(1, "Thanks.")),
        ("list_repo_refs", lambda repo: repo.refs()),
        ("list_repo_refs", lambda repo: repo.has_tag("v1", "0" * 40)),
    ],
)
@pytest.mark.parametrize("error", [KeyError("count"), ValueError("no time")])
def test_an_answer_that_makes_no_sense_is_a_sentence_whatever_was_asked(
    repo: RemoteRepo, monkeypatch: pytest.MonkeyPatch, question: str, ask: Callable[[RemoteRepo], Any], error: Exception
) -> None:
    watching = []

    def fail(*_: Any, **__: Any) -> None:
        watching.extend(each.repo for each in watch._watches)
        raise error

    monkeypatch.setattr(repo.api, question, fail)

    with pytest.raises(HubError, match=r"^hf-hub:acme/data got an answer that no Hugging Face hub gives \("):
        ask(repo)
    assert watching == ["acme/data"]


def test_a_download_that_fails_blames_no_files_of_ours(repo: RemoteRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("Task error: CAS")

    found = head(repo)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fail)

    with pytest.raises(HubError, match=r"could not be reached at .*Task error"):
        repo.fetch(found, "a.parquet")


def test_offline_is_said(repo: RemoteRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)

    with pytest.raises(HubError, match=r"HF_HUB_OFFLINE is set|could not be reached"):
        repo.head()


def _fault(request: str, **settings: Any) -> Any:
    import sys

    return sys.modules["loopback_hub"].Fault(request, **settings)


def test_a_gated_repository_says_how_to_get_in(hugging_face: Any) -> None:
    hugging_face.commit("acme/closed", {"x": b"x"})
    hugging_face.gated.add("acme/closed")

    with pytest.raises(HubError, match=r"is gated\. Accept its terms"):
        RemoteRepo("acme/closed", "model").head()
