"""Provides data by name: reads measurements, programs and splits of a folder, or of a dataset or device in a hub."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from costhub.dataset import load
from costhub.dataset.blocks import BLOCK_PROGRAMS, ProgramBlocks
from costhub.dataset.features.specs import DEFAULT_SPEC
from costhub.dataset.folder import DataFolder, is_data_folder
from costhub.dataset.load import Format, Names
from costhub.dataset.programs import Programs
from costhub.dataset.remote import FileSystem
from costhub.dataset.shards.shard import ROW_GROUP_ROWS
from costhub.dataset.splits import split
from costhub.dataset.splits.split import Split
from costhub.errors import AmbiguousNameError, ArgumentError, DataError, UnknownNameError
from costhub.hub.catalogue.hubs import dataset_folders, folders_with, hubs_searched
from costhub.hub.catalogue.names import LISTING, parse_name, resolve_device
from costhub.hub.remote.address import Address, AddressError
from costhub.hub.remote.hugging_face import readable_errors
from costhub.hub.remote.watch import ANSWER_S, answered_within, sound_answers, watched
from costhub.names import close_names

SHARD_PATTERNS = ["*/train-*.parquet"]
"""All files of a dataset that are read; other files of a repository are never fetched."""


@dataclass(frozen=True)
class DataAddress:
    """Where a data folder is."""

    path: str
    filesystem: FileSystem | None = None
    """The file system that `path` is on; None for this machine."""
    device_id: str | None = None
    """The device named by the address; None if it names a folder with all its devices."""
    dataset: str | None = None
    """ORG/NAME of a dataset in a hub on this machine, whose files must not be changed; None for other folders."""

    @property
    def folder(self) -> Path:
        """The folder, for data on this machine."""
        return Path(self.path)


@contextlib.contextmanager
def locate_data(where: str | Path) -> Iterator[DataAddress]:
    """Finds the data folder that `where` refers to; hub errors in the block become readable messages.

    A data folder at the path `where` comes first, the names of datasets and devices second: `costhub/NAME` is the
    dataset in the hub, `./NAME` is always a folder.

    Args:
        where: A path, the name of a dataset or device in the hubs on this machine, `local-dir:/PATH` or
            `hf-hub:ORG/NAME@REVISION`.

    Raises:
        CosthubError: One of its subclasses: not an address, no such dataset, a hub that cannot be reached.

    Example:
        >>> with locate_data("local-dir:/data/boards") as place:
        ...     place.path
        '/data/boards'
    """
    address = _place(where)
    if isinstance(address, DataAddress):
        yield address
        return
    with (
        watched(address.name),
        sound_answers(f"hf-hub:{address.name}", DataError),
        readable_errors(address.name, address.revision, DataError),
    ):
        place = _on_hugging_face(address)
    # Around the block only what the client itself raises: errors of the caller are not answers of the hub.
    with readable_errors(address.name, address.revision, DataError), answered_within(ANSWER_S):
        yield place


def find_data(where: str | Path) -> DataAddress:
    """Finds a data folder on this machine, for callers that read more than tables: features, splits, rules.

    Args:
        where: As for `locate_data`, but not on the Hugging Face hub.

    Raises:
        CosthubError: One of its subclasses: no folder, dataset or device has that name, or it is not on this machine.

    Example:
        >>> found = find_data("intel-xeon-graniterapids-2c")
        >>> found.dataset, found.device_id, found.folder.name
        ('costhub/intel-xeon-graniterapids', 'intel-xeon-graniterapids-2c', 'intel-xeon-graniterapids')
    """
    address = _place(where)
    if isinstance(address, Address):
        name, revision = address.name, f" --revision {address.revision}" if address.revision else ""
        raise DataError(
            f"{address} is on the Hugging Face hub, but a folder on this machine is needed here. `hf download {name} "
            f"--repo-type dataset{revision} --local-dir {name.split('/')[1]}` fetches one."
        )
    DataFolder.open(address.path)
    return address


def _place(where: str | Path) -> DataAddress | Address:
    """A folder on this machine, or an address on the Hugging Face hub."""
    if isinstance(where, Path) or is_data_folder(where):
        return DataAddress(str(where))
    try:
        address = parse_name(where)
        if address.source == "index":
            return _in_local_hub(address)
    except (AddressError, UnknownNameError):
        if Path(where).exists():
            return DataAddress(where)  # the code that opens it reports what it is instead
        raise
    return DataAddress(address.name) if address.source == "local-dir" else address


def _in_local_hub(address: Address) -> DataAddress:
    name = address.name
    if address.revision is not None:
        raise AddressError(
            f"{address} names a revision, but only datasets on the Hugging Face hub have revisions. Write {name}, or "
            f"hf-hub:ORG/NAME@{address.revision}."
        )
    datasets = dataset_folders()
    fitting = [full for full in datasets if name in (full, full.split("/")[1])]
    device_id = None if fitting else _device(name, datasets)
    if device_id is not None:
        fitting = list(folders_with(device_id))
    if len(fitting) > 1:
        raise AmbiguousNameError("dataset", name, fitting)
    if not fitting:
        raise DataError(
            f"No hub on this machine has measurements of {name}; {LISTING} lists what there is for each. "
            f"{hubs_searched()}"
        )
    return DataAddress(str(datasets[fitting[0]]), device_id=device_id, dataset=fitting[0])


def _device(name: str, datasets: dict[str, Path]) -> str:
    try:
        return resolve_device(name).device_id
    except UnknownNameError:
        kind, close = "data folder, dataset or device", _close_to(name, datasets)
        raise UnknownNameError(kind, name, close, LISTING, advice=hubs_searched()) from None


def _close_to(name: str, datasets: dict[str, Path]) -> list[str]:
    """Similar names of datasets, of devices in them, and of data folders next to the expected path."""
    known = {full.split("/")[1] for full in datasets}
    for folder in datasets.values():
        known |= {path.name for path in (folder / "measurements").glob("*") if path.is_dir()}
    with contextlib.suppress(OSError):
        known |= {str(path) for path in Path(name).parent.iterdir() if is_data_folder(path)}
    return close_names(name, sorted(known))


def _on_hugging_face(address: Address) -> DataAddress:
    # Imported here: it takes a quarter of a second, which reading a folder should not cost.
    from huggingface_hub import HfApi, HfFileSystem

    api = HfApi(library_name="costhub")
    # Once: a push between two reads must not mix two versions.
    commit = api.resolve_revision(address.name, repo_type="dataset", revision=address.revision).resolved
    cached = cached_folder(address.name, commit)
    if cached is not None:
        return DataAddress(cached)
    return DataAddress(f"datasets/{address.name}@{commit}", HfFileSystem(endpoint=api.endpoint))


def cached_folder(repo: str, commit: str, patterns: Sequence[str] = SHARD_PATTERNS) -> str | None:
    """The folder of a dataset that was downloaded in full, with `hf download` for example; None if there is none.

    Args:
        repo: ORG/NAME.
        commit: Of the version.
        patterns: The files that it must have.
    """
    from huggingface_hub import errors, get_cached_repo_tree, snapshot_download

    try:
        # Without the list of its files it is impossible to tell whether a folder in the cache is complete.
        get_cached_repo_tree(repo, repo_type="dataset", revision=commit)
        return snapshot_download(
            repo, repo_type="dataset", revision=commit, allow_patterns=list(patterns), local_files_only=True
        )
    except (errors.CachedRepoTreeNotFoundError, errors.LocalEntryNotFoundError):
        return None


def load_measurements(
    where: str | Path,
    *,
    device: Names | None = None,
    workload: Names | None = None,
    workloads: Collection[str] | None = None,
    operator: Names | None = None,
    status: Names | None = None,
    columns: Sequence[str] | None = None,
    format: Format = "arrow",
) -> Any:
    """Reads only the matching measurements, and no other parts of the files.

    Args:
        where: A data folder: a path, the name of a dataset or device in the hubs on this machine,
            `local-dir:/PATH` or `hf-hub:ORG/NAME@REVISION`.
        device: Device ids to keep; by default the one named by `where`, or all of a folder or dataset.
        workload: Ids or names of workloads to keep; all by default.
        workloads: The same, by the name that it has in `load_programs`; a set will do.
        operator: Operator families to keep; all by default.
        status: Statuses to keep; all by default.
        columns: Columns to read; all by default.
        format: `arrow` for a table, `pandas` for a data frame, `datasets` for a `datasets.Dataset`.

    Returns:
        One row per measurement, with the columns of `dataset.schema.MEASUREMENTS`, as the type given by `format`.

    Raises:
        ArgumentError: Both `workload` and `workloads` are given.
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
            workload=_wanted(workload, workloads),
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
    workloads: Collection[str] | None = None,
    operator: Names | None = None,
    status: Names | None = None,
    columns: Sequence[str] | None = None,
    batch_rows: int = ROW_GROUP_ROWS,
) -> Iterator[pa.RecordBatch]:
    """Reads the rows of `load_measurements` in batches, with memory use that does not grow with the data.

    From the Hugging Face hub it fetches the footers of the shards and, from the row groups that match, only the
    requested columns; it keeps nothing on disk.

    Args:
        where: As for `load_measurements`.
        device: Device ids to keep; by default the one named by `where`, or all of a folder or dataset.
        workload: Ids or names of workloads to keep; all by default.
        workloads: The same, by the name that it has in `load_programs`; a set will do.
        operator: Operator families to keep; all by default.
        status: Statuses to keep; all by default.
        columns: Columns to read; all by default.
        batch_rows: Maximum number of rows in a batch.

    Raises:
        CosthubError: As for `load_measurements`.

    Example:
        >>> batches = iter_measurements("amd-epyc-zen5-2c", columns=["run_s"], batch_rows=500)
        >>> max(batch.num_rows for batch in batches)
        500
    """
    with locate_data(where) as place:
        yield from load.iter_measurements(
            place.path,
            device=place.device_id if device is None else device,
            workload=_wanted(workload, workloads),
            operator=operator,
            status=status,
            columns=columns,
            batch_rows=batch_rows,
            filesystem=place.filesystem,
        )


def load_programs(
    where: str | Path,
    *,
    device: Names | None = None,
    workloads: Collection[str] | None = None,
    spec: str = DEFAULT_SPEC,
    failures: bool = False,
    per_workload: int | None = None,
    seed: int = 0,
    progress: bool = True,
) -> Programs:
    """Reads the programs that ran on some devices, with their features; computes and caches missing ones.

    Args:
        where: A data folder on this machine: a path, the name of a dataset or device in the hubs, or
            `local-dir:/PATH`.
        device: The device, or several; by default the one named by `where`, or the only one in the folder.
        workloads: Ids or names of the workloads to keep; all by default.
        spec: Name of the feature spec, or several joined with `+`.
        failures: Include programs that failed, whatever their status, with infinite latency.
        per_workload: Read at most this many programs per workload and device, drawn at random; features are computed
            only for these. The same seed draws the same programs, whatever workloads are read.
        seed: Seed of the draw.
        progress: Show a progress bar on a terminal while features are computed.

    Returns:
        The programs that have features, device by device and within a device by workload.

    Raises:
        CosthubError: One of its subclasses: the data do not exist, are damaged, lack the device or have several, or
            there is no such workload or feature spec, or `per_workload` is less than 1.

    Example:
        >>> load_programs("nvidia-h200", spec="trace_decisions@1").n > 100
        True
    """
    place = find_data(where)
    return load.load_programs(
        place.path,
        device=place.device_id if device is None else device,
        workloads=_ids_of(place, workloads),
        spec=spec,
        failures=failures,
        per_workload=per_workload,
        seed=seed,
        progress=progress,
    )


def iter_programs(
    where: str | Path,
    *,
    device: Names | None = None,
    workloads: Collection[str] | None = None,
    spec: str = DEFAULT_SPEC,
    failures: bool = False,
    batch_programs: int = 65_536,
    progress: bool = True,
) -> Iterator[Programs]:
    """Reads the programs of `load_programs` a few workloads at a time, with only one batch in memory.

    Args:
        where: As for `load_programs`, like the other arguments.
        device: The device, or several; each batch is from a single device.
        workloads: Ids or names of the workloads to keep.
        spec: Name of the feature spec.
        failures: Include programs that failed.
        batch_programs: A batch ends with the workload that brings it to this many programs.
        progress: Show a progress bar on a terminal while features are computed.

    Raises:
        CosthubError: As for `load_programs`.
    """
    place = find_data(where)
    return load.iter_programs(
        place.path,
        device=place.device_id if device is None else device,
        workloads=_ids_of(place, workloads),
        spec=spec,
        failures=failures,
        batch_programs=batch_programs,
        progress=progress,
    )


def open_programs(
    where: str | Path,
    *,
    device: Names | None = None,
    workloads: Collection[str] | None = None,
    spec: str = DEFAULT_SPEC,
    failures: bool = False,
    block_programs: int = BLOCK_PROGRAMS,
    progress: bool = True,
) -> ProgramBlocks:
    """Finds the programs of `load_programs`, in blocks that are read when accessed.

    Args:
        where: As for `load_programs`, like the other arguments.
        device: The device, or several.
        workloads: Ids or names of the workloads to keep.
        spec: Name of the feature spec.
        failures: Include programs that failed.
        block_programs: A block ends with the workload that reaches this many.
        progress: Show a progress bar on a terminal while features are computed.

    Raises:
        CosthubError: As for `load_programs`.
    """
    place = find_data(where)
    return ProgramBlocks.open(
        place.path,
        device=place.device_id if device is None else device,
        workloads=_ids_of(place, workloads),
        spec=spec,
        failures=failures,
        block_programs=block_programs,
        progress=progress,
    )


def list_splits(where: str | Path) -> list[str]:
    """Lists the names of the splits that come with the data.

    Args:
        where: As for `load_programs`.

    Raises:
        CosthubError: The data do not exist.

    Example:
        >>> list_splits("nvidia-h200")[-1]
        'workload-12-seed0'
    """
    return split.list_splits(find_data(where).path)


def load_split(where: str | Path, name: str | None = None) -> Split:
    """Reads a split.

    Args:
        where: Data, as for `load_programs`; without `name`, the file of a split.
        name: The name of one of their splits, or the file of a split.

    Raises:
        CosthubError: One of its subclasses: the data or the split do not exist, or the file is not a split.

    Example:
        >>> len(load_split("nvidia-h200", "workload-12-seed0").test)
        12
    """
    if name is None:
        return split.load_split(where)
    return split.find_split(find_data(where).path, name)


def _wanted(workload: Names | None, workloads: Collection[str] | None) -> Names | None:
    """The workloads to keep, by whichever name of the argument they were given."""
    if workloads is None:
        return workload
    if workload is not None:
        raise ArgumentError("workload= and workloads= both say which workloads to keep: give one of them.")
    return workloads if isinstance(workloads, str) else sorted(workloads)


def _ids_of(place: DataAddress, names: Collection[str] | None) -> set[str] | None:
    """The ids of the workloads called `names`; a mistyped name must not look like missing data."""
    if names is None:
        return None
    folder = DataFolder.open(place.path)
    table, listing = folder.workloads(["workload_id", "name"]), f"The workloads table of {folder.path}"
    given = names if isinstance(names, str) else sorted(names)
    return set(load.workload_ids(table, ("workload_id", "name"), given, listing=listing))
