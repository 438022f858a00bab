"""Provides load_measurements and iter_measurements: from a folder, a hub on this machine, or Hugging Face."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from costhub.dataset import load
from costhub.dataset.load import Format, Names
from costhub.dataset.remote import FileSystem
from costhub.dataset.shards.shard import ROW_GROUP_ROWS
from costhub.errors import AmbiguousNameError, CosthubError, DataError, UnknownNameError
from costhub.hub.catalogue.hubs import dataset_folders
from costhub.hub.catalogue.names import LISTING, resolve_device
from costhub.hub.remote.address import Address, AddressError, parse_address
from costhub.hub.remote.hugging_face import readable_errors
from costhub.names import close_names

SHARD_PATTERNS = ["*/train-*.parquet"]
"""Everything of a dataset that is read; other files of a repository are never fetched."""


@dataclass(frozen=True)
class DataAddress:
    """Where a data folder is."""

    path: str
    filesystem: FileSystem | None = None
    """What `path` is on; None for this machine."""
    device_id: str | None = None
    """The device that the address names; None if it names a folder, with all its devices."""


@contextlib.contextmanager
def locate_data(where: str | Path) -> Iterator[DataAddress]:
    """Finds the data folder that `where` stands for; what its hub raises in the block becomes a sentence.

    Args:
        where: A path, the name of a dataset or device in the hubs on this machine, `local-dir:/PATH` or
            `hf-hub:ORG/NAME@REVISION`.

    Raises:
        CosthubError: One of its kinds: not an address, no such dataset, a hub that cannot be reached.

    Example:
        >>> with locate_data("local-dir:/data/boards") as place:
        ...     place.path
        '/data/boards'
    """
    address = DataAddress(str(where)) if isinstance(where, Path) else _parsed(where)
    if isinstance(address, DataAddress):
        yield address
        return
    with readable_errors(address.name, address.revision, DataError):
        yield _on_hugging_face(address)


def _parsed(text: str) -> DataAddress | Address:
    """A folder on this machine, or an address on the Hugging Face hub."""
    try:
        address = parse_address(text)
        if address.source == "index":
            return _in_local_hub(address)
    except CosthubError:
        # A bare word is a name first; a data folder of that name in the working directory comes second.
        if (Path(text) / "measurements").is_dir():
            return DataAddress(text)
        raise
    return DataAddress(address.name) if address.source == "local-dir" else address


def _in_local_hub(address: Address) -> DataAddress:
    name = address.name
    if address.revision is not None:
        raise AddressError(
            f"{address} names a revision, which datasets have on the Hugging Face hub only. Write {name}, or "
            f"hf-hub:ORG/NAME@{address.revision}."
        )
    datasets = dataset_folders()
    fitting = [full for full in datasets if name in (full, full.split("/")[1])]
    device_id = None if fitting else _device(name, datasets)
    if device_id is not None:
        fitting = [full for full, folder in datasets.items() if (folder / "measurements" / device_id).is_dir()]
    if len(fitting) > 1:
        raise AmbiguousNameError("dataset", name, fitting)
    if not fitting:
        raise DataError(f"No hub on this machine has measurements of {name}; {LISTING} lists what there is for each.")
    return DataAddress(str(datasets[fitting[0]]), device_id=device_id)


def _device(name: str, datasets: dict[str, Path]) -> str:
    try:
        return resolve_device(name).device_id
    except UnknownNameError:
        close = close_names(name, sorted({full.split("/")[1] for full in datasets}))
        raise UnknownNameError("dataset or device", name, close, LISTING) from None


def _on_hugging_face(address: Address) -> DataAddress:
    # Imported here: it costs a quarter of a second, which reading a folder need not pay.
    from huggingface_hub import HfApi, HfFileSystem

    api = HfApi(library_name="costhub")
    # Once: a push between two reads must not mix two versions.
    commit = api.resolve_revision(address.name, repo_type="dataset", revision=address.revision).resolved
    cached = _cached(address.name, commit)
    if cached is not None:
        return DataAddress(cached)
    return DataAddress(f"datasets/{address.name}@{commit}", HfFileSystem(endpoint=api.endpoint))


def _cached(repo: str, commit: str) -> str | None:
    """The folder of a dataset that was downloaded in full, with `hf download` for example."""
    from huggingface_hub import errors, get_cached_repo_tree, snapshot_download

    try:
        # Without the list of its files nobody can tell whether a folder in the cache is complete.
        get_cached_repo_tree(repo, repo_type="dataset", revision=commit)
        return snapshot_download(
            repo, repo_type="dataset", revision=commit, allow_patterns=SHARD_PATTERNS, local_files_only=True
        )
    except (errors.CachedRepoTreeNotFoundError, errors.LocalEntryNotFoundError):
        return None


def load_measurements(
    where: str | Path,
    *,
    device: Names | None = None,
    workload: Names | None = None,
    operator: Names | None = None,
    status: Names | None = None,
    columns: Sequence[str] | None = None,
    format: Format = "arrow",
) -> Any:
    """Reads the measurements that match, and no other parts of the files.

    Args:
        where: A data folder: a path, the name of a dataset or device in the hubs on this machine,
            `local-dir:/PATH` or `hf-hub:ORG/NAME@REVISION`.
        device: Device ids to keep; by default the one that `where` names, or all of a folder or dataset.
        workload: Ids or names of workloads to keep; all by default.
        operator: Operator families to keep; all by default.
        status: Statuses to keep; all by default.
        columns: Columns to read; all by default.
        format: `arrow` for a table, `pandas` for a data frame, `datasets` for a `datasets.Dataset`.

    Returns:
        One row per measurement, with the columns of `dataset.schema.MEASUREMENTS`, in the type of `format`.

    Raises:
        CosthubError: One of its subclasses: the data, a name or a column does not exist, the hub cannot be
            reached, a file is damaged, or a package is not installed.

    Example:
        >>> load_measurements("amd-epyc-zen5-2c", status="ok", columns=["run_s"]).num_rows > 1000
        True
    """
    with locate_data(where) as place:
        return load.load_measurements(
            place.path,
            device=place.device_id if device is None else device,
            workload=workload,
            operator=operator,
            status=status,
            columns=columns,
            format=format,
            filesystem=place.filesystem,
        )


def iter_measurements(
    where: str | Path,
    *,
    device: Names | None = None,
    workload: Names | None = None,
    operator: Names | None = None,
    status: Names | None = None,
    columns: Sequence[str] | None = None,
    batch_rows: int = ROW_GROUP_ROWS,
) -> Iterator[pa.RecordBatch]:
    """Reads the rows of `load_measurements` in batches, in memory that does not grow with the data.

    From the Hugging Face hub it fetches the footers of the shards and, from the row groups that match, only the
    requested columns; it keeps nothing on disk.

    Args:
        where: As for `load_measurements`.
        device: Device ids to keep; by default the one that `where` names, or all of a folder or dataset.
        workload: Ids or names of workloads to keep; all by default.
        operator: Operator families to keep; all by default.
        status: Statuses to keep; all by default.
        columns: Columns to read; all by default.
        batch_rows: Rows of a batch, at most.

    Raises:
        CosthubError: As `load_measurements`.

    Example:
        >>> batches = iter_measurements("amd-epyc-zen5-2c", columns=["run_s"], batch_rows=500)
        >>> max(batch.num_rows for batch in batches)
        500
    """
    with locate_data(where) as place:
        yield from load.iter_measurements(
            place.path,
            device=place.device_id if device is None else device,
            workload=workload,
            operator=operator,
            status=status,
            columns=columns,
            batch_rows=batch_rows,
            filesystem=place.filesystem,
        )
