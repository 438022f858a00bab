"""Provides holding: a data folder with what a hub holds of some devices, on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from costhub.errors import HubError
from costhub.hub.address import AddressError, parse_address
from costhub.hub.hugging_face import sentences, xet_errors
from costhub.hub.remote_repo import RemoteRepo


def holding(against: str, device_ids: Sequence[str]) -> Path | None:
    """What a hub holds of some devices, and its tables of devices and workloads.

    Args:
        against: `hf-hub:ORG/NAME`, with @REVISION to look at another version, or a data folder.
        device_ids: The devices that matter; no shard of another one is fetched.

    Returns:
        A data folder; None where the dataset is empty.

    Raises:
        AddressError: `against` is neither.
        HubError: The hub cannot be reached, or has no such dataset.
    """
    if Path(against).is_dir():
        return Path(against)
    address = parse_address(against)
    if address.source == "local-dir":
        return Path(address.name)
    if address.source == "index":
        raise AddressError(
            f"{against!r} is no dataset to compare with. Write hf-hub:ORG/NAME, or a data folder."
        )
    return fetch_tables(RemoteRepo(address.name, "dataset"), address.revision or "main", device_ids)


def fetch_tables(repo: RemoteRepo, revision: str, device_ids: Sequence[str]) -> Path | None:
    """Downloads the tables of a dataset and the shards of some devices into the cache of the client.

    Returns:
        A data folder, to read from only; None where the dataset has no shard of a table yet.

    Raises:
        HubError: The hub cannot be reached, or has no such dataset or revision.
    """
    from huggingface_hub import snapshot_download

    head = repo.head(revision)
    if head is None:
        raise HubError(f"hf-hub:{repo.name} does not exist, or you may not read it. Check its name.")
    wanted = [
        "devices/train-*",
        "workloads/train-*",
        *(f"measurements/{name}/train-*" for name in device_ids),
    ]
    if not any(path.startswith(("devices/", "workloads/", "measurements/")) for path in head.files):
        return None
    with sentences(repo.name, head.commit, HubError), xet_errors():
        folder = Path(
            snapshot_download(
                repo.name,
                repo_type="dataset",
                revision=head.commit,
                allow_patterns=wanted,
                library_name="costhub",
            )
        )
    (folder / "measurements").mkdir(exist_ok=True)
    return folder
