"""The lock file: what it pins, what moves under it, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from costhub.dataset.splits.split import list_splits
from costhub.errors import CosthubError
from costhub.hub import lock as module
from costhub.hub.catalogue.hubs import EMBEDDED, HUB_VARIABLE
from costhub.hub.dataset_documents import tables_hash
from costhub.hub.lock import (
    LockError,
    LockFileError,
    Pin,
    check_lock,
    find_locked,
    lock,
    pin_model,
    pull_locked,
    pull_locked_data,
    read_lock,
)
from costhub.hub.remote.manifest import read_manifest, write_manifest

H200 = EMBEDDED / "datasets/costhub/nvidia-h200"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "costhub.lock"


def weights(hub: Path) -> Path:
    return hub / "models" / "costhub" / "acme-one-gbt" / "model.safetensors"


def update(hub: Path) -> None:
    weights(hub).write_bytes(b"better weights")
    write_manifest(weights(hub).parent)


def test_a_lock_names_version_and_hash_and_agrees_with_itself(hub: Path, path: Path) -> None:
    (pin,) = lock(["acme-one"], path=path)

    assert (pin.kind, pin.name, pin.resolved, pin.commit) == ("model", "acme-one", "costhub/acme-one-gbt", None)
    assert pin.sha256 == read_manifest(weights(hub).parent).revision
    assert read_lock(path) == (pin,)
    assert check_lock(path) == []
    assert (pull_locked("acme-one", path=path) / "model.safetensors").read_bytes() == weights(hub).read_bytes()


def test_a_new_version_is_noticed_and_not_pulled_instead(hub: Path, path: Path) -> None:
    (pin,) = lock(["acme-one"], path=path)
    update(hub)

    (told,) = check_lock(path)
    assert told.startswith("The model acme-one ")
    assert pin.sha256[:12] in told or pin.resolved in told
    with pytest.raises(LockError, match=r"acme-one is not available as .* locks it: .*has the revision"):
        find_locked("acme-one", path=path)


def test_changed_bytes_under_the_same_manifest_are_noticed(hub: Path, path: Path) -> None:
    lock(["acme-one"], path=path)
    weights(hub).write_bytes(weights(hub).read_bytes()[:-1] + b"?")

    (told,) = check_lock(path)
    assert "is damaged or was changed" in told
    with pytest.raises(CosthubError, match="is damaged or was changed"):
        pull_locked("acme-one", path=path)


def test_a_name_that_stands_for_another_model_is_noticed(hub: Path, path: Path) -> None:
    lock(["acme-one"], path=path)
    shutil.rmtree(weights(hub).parent)

    (told,) = check_lock(path)
    assert told.startswith("The model acme-one stood for costhub/acme-one-gbt and now stands for costhub/acme-one-mlp.")


def test_names_add_up_and_no_name_takes_everything_over(hub: Path, path: Path) -> None:
    lock(["acme-one"], path=path)
    lock(["costhub/acme-one-mlp"], path=path)
    update(hub)

    assert [pin.name for pin in read_lock(path)] == ["acme-one", "costhub/acme-one-mlp"]
    assert len(check_lock(path)) == 1
    lock(path=path)
    assert check_lock(path) == []


def test_a_dataset_is_locked_by_all_of_its_shards(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Path(shutil.copytree(H200, tmp_path / "hub/datasets/lab/mine"))
    monkeypatch.setenv(HUB_VARIABLE, str(tmp_path / "hub"))
    (pin,) = lock(datasets=["lab/mine"], path=path)
    assert (pin.kind, pin.resolved) == ("dataset", "lab/mine")
    assert check_lock(path) == []

    next((mine / "workloads").iterdir()).unlink()

    (told,) = check_lock(path)
    assert told.startswith("The dataset lab/mine is another version: its sha256 is ")


def test_a_folder_is_not_locked(hub: Path, path: Path) -> None:
    with pytest.raises(LockError, match="is a folder, which other machines do not have"):
        lock([str(weights(hub).parent)], path=path)
    with pytest.raises(LockError, match="is a folder, which other machines do not have"):
        lock(datasets=[f"{H200}/"], path=path)
    assert not path.exists()


def test_without_a_file_or_a_name_it_says_what_to_do(path: Path) -> None:
    with pytest.raises(LockError, match=r"There is no .*`costhub lock NAME --file /.*costhub\.lock` writes one"):
        check_lock(path)
    with pytest.raises(LockError, match="There is nothing to lock"):
        lock(path=path)


def test_a_name_that_is_not_locked_is_refused(hub: Path, path: Path) -> None:
    lock(["acme-one"], path=path)

    with pytest.raises(LockError, match=r"does not lock the model other\. Add it with `costhub lock other --file /"):
        pull_locked("other", path=path)


PIN: dict[str, Any] = {"kind": "model", "name": "a", "resolved": "b/a", "sha256": "0" * 64}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"version": 1, "pins": 3}',
        json.dumps({"version": 1, "pins": [{**PIN, "sha256": "0"}]}),
        json.dumps({"version": 1, "pins": [{**PIN, "kind": "kernel"}]}),
        json.dumps({"version": 1, "pins": [{**PIN, "commit": "main"}]}),
        json.dumps({"version": 1, "pins": [{**PIN, "name": 7}]}),
        json.dumps({"version": 1, "pins": [{**PIN, "name": "\x1b]0;owned\x07x"}]}),
        json.dumps({"version": 1, "pins": [PIN, {**PIN, "resolved": "b/c"}]}),
        json.dumps({"version": 1, "pins": [PIN]}).replace('"b/a"', '"b/a", "resolved": "b/c"'),
        json.dumps({"version": 1, "pins": [{**PIN, "resolved": "/etc/passwd"}]}),
        json.dumps({"version": 1, "pins": [{**PIN, "resolved": "../../m"}]}),
        json.dumps({"version": 1, "pins": [{**PIN, "resolved": "hf-hub:b/a"}]}),
        "[" * 100_000,
    ],
)
def test_what_is_no_lock_file_is_refused(path: Path, content: str) -> None:
    path.write_text(content)

    with pytest.raises(LockError, match="is not a lock file of costhub"):
        read_lock(path)


def test_a_newer_lock_file_is_refused(path: Path) -> None:
    path.write_text('{"version": 2, "pins": []}')

    with pytest.raises(LockError, match="Update costhub"):
        read_lock(path)


def test_a_model_with_another_hash_than_the_locked_one_is_refused(hub: Path, path: Path) -> None:
    (pin,) = lock(["acme-one"], path=path)
    # The address holds the first digits only: two versions may share them.
    other = pin.sha256[:16] + "".join("1" if digit == "0" else "0" for digit in pin.sha256[16:])
    path.write_text(path.read_text().replace(pin.sha256, other))

    with pytest.raises(LockError, match=r"its content has changed\. Do not use it"):
        find_locked("acme-one", path=path)


def test_auto_is_not_locked() -> None:
    for call in (pin_model, find_locked):
        with pytest.raises(LockFileError, match="`auto` stands for another model on another machine"):
            call("auto")


def test_a_folder_beside_the_file_does_not_take_the_place_of_a_hub(
    hub: Path, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pin,) = lock(["acme-one"], path=path)
    folder = Path(shutil.copytree(weights(hub).parent, tmp_path / "local" / "m"))
    sha256 = read_manifest(folder).revision
    (tmp_path / f"local/m@{sha256[:16]}").symlink_to(folder)
    path.write_text(path.read_text().replace(pin.resolved, "local/m").replace(pin.sha256, sha256))
    monkeypatch.chdir(tmp_path)

    with pytest.raises(LockError, match="is a folder on this machine"):
        find_locked("acme-one", path=path)


def test_a_name_that_no_lock_file_can_hold_is_refused_before_it_is_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A device may have a plus sign in its name, and its models are named after it."""
    monkeypatch.setattr(module, "pin_model", lambda name: Pin("model", name, f"costhub/{name}-gbt", "0" * 64))

    with pytest.raises(LockFileError, match=r"costhub/acme\+one-gbt cannot be locked"):
        lock(["acme+one"], path=path)

    assert not path.exists()


def files_of(folder: Path) -> dict[str, bytes]:
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_dataset_on_the_hugging_face_hub_is_locked_at_its_commit_and_pulled_after_it_has_moved(
    hugging_face: Any, path: Path
) -> None:
    commit = hugging_face.commit("datasets/lab/data", files_of(H200))
    (pin,) = lock(datasets=["hf-hub:lab/data"], path=path)
    assert (pin.resolved, pin.commit, pin.sha256) == ("lab/data", commit, tables_hash(H200))
    assert check_lock(path) == []

    shard = next(name for name in files_of(H200) if name.startswith("workloads/"))
    now = hugging_face.change("datasets/lab/data", {shard: b"other"}, message="more")

    (told,) = check_lock(path)
    assert told.startswith("The dataset hf-hub:lab/data is another version: its sha256 is ")
    folder = pull_locked_data("hf-hub:lab/data", path=path)
    assert now not in str(folder)
    assert tables_hash(folder) == pin.sha256
    assert list_splits(folder) == list_splits(H200)


def test_a_locked_dataset_that_lies_in_the_cache_needs_no_hub(
    hugging_face: Any, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hugging_face.commit("datasets/lab/data", files_of(H200))
    lock(datasets=["hf-hub:lab/data"], path=path)
    folder = pull_locked_data("hf-hub:lab/data", path=path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)

    assert pull_locked_data("hf-hub:lab/data", path=path) == folder
    next((folder / "workloads").iterdir()).resolve().write_bytes(b"other")
    with pytest.raises(LockError, match="its content has changed"):
        pull_locked_data("hf-hub:lab/data", path=path)


def test_a_dataset_whose_commit_is_gone_or_has_another_hash_is_not_pulled(hugging_face: Any, path: Path) -> None:
    hugging_face.commit("datasets/lab/data", files_of(H200))
    (pin,) = lock(datasets=["hf-hub:lab/data"], path=path)
    text = path.read_text()

    path.write_text(text.replace(pin.sha256, "0" * 64))
    with pytest.raises(LockError, match="its content has changed"):
        pull_locked_data("hf-hub:lab/data", path=path)
    path.write_text(text.replace(str(pin.commit), "0" * 40))
    with pytest.raises(LockError, match="hf-hub:lab/data is not available as"):
        pull_locked_data("hf-hub:lab/data", path=path)


def test_a_dataset_of_a_hub_on_this_machine_is_verified_where_it_lies(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = Path(shutil.copytree(H200, tmp_path / "hub/datasets/lab/mine"))
    monkeypatch.setenv(HUB_VARIABLE, str(tmp_path / "hub"))
    lock(datasets=["lab/mine"], path=path)
    assert pull_locked_data("lab/mine", path=path) == mine

    shard = next((mine / "workloads").iterdir())
    shard.write_bytes(shard.read_bytes()[:-1] + b"?")
    with pytest.raises(LockError, match=r"lab/mine has the sha256 .* its content has changed"):
        pull_locked_data("lab/mine", path=path)
    with pytest.raises(
        LockFileError, match=r"does not lock the dataset other\. Add it with `costhub lock --data other"
    ):
        pull_locked_data("other", path=path)


def test_rows_in_a_journal_are_not_locked_as_no_hash_covers_them(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = Path(shutil.copytree(H200, tmp_path / "hub/datasets/lab/mine"))
    monkeypatch.setenv(HUB_VARIABLE, str(tmp_path / "hub"))
    journal = mine / "measurements/nvidia-h200/journal.jsonl"
    journal.write_bytes(b"")
    lock(datasets=["lab/mine"], path=path)
    journal.write_bytes(b"{}\n")

    with pytest.raises(LockError, match="holds rows that no shard has yet"):
        pull_locked_data("lab/mine", path=path)
    with pytest.raises(LockError, match="holds rows that no shard has yet"):
        lock(datasets=["lab/mine"], path=path)
    assert "holds rows that no shard has yet" in check_lock(path)[0]
