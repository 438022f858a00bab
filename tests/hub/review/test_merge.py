from __future__ import annotations

import hashlib
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.check.folder import check_folder
from costhub.dataset.folder import DataFolder
from costhub.dataset.shards.lock import FolderLock
from costhub.errors import DataError, HubError
from costhub.hub.data import load_measurements
from costhub.hub.review import merge as module
from costhub.hub.review.fetch import find_pull_request
from costhub.hub.review.merge import merge_into, merge_pull_request

REPO = "datasets/acme/data"


def shards(folder: Path) -> list[str]:
    return [hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.glob("measurements/*/*.parquet"))]


def test_rows_are_added_and_old_shards_keep_every_byte(measured: Any, tmp_path: Path) -> None:
    hub, new = measured(tmp_path / "hub", 0, 40), measured(tmp_path / "new", 30, 30)
    before = shards(hub)

    assert merge_into(new, hub) == 20
    assert merge_into(new, hub) == 0

    assert shards(hub)[0] == before[0]
    assert len(shards(hub)) == 2
    assert DataFolder.open(hub).measurements().num_rows == 60
    assert check_folder(hub, progress=False) == []


def test_a_folder_that_is_new_gets_all(measured: Any, tmp_path: Path) -> None:
    new = measured(tmp_path / "new", 0, 10)

    assert merge_into(new, tmp_path / "made") == 10
    assert DataFolder.open(tmp_path / "made").devices().equals(DataFolder.open(new).devices())


def test_another_workload_of_the_same_name_gets_a_name_of_its_own(measured: Any, tmp_path: Path) -> None:
    hub, new = measured(tmp_path / "hub", 0, 10), measured(tmp_path / "new", 1000, 400)
    held = DataFolder.open(hub).workloads(["workload_id", "name"]).to_pylist()
    folder = DataFolder.open(new)
    other = next(
        row for row in folder.workloads().to_pylist() if row["workload_id"] not in {w["workload_id"] for w in held}
    )
    folder.put_workloads([{**other, "name": held[0]["name"]}])

    merge_into(new, hub)

    names = {row["workload_id"]: row["name"] for row in DataFolder.open(hub).workloads().to_pylist()}
    assert names[held[0]["workload_id"]] == held[0]["name"]
    assert names[other["workload_id"]] == f"{held[0]['name']}_2"
    assert len(set(names.values())) == len(names)


def test_what_the_hub_says_of_a_device_stays(measured: Any, tmp_path: Path) -> None:
    hub, new = measured(tmp_path / "hub", 0, 10), measured(tmp_path / "new", 20, 10)
    folder = DataFolder.open(new)
    folder.put_device({**folder.devices().to_pylist()[0], "model_name": "another"})

    merge_into(new, hub)

    assert DataFolder.open(hub).devices()["model_name"].to_pylist() != ["another"]


def test_nobody_replaces_the_folder_while_rows_are_added(
    measured: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub, new = measured(tmp_path / "hub", 0, 10), measured(tmp_path / "new", 20, 10)
    held = []

    def describe(*_: Any) -> None:
        with pytest.raises(DataError, match="written by another process"):
            FolderLock(hub / "measurements")
        held.append(True)

    monkeypatch.setattr(module, "_describe", describe)
    merge_into(new, hub)
    assert held == [True]
    assert check_folder(hub, progress=False) == []


def test_a_pull_request_becomes_one_commit_and_is_closed(offered: Any, hugging_face: Any, tmp_path: Path) -> None:
    pull = find_pull_request(offered())
    assert pull is not None
    folder = pull.fetch(tmp_path / "place")
    hugging_face.requests.clear()
    held = load_measurements("hf-hub:acme/data", columns=["record_id"]).num_rows

    done = merge_pull_request(pull, folder)

    files = hugging_face.files(REPO)
    assert done.commit == hugging_face.refs[REPO]["main"]
    assert not any(path.startswith("contributions/") for path in files)
    assert sorted(path for path in files if path.startswith("measurements/")) == [
        f"measurements/amd-epyc-zen5-1c/train-0000{n}-of-00002.parquet" for n in (0, 1)
    ]
    # The old shard has a new name, and the new one was stored with the pull request: no byte is sent.
    assert [r for r in hugging_face.requests if r.startswith("PUT /lfs/")] == []
    total = load_measurements("hf-hub:acme/data", columns=["record_id"]).num_rows
    assert total == held + DataFolder.open(folder).measurements().num_rows
    (request,) = hugging_face.pulls[REPO]
    assert (request.status, done.commit in request.comments[0]) == ("closed", True)


def test_a_shard_of_another_name_is_not_removed_unread(offered: Any, hugging_face: Any, tmp_path: Path) -> None:
    pull = find_pull_request(offered())
    assert pull is not None
    (shard,) = [path for path in hugging_face.files(REPO) if re.fullmatch(r"measurements/[^/]+/train-.*", path)][:1]
    extra = f"{shard.rpartition('/')[0]}/train-extra.parquet"
    hugging_face.commit(REPO, {extra: hugging_face.files(REPO)[shard]})

    with pytest.raises(HubError, match=r"train-extra\.parquet, which is not named as a shard"):
        merge_pull_request(pull, pull.fetch(tmp_path / "files"))
    assert extra in hugging_face.files(REPO)


def test_a_merge_says_for_whom_it_waits(measured: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    held, new = measured(tmp_path / "held", session=0), measured(tmp_path / "new", session=1)
    device = DataFolder.open(new).device_ids()[0]
    with ThreadPoolExecutor(1) as thread:
        with FolderLock(held / "measurements" / device):
            merging = thread.submit(merge_into, new, held)
            for _ in range(2000):
                if caplog.records or merging.done():
                    break
                time.sleep(0.01)
            assert not merging.done()
        assert merging.result() > 0
    assert (
        f"Another process is writing to {held / 'measurements' / device}: waiting until it has finished." in caplog.text
    )


def test_one_that_was_merged_on_its_page_goes_into_the_tables_too(
    offered: Any, hugging_face: Any, tmp_path: Path
) -> None:
    from huggingface_hub import HfApi

    address = offered()
    HfApi(endpoint=hugging_face.url).merge_pull_request("acme/data", 1, repo_type="dataset")
    hugging_face.change(REPO, {"measurements/amd-epyc-zen5-1c/notes.txt": b"of people"}, message="notes")
    before = load_measurements("hf-hub:acme/data", columns=["record_id"]).num_rows
    pull = find_pull_request(address)
    assert pull is not None

    merge_pull_request(pull, pull.fetch(tmp_path / "place"))

    assert load_measurements("hf-hub:acme/data", columns=["record_id"]).num_rows > before
    assert not any(path.startswith("contributions/") for path in hugging_face.files(REPO))
    assert "measurements/amd-epyc-zen5-1c/notes.txt" in hugging_face.files(REPO)


def test_one_that_cannot_be_closed_is_said_to_be_merged(offered: Any, hugging_face: Any, tmp_path: Path) -> None:
    import sys

    pull = find_pull_request(offered())
    assert pull is not None
    folder = pull.fetch(tmp_path / "place")
    hugging_face.faults.append(sys.modules["loopback_hub"].Fault("POST .*/status", status=500))

    with pytest.raises(HubError, match="is in the tables, with commit"):
        merge_pull_request(pull, folder)
    assert merge_pull_request(pull, folder).commit == hugging_face.refs[REPO]["main"]
    assert hugging_face.pulls[REPO][0].status == "closed"


def test_both_of_two_pull_requests_land(offered: Any, hugging_face: Any, tmp_path: Path) -> None:
    pulls = [find_pull_request(offered(f"m{start}", start=start)) for start in (5000, 6000)]
    folders = [pull.fetch(tmp_path / f"place{pull.number}") for pull in pulls if pull]
    first, second = (pull for pull in pulls if pull)
    # The second is merged while the commit of the first is under way.
    hugging_face.before_commit = lambda: _in_a_thread(lambda: merge_pull_request(second, folders[1]))

    merge_pull_request(first, folders[0])

    names = load_measurements("hf-hub:acme/data", columns=["record_id"])["record_id"].to_pylist()
    for folder in folders:
        assert set(DataFolder.open(folder).measurements()["record_id"].to_pylist()) <= set(names)
    assert len(names) == len(set(names))
    assert [pull.status for pull in hugging_face.pulls[REPO]] == ["closed", "closed"]


@pytest.mark.slow
def test_a_head_that_never_stands_still_ends_in_a_sentence(
    offered: Any, hugging_face: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    pull = find_pull_request(offered())
    assert pull is not None
    folder = pull.fetch(tmp_path / "place")
    monkeypatch.setattr("costhub.hub.remote.remote_repo.time.sleep", lambda seconds: None)
    hugging_face.faults.append(sys.modules["loopback_hub"].Fault("POST .*/commit/", status=412, times=99))

    with pytest.raises(HubError, match="changed by someone else"):
        merge_pull_request(pull, folder)
    assert hugging_face.pulls[REPO][0].status == "open"


def _in_a_thread(work: Any) -> None:
    import threading

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
