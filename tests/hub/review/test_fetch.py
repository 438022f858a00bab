"""What a pull request may hold besides measurements: nothing of it is fetched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.folder import DataFolder
from costhub.errors import CosthubError, HubError, RefusedError
from costhub.hub.remote.address import AddressError
from costhub.hub.remote.remote_repo import RemoteRepo
from costhub.hub.review import fetch
from costhub.hub.review.fetch import fetch_compared, find_pull_request
from costhub.hub.review.review import review

REPO = "datasets/acme/data"


def test_only_the_devices_that_matter_are_fetched(offered: Any, hugging_face: Any) -> None:
    other = {"measurements/other/train-00000-of-00001.parquet": b"PAR1", "big.bin": b"x"}
    hugging_face.change(REPO, other, message="more")

    found = fetch_compared("hf-hub:acme/data", ["amd-epyc-zen5-1c"])

    assert found is not None
    assert DataFolder.open(found).device_ids() == ["amd-epyc-zen5-1c"]
    assert not (found / "big.bin").exists()
    assert set(hugging_face.bytes_served) & set(other) == set()


def test_a_name_with_letters_of_patterns_fetches_no_other_device(offered: Any, hugging_face: Any) -> None:
    offered()
    hugging_face.change(REPO, {"measurements/other/train-00000-of-00001.parquet": b"PAR1"}, message="more")

    found = fetch_compared("hf-hub:acme/data", ["*"])

    assert found is not None
    assert DataFolder.open(found).device_ids() == []


def test_a_device_that_the_hub_lacks_leaves_the_tables(offered: Any) -> None:
    found = fetch_compared("hf-hub:acme/data@main", ["nvidia-h200"])

    assert found is not None
    assert DataFolder.open(found).device_ids() == []
    assert DataFolder.open(found).devices().num_rows == 1


def test_an_empty_dataset_holds_nothing(hugging_face: Any) -> None:
    hugging_face.commit(REPO, {"README.md": b"x"})

    assert fetch_compared("hf-hub:acme/data", ["x"]) is None


def test_a_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    assert fetch_compared(str(tmp_path), []) == tmp_path
    assert fetch_compared(f"local-dir:{tmp_path}", []) == tmp_path


@pytest.mark.parametrize("against", ["nvidia-h200", "hf-hub:acme/nothing", "hf-hub:x", "hf-hub:acme/data@v9"])
def test_a_dataset_that_is_missing_is_a_sentence(against: str, offered: Any) -> None:
    with pytest.raises(CosthubError):
        fetch_compared(against, [])


def test_it_is_fetched_as_plain_files_at_the_commit_that_was_seen(
    offered: Any, hugging_face: Any, tmp_path: Path
) -> None:
    address = offered()
    pull = find_pull_request(address)
    assert pull is not None
    hugging_face.change(REPO, {pull.paths[0]: b"pushed later"}, ref="refs/pr/1", message="swap")

    folder = pull.fetch(tmp_path / "place")

    assert pull.address == address
    assert DataFolder.open(folder).measurements().num_rows > 40
    assert not any(path.is_symlink() for path in folder.rglob("*"))


def test_the_page_of_a_pull_request_names_it(offered: Any, hugging_face: Any) -> None:
    offered()

    pull = find_pull_request(f"{hugging_face.url}/{REPO}/discussions/1")

    assert pull is not None
    assert (pull.repo.name, pull.repo.kind, pull.number) == ("acme/data", "dataset", 1)


def test_a_path_names_none() -> None:
    assert find_pull_request("measurements/") is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("hf-hub:acme/data", "does not name a pull request"),
        ("hf-hub:acme/data@refs/pr/0", "does not name a pull request"),
        ("https://example.org/x", "does not name a pull request"),
        ("https://example.org/datasets/acme/data/discussions/1", "is not at"),
        ("hf-hub:acme/data@refs/pr/9", "has no pull request 9"),
        ("hf-hub:acme/nothing@refs/pr/1", "does not exist"),
    ],
)
def test_what_there_is_not_is_a_sentence(text: str, sentence: str, offered: Any) -> None:
    with pytest.raises((AddressError, HubError), match=sentence):
        find_pull_request(text)


STRANGE: dict[str, tuple[dict[str, bytes], str]] = {
    "code": ({"contributions/{id}/run.py": b"boom"}, "a contribution has shards only"),
    "a pickle": ({"contributions/{id}/devices/x.pkl": b"\x80\x04."}, "a contribution has shards only"),
    "a page": ({"contributions/{id}/README.md": b"<script>"}, "a contribution has shards only"),
    "a way out": ({"contributions/{id}/measurements/../../x.parquet": b"x"}, "has shards only"),
    "a hidden device": (
        {"contributions/{id}/measurements/.git/train-00000-of-00001.parquet": b"x"},
        "has shards only",
    ),
    "a second contribution": (
        {"contributions/0123456789abcdef/devices/train-00000-of-00001.parquet": b"x"},
        "holds 2 contributions",
    ),
}


@pytest.mark.parametrize("kind", STRANGE)
def test_what_is_no_shard_is_refused_before_it_is_fetched(kind: str, offered: Any, hugging_face: Any) -> None:
    pull = find_pull_request(offered())
    assert pull is not None
    files, sentence = STRANGE[kind]
    added = {path.format(id=pull.contribution): content for path, content in files.items()}
    hugging_face.change(REPO, added, ref="refs/pr/1", message="more")
    hugging_face.requests.clear()

    with pytest.raises(RefusedError, match=sentence):
        find_pull_request(pull.address)
    assert [r for r in hugging_face.requests if "/resolve/" in r] == []


def test_nothing_but_pages_is_no_contribution(offered: Any, hugging_face: Any) -> None:
    hugging_face.commit(REPO, {**hugging_face.files(REPO), "x.html": b"spam"}, ref="refs/pr/1")
    offered()
    hugging_face.commit(REPO, {**hugging_face.files(REPO), "x.html": b"spam"}, ref="refs/pr/1")

    with pytest.raises(RefusedError, match="holds 0 contributions"):
        find_pull_request("hf-hub:acme/data@refs/pr/1")


def test_what_is_too_large_is_refused_by_what_the_hub_says(
    offered: Any, hugging_face: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = offered()
    hugging_face.requests.clear()
    monkeypatch.setattr(fetch, "MAX_TOTAL_BYTES", 1000)

    with pytest.raises(RefusedError, match="Ask for smaller ones"):
        find_pull_request(address)
    assert [r for r in hugging_face.requests if "/resolve/" in r] == []


def test_a_changed_contribution_has_another_name(offered: Any, hugging_face: Any, tmp_path: Path) -> None:
    pull = find_pull_request(offered())
    assert pull is not None
    hugging_face.change(REPO, {pull.paths[-1]: b"PAR1 else"}, ref="refs/pr/1", message="swap")

    again = find_pull_request(pull.address)
    assert again is not None
    with pytest.raises(RefusedError, match="was changed after `costhub contribute` created it"):
        again.fetch(tmp_path / "place")


def test_of_a_model_all_files_are_fetched(sound_model: Any, hugging_face: Any, tmp_path: Path) -> None:
    from huggingface_hub import HfApi

    hugging_face.commit("acme/one", {".gitattributes": b"x"})
    HfApi(endpoint=hugging_face.url).upload_folder(repo_id="acme/one", folder_path=sound_model("gbt"), create_pr=True)

    pull = find_pull_request("hf-hub:acme/one@refs/pr/1")

    assert pull is not None
    assert {path.name for path in pull.fetch(tmp_path / "place").iterdir()} == {
        *("README.md", "config.json", "evaluation.json", "evaluation.png", "model.ubj")
    }


@pytest.mark.parametrize("path", ["pytorch_model.bin", "setup.sh", ".ssh/x.json", "a/b/c/d/e/f.md"])
def test_a_pull_request_with_what_no_model_has_is_refused(path: str, hugging_face: Any) -> None:
    hugging_face.commit("acme/one", {".gitattributes": b"x", "LICENSE": b"of people"})
    files = {".gitattributes": b"y", "LICENSE": b"of people", "config.json": b"{}"}
    hugging_face.commit("acme/one", files, ref="refs/pr/1")
    assert find_pull_request("hf-hub:acme/one@refs/pr/1") is not None
    hugging_face.commit("acme/one", {**files, path: b"boom"}, ref="refs/pr/1")

    with pytest.raises(RefusedError, match=r"no model file has|a model folder has"):
        find_pull_request("hf-hub:acme/one@refs/pr/1")


def test_a_name_that_is_a_pattern_is_fetched_too(hugging_face: Any, tmp_path: Path) -> None:
    hugging_face.commit("acme/one", {".gitattributes": b"x"})
    hugging_face.commit("acme/one", {"config.json": b"{}", "[x]evil.md": b"boom"}, ref="refs/pr/1")
    pull = find_pull_request("hf-hub:acme/one@refs/pr/1")
    assert pull is not None

    assert {path.name for path in pull.fetch(tmp_path / "place").iterdir()} == {"config.json", "[x]evil.md"}


@pytest.mark.slow
def test_what_lies_outside_the_contribution_is_refused_or_told(offered: Any, hugging_face: Any) -> None:
    address = offered()
    hugging_face.change(REPO, {"README.md": b"changed"}, ref="refs/pr/1", message="card")
    pull = find_pull_request(address)
    assert pull is not None
    assert pull.beside == ["README.md"]
    reasons = review(address, deep=False).verdict.reasons
    assert [r.weight for r in reasons if "README.md" in r.what] == ["look"]

    hugging_face.change(REPO, {"loader.py": b"boom"}, ref="refs/pr/1", message="code")
    with pytest.raises(RefusedError, match=r"also holds loader\.py"):
        find_pull_request(address)


def test_a_fetch_that_fails_is_a_sentence(offered: Any, hugging_face: Any, tmp_path: Path) -> None:
    pull = find_pull_request(offered())
    assert pull is not None
    hugging_face.fail_after = 0

    with pytest.raises(CosthubError, match="acme/data"):
        pull.fetch(tmp_path / "place")


def test_an_answer_that_makes_no_sense_is_a_sentence(
    offered: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    def fail(*_: Any, **__: Any) -> None:
        raise KeyError("siblings")

    pull = find_pull_request(offered())
    assert pull is not None
    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)

    with pytest.raises(HubError, match=r"^hf-hub:acme/data got an answer that no Hugging Face hub gives"):
        pull.fetch(tmp_path / "place")
    with pytest.raises(HubError, match=r"^hf-hub:acme/data got an answer that no Hugging Face hub gives"):
        fetch_compared("hf-hub:acme/data", ["amd-epyc-zen5-1c"])


def test_the_title_of_a_pull_request_is_asked_for_once(
    offered: Any, hugging_face: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import HfApi

    address = offered()
    HfApi(endpoint=hugging_face.url).merge_pull_request("acme/data", 1, repo_type="dataset")
    asked, title_of = [], RemoteRepo.title_of
    monkeypatch.setattr(RemoteRepo, "title_of", lambda self, number: asked.append(number) or title_of(self, number))

    pull = find_pull_request(address)

    assert pull is not None
    assert len(pull.paths) > 1
    assert asked == [1]
