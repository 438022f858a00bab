"""Finds the data folder that an address stands for: on this machine, in its hubs, or on Hugging Face."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from costhub.dataset.remote import FileSystem
from costhub.errors import AmbiguousNameError, CosthubError, DataError, UnknownNameError
from costhub.hub.address import Address, AddressError, parse_address
from costhub.hub.hugging_face import sentences
from costhub.hub.names import LISTING, resolve_device
from costhub.hub.shelf import dataset_folders
from costhub.names import close_names

PATTERNS = ["*/train-*.parquet"]
"""Everything of a dataset that is read; other files of a repository are never fetched."""


@dataclass(frozen=True)
class DataPlace:
    """Where a data folder is."""

    path: str
    filesystem: FileSystem | None = None
    """What `path` is on; None for this machine."""
    device_id: str | None = None
    """The device that was named; None where the folder itself was, with all its devices."""


@contextlib.contextmanager
def data_at(where: str | Path) -> Iterator[DataPlace]:
    """Finds the data folder that `where` stands for; what its hub raises in the block becomes a sentence.

    Args:
        where: A path, the name of a dataset or device in the hubs on this machine, `local-dir:/PATH` or
            `hf-hub:ORG/NAME@REVISION`.

    Raises:
        CosthubError: One of its kinds: not an address, no such dataset, a hub that cannot be reached.

    Example:
        >>> with data_at("local-dir:/data/boards") as place:
        ...     place.path
        '/data/boards'
    """
    found = DataPlace(str(where)) if isinstance(where, Path) else _found(where)
    if isinstance(found, DataPlace):
        yield found
        return
    with sentences(found.name, found.revision, DataError):
        yield _on_hugging_face(found)


def _found(text: str) -> DataPlace | Address:
    """A folder on this machine, or an address on the Hugging Face hub."""
    try:
        address = parse_address(text)
        if address.source == "index":
            return _in_a_hub(address)
    except CosthubError:
        # A bare word is a name first; a data folder of that name in the working directory comes second.
        if (Path(text) / "measurements").is_dir():
            return DataPlace(text)
        raise
    return DataPlace(address.name) if address.source == "local-dir" else address


def _in_a_hub(address: Address) -> DataPlace:
    name = address.name
    if address.revision is not None:
        raise AddressError(
            f"{address} names a revision, which datasets have on the Hugging Face hub only. Write {name}, or "
            f"hf-hub:ORG/NAME@{address.revision}."
        )
    known = dataset_folders()
    fitting = [full for full in known if name in (full, full.split("/")[1])]
    device_id = None if fitting else _device(name, known)
    if device_id is not None:
        fitting = [full for full, folder in known.items() if (folder / "measurements" / device_id).is_dir()]
    if len(fitting) > 1:
        raise AmbiguousNameError("dataset", name, fitting)
    if not fitting:
        raise DataError(
            f"No hub on this machine has measurements of {name}; {LISTING} lists what there is for each."
        )
    return DataPlace(str(known[fitting[0]]), device_id=device_id)


def _device(name: str, known: dict[str, Path]) -> str:
    try:
        return resolve_device(name).device_id
    except UnknownNameError:
        close = close_names(name, sorted({full.split("/")[1] for full in known}))
        raise UnknownNameError("dataset or device", name, close, LISTING) from None


def _on_hugging_face(address: Address) -> DataPlace:
    # Imported here: it costs a quarter of a second, which reading a folder need not pay.
    from huggingface_hub import HfApi, HfFileSystem

    api = HfApi(library_name="costhub")
    # Once: a push between two reads must not mix two versions.
    commit = api.resolve_revision(address.name, repo_type="dataset", revision=address.revision).resolved
    cached = _cached(address.name, commit)
    if cached is not None:
        return DataPlace(cached)
    return DataPlace(f"datasets/{address.name}@{commit}", HfFileSystem(endpoint=api.endpoint))


def _cached(repo: str, commit: str) -> str | None:
    """The folder of a dataset that was downloaded in full, with `hf download` for example."""
    from huggingface_hub import errors, get_cached_repo_tree, snapshot_download

    try:
        # Without the list of its files nobody can tell whether a folder in the cache is complete.
        get_cached_repo_tree(repo, repo_type="dataset", revision=commit)
        return snapshot_download(
            repo, repo_type="dataset", revision=commit, allow_patterns=PATTERNS, local_files_only=True
        )
    except (errors.CachedRepoTreeNotFoundError, errors.LocalEntryNotFoundError):
        return None
