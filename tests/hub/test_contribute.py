from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from costhub.dataset.folder import DataFolder
from costhub.errors import ArgumentError, CosthubError, HubError, RefusedError
from costhub.hub import contribute as module
from costhub.hub.contribute import CONTRIBUTE_VARIABLE, Offer, contribute, contribution_id, describe
from costhub.hub.publish import publish
from costhub.hub.remote.address import AddressError

TO, REPO = "hf-hub:acme/data", "datasets/acme/data"


@pytest.fixture
def dataset(publish_rows: Any, hugging_face: Any) -> Any:
    """The server, with a dataset on it."""
    publish_rows()
    hugging_face.requests.clear()
    return hugging_face


def test_a_pull_request_is_opened_in_one_commit(measured: Any, tmp_path: Path, dataset: Any) -> None:
    offers: list[Offer] = []
    before = dict(dataset.files(REPO))

    done = contribute(
        measured(tmp_path / "mine", 100),
        TO,
        deep=False,
        agree=lambda offer: bool(offers.append(offer)) or True,
    )

    assert done is not None
    assert (done.url, done.pull_request, done.was_there) == (
        f"{dataset.url}/{REPO}/discussions/1",
        1,
        False,
    )
    assert dataset.files(REPO) == before
    added = set(dataset.files(REPO, "refs/pr/1")) - set(before)
    assert added == {f"contributions/{offers[0].contribution_id}/{path}" for path in offers[0].files}
    assert len([r for r in dataset.requests if "/commit/" in r]) == 1
    (pull,) = dataset.pulls[REPO]
    assert pull.title == f"Measurements of amd-epyc-zen5-1c: 40 rows [{offers[0].contribution_id}]"
    assert pull.description == describe(offers[0])
    assert "licence: CC-BY-4.0" in pull.description
    # The card of the folder, which people write, is not sent.
    assert not any("README" in path for path in offers[0].files)


def test_workloads_that_nobody_measured_are_not_sent(
    measured: Any, unchecked: None, tmp_path: Path, dataset: Any
) -> None:
    folder = DataFolder.open(measured(tmp_path / "mine", 100))
    [row, *_] = folder.workloads().to_pylist()
    before = folder.workloads().num_rows
    own = {**row, "workload_id": "f" * 64, "name": "secret", "networks": [{"name": "my-network", "weight": 1.0}]}
    folder.put_workloads([own])
    sent: list[tuple[Offer, set[str]]] = []

    def agree(offer: Offer) -> bool:
        sent.append((offer, {path for path in offer.files if path.startswith("workloads/")}))
        return True

    done = contribute(folder.path, TO, deep=False, agree=agree)

    assert done is not None
    [(offer, [path])] = [(offer, sorted(paths)) for offer, paths in sent]
    assert "my-network" not in offer.networks
    content = dataset.files(REPO, "refs/pr/1")[f"contributions/{offer.contribution_id}/{path}"]
    table = pq.read_table(pa.BufferReader(content))
    assert table.num_rows == before
    assert "secret" not in table["name"].to_pylist()
    assert folder.workloads().num_rows == before + 1  # the user's own folder stays as it is


def test_sending_it_again_finds_the_pull_request(measured: Any, unchecked: None, tmp_path: Path, dataset: Any) -> None:
    folder = measured(tmp_path / "mine", 100)
    first = contribute(folder, TO, deep=False, agree=True)

    again = contribute(folder, TO, deep=False, agree=lambda offer: False)

    assert first is not None
    assert again is not None
    assert (again.url, again.was_there) == (first.url, True)
    assert str(first) == repr(first) == f"Sent: {first.url}"
    assert str(again) == f"Already sent: {again.url}"
    assert len(dataset.pulls[REPO]) == 1


def test_one_that_was_merged_on_its_page_is_found_there(
    measured: Any, unchecked: None, tmp_path: Path, dataset: Any
) -> None:
    folder = measured(tmp_path / "mine", 100)
    first = contribute(folder, TO, deep=False, agree=True)
    dataset.commit(REPO, dict(dataset.files(REPO, "refs/pr/1")))
    dataset.pulls[REPO][0].status = "merged"

    again = contribute(folder, TO, deep=False, agree=True)

    assert first is not None
    assert again is not None
    assert (again.url, again.review_command) == (first.url, None)


def test_a_name_without_a_hub_is_refused(measured: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CONTRIBUTE_VARIABLE, raising=False)

    with pytest.raises(AddressError, match="give --to as well"):
        contribute(measured(tmp_path / "mine", 100), name="lab/x", agree=True, dry_run=True)


def test_an_answer_that_was_lost_is_looked_for(measured: Any, unchecked: None, tmp_path: Path, dataset: Any) -> None:
    dataset.faults.append(_fault("POST .*/commit/", after=True))

    done = contribute(measured(tmp_path / "mine", 100), TO, deep=False, agree=True)

    assert done is not None
    assert (done.pull_request, done.was_there) == (1, True)
    assert len(dataset.pulls[REPO]) == 1


def test_what_arrived_is_sent_though_the_hub_answers_no_more(
    measured: Any, unchecked: None, tmp_path: Path, dataset: Any
) -> None:
    def breaks() -> None:
        dataset.faults.append(_fault("GET .*/discussions", status=403, times=99))

    dataset.before_commit = breaks

    done = contribute(measured(tmp_path / "mine", 100), TO, deep=False, agree=True)

    assert done is not None
    assert (done.pull_request, done.was_there) == (1, False)


def test_the_later_of_two_equal_pull_requests_closes_itself(
    measured: Any, unchecked: None, tmp_path: Path, dataset: Any
) -> None:
    folder = measured(tmp_path / "mine", 100)
    # Another run of the same gets in after this one has looked.
    dataset.before_commit = lambda: contribute(folder, TO, deep=False, agree=True)

    done = contribute(folder, TO, deep=False, agree=True)

    assert done is not None
    assert (done.pull_request, done.was_there) == (1, True)
    assert [pull.status for pull in dataset.pulls[REPO]] == ["open", "closed"]
    assert dataset.pulls[REPO][1].comments == [f"The same measurements are already in {done.url}."]


def test_a_connection_that_is_cut_is_a_sentence_and_the_next_run_goes_on(
    measured: Any, unchecked: None, tmp_path: Path, dataset: Any
) -> None:
    folder = measured(tmp_path / "mine", 100)
    dataset.faults.append(_fault("POST .*/commit/"))
    with pytest.raises(HubError, match="could not be reached"):
        contribute(folder, TO, deep=False, agree=True)
    sent = len([r for r in dataset.requests if r.startswith("PUT")])

    done = contribute(folder, TO, deep=False, agree=True)

    assert done is not None
    assert done.pull_request == 1
    # What had been stored is not sent again.
    assert len([r for r in dataset.requests if r.startswith("PUT")]) == sent > 0


def test_a_commit_of_somebody_else_is_no_obstacle(measured: Any, unchecked: None, tmp_path: Path, dataset: Any) -> None:
    dataset.before_commit = lambda: dataset.change(REPO, {"notes.md": b"x"}, message="quicker")

    done = contribute(measured(tmp_path / "mine", 100), TO, deep=False, agree=True)

    assert done is not None
    assert "notes.md" in dataset.files(REPO, "refs/pr/1")


def test_two_contributors_at_once_both_get_theirs(measured: Any, unchecked: None, tmp_path: Path, dataset: Any) -> None:
    folders = [measured(tmp_path / name, start) for name, start in (("one", 100), ("two", 200))]
    results: list[Any] = []

    def send(folder: Path) -> None:
        results.append(contribute(folder, TO, deep=False, agree=True))

    threads = [threading.Thread(target=send, args=[folder]) for folder in folders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(done.pull_request for done in results) == [1, 2]
    from huggingface_hub import HfApi

    for number in (1, 2):
        HfApi(endpoint=dataset.url).merge_pull_request("acme/data", number, repo_type="dataset")
    merged = {path.split("/")[1] for path in dataset.files(REPO) if path.startswith("contributions/")}
    assert merged == {done.offer.contribution_id for done in results}


def test_saying_no_sends_nothing(measured: Any, tmp_path: Path, dataset: Any) -> None:
    assert contribute(measured(tmp_path / "mine", 100), TO, deep=False, agree=lambda offer: False) is None
    assert [r for r in dataset.requests if r.startswith(("POST", "PUT"))] == []


def test_a_dry_run_sends_nothing_whoever_agrees(measured: Any, unchecked: None, tmp_path: Path, dataset: Any) -> None:
    offers: list[Offer] = []

    def agree(offer: Offer) -> bool:
        offers.append(offer)
        return True

    assert contribute(measured(tmp_path / "mine", 100), TO, deep=False, agree=agree, dry_run=True) is None
    assert (offers[0].to, offers[0].facts.total, offers[0].not_checked) == (TO, 40, "")
    assert [r for r in dataset.requests if r.startswith(("POST", "PUT"))] == []


@pytest.mark.parametrize(
    ("to", "open_"),
    [
        (None, "whether a dataset holds some of these rows already: none is named"),
        (TO, f"whether {TO} takes these rows, or holds some already. {TO} "),
    ],
)
def test_a_dry_run_needs_neither_a_network_nor_a_dataset(
    to: str | None, open_: str, measured: Any, tmp_path: Path, hugging_face: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    folder, offers = measured(tmp_path / "mine", 0, 10), list[Offer]()

    def look(offer: Offer) -> bool:
        offers.append(offer)
        return False

    assert contribute(folder, to, deep=False, agree=look, dry_run=True) is None
    assert (offers[0].to, offers[0].facts.total) == (to or "", 10)
    assert offers[0].not_checked.startswith(open_)
    assert "run the command again" not in offers[0].not_checked
    with pytest.raises((HubError, AddressError)):
        contribute(folder, to, deep=False, agree=look)


def test_a_dry_run_says_what_is_wrong_with_the_rows_and_the_address(measured: Any, tmp_path: Path) -> None:
    folder = DataFolder.open(measured(tmp_path / "mine", 0, 10))
    with pytest.raises(AddressError, match="after hf-hub: comes ORG/NAME"):
        contribute(folder.path, "hf-hub:acme", deep=False, agree=True, dry_run=True)

    row = folder.measurements().to_pylist()[-1]
    with folder.writer("amd-epyc-zen5-1c") as writer:
        writer.append({**row, "record_id": "new", "licence": None})
    with pytest.raises(RefusedError, match="CH048"):
        contribute(folder.path, deep=False, agree=True, dry_run=True)


def test_a_contributor_that_is_no_name_is_refused_before_the_check(
    measured: Any, tmp_path: Path, dataset: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "check_folder", lambda *_, **__: pytest.fail("it was checked"))
    folder = DataFolder.open(measured(tmp_path / "mine", 100))
    row = folder.measurements().to_pylist()[-1]
    with folder.writer("amd-epyc-zen5-1c") as writer:
        writer.append({**row, "record_id": "new", "contributor": "ada@example.org"})

    with pytest.raises(RefusedError, match=r"'ada@example.org' of the rows holds an e-mail address.* as --contributor"):
        contribute(folder.path, TO, agree=True)
    assert dataset.requests == []


def test_what_is_damaged_is_left_to_the_check(measured: Any, tmp_path: Path, dataset: Any) -> None:
    folder = measured(tmp_path / "mine", 100)
    shard = next(folder.glob("measurements/*/train-*"))
    shard.write_bytes(shard.read_bytes()[:-300] + bytes(300))

    with pytest.raises(RefusedError, match="`costhub check --strict` does not pass: CH00"):
        contribute(folder, TO, deep=False, agree=True)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"licence": None}, "CH048"),
        ({"licence": "LicenseRef-Secret"}, "CH048"),
        ({"error": "cannot open /home/ada/x", "status": "run_error", "run_s": []}, "CH050"),
        ({"session": "my-own-laptop"}, "a name of this machine or its user"),
        ({"run_s": [1e-12, 1e-12]}, "CH03"),
    ],
)
def test_what_a_review_would_refuse_is_not_sent(
    changes: dict[str, Any],
    sentence: str,
    measured: Any,
    tmp_path: Path,
    dataset: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("costhub.hub.staging.own_names", lambda: ("my-own-laptop",))
    folder = DataFolder.open(measured(tmp_path / "mine", 100))
    row = folder.measurements().to_pylist()[-1]
    row["run_s"] = [seconds * 1.001 for seconds in row["run_s"]]  # a copy would be refused as one
    with folder.writer("amd-epyc-zen5-1c") as writer:
        writer.append({**row, "record_id": "new", **changes})

    with pytest.raises(RefusedError, match=sentence):
        contribute(folder.path, TO, deep=False, agree=True)
    assert dataset.requests == []


def test_the_deep_rules_are_applied_too(measured: Any, tmp_path: Path, dataset: Any) -> None:
    assert contribute(measured(tmp_path / "mine", 100, 5), TO, agree=True) is not None


@pytest.mark.parametrize(
    ("to", "sentence"),
    [(None, "Name the dataset with --to"), ("hf-hub:acme/nothing", "does not exist, or you may not read it")],
)
def test_there_must_be_a_dataset(
    to: str | None, sentence: str, measured: Any, tmp_path: Path, hugging_face: Any
) -> None:
    with pytest.raises((AddressError, ArgumentError), match=sentence):
        contribute(measured(tmp_path / "mine", 0, 5), to, deep=False, agree=True)


@pytest.mark.slow
def test_the_environment_may_name_the_dataset(
    measured: Any, tmp_path: Path, dataset: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(module.CONTRIBUTE_VARIABLE, TO)

    assert contribute(measured(tmp_path / "mine", 100), deep=False, agree=True) is not None


def test_models_and_empty_folders_are_no_measurements(sound_model: Any, tmp_path: Path, dataset: Any) -> None:
    DataFolder.create(tmp_path / "empty")
    with pytest.raises(CosthubError, match="is a model"):
        contribute(sound_model("gbt"), TO, agree=True)
    with pytest.raises(CosthubError, match="no measurement"):
        contribute(tmp_path / "empty", TO, deep=False, agree=True)


@pytest.mark.slow
def test_a_shared_folder_takes_contributions_beside_its_tables(measured: Any, tmp_path: Path) -> None:
    (tmp_path / "hub").mkdir()
    publish(measured(tmp_path / "published"), str(tmp_path / "hub"), name="lab/data", agree=True)
    folder = measured(tmp_path / "mine", 100)

    done = contribute(folder, str(tmp_path / "hub"), name="lab/data", deep=False, agree=True)
    again = contribute(folder, str(tmp_path / "hub"), name="lab/data", deep=False, agree=True)

    assert done is not None
    assert again is not None
    place = tmp_path / "hub/datasets/lab/data"
    assert (done.was_there, again.was_there) == (False, True)
    inbox = f"{place}/contributions/{done.offer.contribution_id}"
    assert done.review_command == again.review_command == f"costhub review {inbox} --against {place} --merge"
    assert DataFolder.open(place).measurements().num_rows == 40
    assert DataFolder.open(place / "contributions" / done.offer.contribution_id).measurements().num_rows == 40


def test_a_folder_that_is_missing_is_said_before_the_check(
    measured: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hub").mkdir()
    monkeypatch.setattr(module, "check_folder", lambda *_, **__: pytest.fail("it was checked"))

    with pytest.raises(ArgumentError, match="`costhub publish` creates a new one"):
        contribute(measured(tmp_path / "mine"), str(tmp_path / "hub"), name="lab/data", agree=True)


def test_the_name_of_a_contribution_is_its_content() -> None:
    files = {"a": "1", "b": "2"}

    assert contribution_id(files) == contribution_id(dict(reversed(files.items())))
    assert contribution_id(files) != contribution_id({"a": "2", "b": "1"})


def _fault(request: str, **settings: Any) -> Any:
    import sys

    return sys.modules["loopback_hub"].Fault(request, **settings)


def test_without_consent_nothing_is_sent(measured: Any, unchecked: None, tmp_path: Path, dataset: Any) -> None:
    folder = measured(tmp_path / "mine", 100)
    answers: tuple[Any, ...] = (None, False, "no", 1)

    with pytest.raises(TypeError, match="agree"):
        contribute(folder, TO, deep=False)  # type: ignore[call-arg]
    for answer in answers:
        with pytest.raises(RefusedError, match="agree=True"):
            contribute(folder, TO, deep=False, agree=answer)
        assert contribute(folder, TO, deep=False, agree=lambda offer, answer=answer: answer) is None
    assert not dataset.pulls.get(REPO)
