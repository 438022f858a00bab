"""The server that other tests rely on, driven by the real client: it takes and refuses what the hub does."""

from __future__ import annotations

from typing import Any

import pytest
from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi, errors, hf_hub_download

CARD = b"---\nlicense: mit\n---\n# Card\n"


@pytest.fixture
def api(hugging_face: Any) -> HfApi:
    return HfApi(endpoint=hugging_face.url, token="of-the-test")  # noqa: S106 - nobody else knows it


def add(path: str, content: bytes) -> CommitOperationAdd:
    return CommitOperationAdd(path, content)


def make(api: HfApi, name: str = "acme/data", **files: bytes) -> str:
    api.create_repo(name, repo_type="dataset")
    operations = [add(path, content) for path, content in (files or {"README.md": CARD}).items()]
    return str(api.create_commit(name, operations, commit_message="first", repo_type="dataset").oid)


def test_files_come_back_as_they_went_up_large_ones_too(api: HfApi, hugging_face: Any) -> None:
    files = {"README.md": CARD, "a/train-0.parquet": b"PAR1" * 5000, "empty.json": b""}
    make(api, **files)

    for name, content in files.items():
        path = hf_hub_download("acme/data", name, repo_type="dataset")
        with open(path, "rb") as file:
            assert file.read() == content
    assert [request for request in hugging_face.requests if request.startswith("PUT /lfs/")] != []
    assert {e.path for e in api.list_repo_tree("acme/data", "a", repo_type="dataset")} == {"a/train-0.parquet"}


def test_what_is_stored_already_is_not_sent_again(api: HfApi, hugging_face: Any) -> None:
    make(api, **{"a.parquet": b"PAR1" * 99})
    hugging_face.requests.clear()

    moved = [add("b.parquet", b"PAR1" * 99), CommitOperationDelete("a.parquet", is_folder=False)]
    api.create_commit("acme/data", moved, commit_message="rename", repo_type="dataset")

    assert [request for request in hugging_face.requests if request.startswith("PUT ")] == []
    assert "a.parquet" not in hugging_face.files("datasets/acme/data")


def test_a_stale_parent_is_refused_and_nothing_changes(api: HfApi, hugging_face: Any) -> None:
    old = make(api)
    api.create_commit("acme/data", [add("x.json", b"1")], commit_message="quicker", repo_type="dataset")
    before = hugging_face.files("datasets/acme/data")

    with pytest.raises(errors.HfHubHTTPError) as refused:
        api.create_commit(
            "acme/data", [add("y.json", b"2")], commit_message="late", repo_type="dataset", parent_commit=old
        )

    assert refused.value.response.status_code == 412
    assert hugging_face.files("datasets/acme/data") == before


def test_a_pull_request_changes_the_main_branch_when_it_is_merged(api: HfApi, hugging_face: Any) -> None:
    make(api)
    done = api.create_commit(
        "acme/data", [add("new.json", b"{}")], commit_message="more", repo_type="dataset", create_pr=True
    )

    assert (done.pr_num, done.pr_revision) == (1, "refs/pr/1")
    assert "new.json" not in hugging_face.files("datasets/acme/data")
    assert hf_hub_download("acme/data", "new.json", repo_type="dataset", revision="refs/pr/1")
    (listed,) = api.get_repo_discussions("acme/data", repo_type="dataset")
    assert (listed.title, listed.status, listed.is_pull_request) == ("more", "open", True)

    api.merge_pull_request("acme/data", 1, repo_type="dataset")

    assert "new.json" in hugging_face.files("datasets/acme/data")
    details = api.get_discussion_details("acme/data", 1, repo_type="dataset")
    assert (details.status, details.conflicting_files) == ("merged", [])


def test_two_pull_requests_on_one_file_conflict(api: HfApi) -> None:
    make(api)
    for content in (b"1", b"2"):
        api.create_commit(
            "acme/data", [add("x.json", content)], commit_message="x", repo_type="dataset", create_pr=True
        )
    api.merge_pull_request("acme/data", 1, repo_type="dataset")

    with pytest.raises(errors.HfHubHTTPError, match="409"):
        api.merge_pull_request("acme/data", 2, repo_type="dataset")


def test_a_tag_names_one_commit(api: HfApi) -> None:
    commit = make(api)
    api.create_tag("acme/data", tag="v1", revision=commit, repo_type="dataset")
    api.create_commit("acme/data", [add("x.json", b"1")], commit_message="x", repo_type="dataset")

    assert [(t.name, t.target_commit) for t in api.list_repo_refs("acme/data", repo_type="dataset").tags] == [
        ("v1", commit)
    ]
    with pytest.raises(errors.HfHubHTTPError, match="409"):
        api.create_tag("acme/data", tag="v1", repo_type="dataset")


@pytest.mark.parametrize("card", ["license: my-own", "tags: [1]", "a: ["])
def test_a_bad_card_is_refused_before_anything_is_stored(api: HfApi, hugging_face: Any, card: str) -> None:
    make(api)

    with pytest.raises(ValueError, match=r"Invalid metadata in README\.md"):
        api.create_commit(
            "acme/data",
            [add("README.md", f"---\n{card}\n---\n".encode()), add("x.parquet", b"PAR1")],
            commit_message="bad",
            repo_type="dataset",
        )

    assert hugging_face.stored == {}


def test_what_is_not_there_is_not_found(api: HfApi) -> None:
    make(api)

    with pytest.raises(errors.RepositoryNotFoundError):
        api.repo_info("acme/nothing", repo_type="dataset")
    with pytest.raises(errors.RevisionNotFoundError):
        api.repo_info("acme/data", repo_type="dataset", revision="v9")
    with pytest.raises(errors.EntryNotFoundError):
        list(api.list_repo_tree("acme/data", "nowhere", repo_type="dataset"))
    with pytest.raises(errors.HfHubHTTPError, match="409"):
        api.create_repo("acme/data", repo_type="dataset")
    with pytest.raises(errors.HfHubHTTPError, match="404"):
        api.get_discussion_details("acme/data", 7, repo_type="dataset")
    gone = [CommitOperationDelete("no.json", is_folder=False)]
    with pytest.raises(errors.EntryNotFoundError):
        api.create_commit("acme/data", gone, commit_message="x", repo_type="dataset")


def test_a_write_wants_the_token(api: HfApi, hugging_face: Any) -> None:
    make(api)
    hugging_face.token = "another"  # noqa: S105 - nor this one

    with pytest.raises(errors.HfHubHTTPError, match="401"):
        api.create_repo("acme/more")


def test_a_part_of_a_file_is_served_by_range(api: HfApi, hugging_face: Any) -> None:
    from huggingface_hub import HfFileSystem

    make(api, **{"a.parquet": bytes(range(256)) * 100})
    with HfFileSystem(endpoint=hugging_face.url).open("datasets/acme/data/a.parquet", block_size=512) as file:
        file.seek(1000)
        assert file.read(3) == (bytes(range(256)) * 100)[1000:1003]
    assert hugging_face.bytes_served["a.parquet"] < 2000
