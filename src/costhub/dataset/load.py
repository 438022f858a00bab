"""Loads a data folder: load_measurements and iter_measurements as tables, load_programs and iter_programs as arrays."""

from __future__ import annotations

import functools
import operator as operators
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.blocks import open_devices
from costhub.dataset.features.specs import DEFAULT_SPEC
from costhub.dataset.folder import DataFolder, among
from costhub.dataset.programs import Programs, WorkloadUse, workload_uses
from costhub.dataset.remote import FileSystem, RemoteFolder
from costhub.dataset.schema import STATUSES
from costhub.dataset.shards.layout import empty_table
from costhub.dataset.shards.shard import ROW_GROUP_ROWS
from costhub.errors import CosthubError, DataError, UnknownNameError
from costhub.names import close_names

Names = str | Sequence[str]
Folder = DataFolder | RemoteFolder
Format = Literal["arrow", "pandas", "datasets"]


class FormatError(CosthubError):
    """A requested table format is not offered by costhub, or needs a missing package."""

    exit_code = 2


def open_folder(path: str | Path, filesystem: FileSystem | None = None) -> Folder:
    """Opens a data folder on this machine or on an fsspec file system.

    Raises:
        DataError: `path` is not a data folder on this machine.
    """
    return DataFolder.open(path) if filesystem is None else RemoteFolder(filesystem, str(path))


def load_measurements(
    path: str | Path,
    *,
    device: Names | None = None,
    workload: Names | None = None,
    operator: Names | None = None,
    status: Names | None = None,
    columns: Sequence[str] | None = None,
    format: Format = "arrow",
    filesystem: FileSystem | None = None,
) -> Any:
    """Reads measurements, including those not yet in a shard.

    Args:
        path: A data folder.
        device: Device ids to keep; all by default.
        workload: Ids or names of workloads to keep; all by default.
        operator: Operator families to keep; all by default.
        status: Statuses to keep; all by default.
        columns: Columns to read; all by default.
        format: `arrow` for a table, `pandas` for a data frame, `datasets` for a `datasets.Dataset`.
        filesystem: The fsspec file system that `path` is on; the local one by default.

    Returns:
        One row per measurement, with the columns of `schema.MEASUREMENTS`, as the type given by `format`.

    Raises:
        DataError: The folder cannot be read, or lacks the device or a column.
        UnknownNameError: A workload, operator or status does not exist.
        FormatError: The format does not exist, or its package is not installed.
    """
    folder = open_folder(path, filesystem)
    devices, where = _query(folder, device, workload, operator, status)
    return convert_table(_read_table(folder, devices, columns, where), format)


def _read_table(
    folder: Folder, devices: list[str] | None, columns: Sequence[str] | None, where: pc.Expression | None
) -> pa.Table:
    schema = empty_table("measurements", columns).schema
    if isinstance(folder, RemoteFolder):
        return pa.Table.from_batches(folder.iter_measurements(devices, columns, where), schema)
    # In batches: reading whole shards takes twice the memory of the rows selected.
    return folder.read_batches(lambda rows: pa.Table.from_batches(rows, schema), devices, columns, where)


def iter_measurements(
    path: str | Path,
    *,
    device: Names | None = None,
    workload: Names | None = None,
    operator: Names | None = None,
    status: Names | None = None,
    columns: Sequence[str] | None = None,
    batch_rows: int = ROW_GROUP_ROWS,
    filesystem: FileSystem | None = None,
) -> Iterator[pa.RecordBatch]:
    """Reads the rows of `load_measurements` in batches, with memory use that does not grow with the folder.

    Args:
        path: A data folder.
        device: Device ids to keep; all by default.
        workload: Ids or names of workloads to keep; all by default.
        operator: Operator families to keep; all by default.
        status: Statuses to keep; all by default.
        columns: Columns to read; all by default.
        batch_rows: Maximum number of rows in a batch.
        filesystem: The fsspec file system that `path` is on; the local one by default.

    Raises:
        DataError: The folder cannot be read, or lacks the device or a column.
        UnknownNameError: A workload, operator or status does not exist.
    """
    folder = open_folder(path, filesystem)
    empty_table("measurements", columns)  # an unknown column is rejected here, not at the first batch
    devices, where = _query(folder, device, workload, operator, status)
    return folder.iter_measurements(devices, columns, where, batch_rows=batch_rows)


def _query(
    folder: Folder, device: Names | None, workload: Names | None, operator: Names | None, status: Names | None
) -> tuple[list[str] | None, pc.Expression | None]:
    """The devices to read, and the condition on their rows; None for all."""
    conditions = []
    if workload is not None or operator is not None:
        table = folder.workloads(["workload_id", "name", "operator"])
        listing = f"The workloads table of {folder.path}"
        for keys, names in ((("workload_id", "name"), workload), (("operator",), operator)):
            if names is not None:
                ids = workload_ids(table, keys, names, listing=listing)
                conditions.append(among("workload_id", ids))
    if status is not None:
        for name in _listed(status):
            if name not in STATUSES:
                listing = "`costhub.dataset.schema.STATUSES`"
                raise UnknownNameError("status", name, close_names(name, STATUSES), listing, STATUSES)
        conditions.append(among("status", _listed(status)))
    where = functools.reduce(operators.and_, conditions) if conditions else None
    return None if device is None else _listed(device), where


def workload_ids(table: pa.Table, keys: Sequence[str], names: Names, *, listing: str) -> list[str]:
    """Finds the workloads that have one of the names in one of the columns `keys`.

    Args:
        table: The workloads table, or those of its columns.
        keys: Columns to look in; the last one holds the names that people use.
        names: One name or several.
        listing: Where the error says the names are listed.

    Raises:
        UnknownNameError: No workload has one of the names.
    """
    ids = []
    for name in _listed(names):
        matches = table.filter(functools.reduce(operators.or_, [pc.field(key) == name for key in keys]))
        if not matches.num_rows:
            # A mistyped name must not look like missing data.
            close = close_names(name, sorted(set(table[keys[-1]].to_pylist())))
            raise UnknownNameError(keys[-1].replace("name", "workload"), name, close, listing)
        ids += matches["workload_id"].to_pylist()
    return ids


def _listed(names: Names) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def convert_table(table: pa.Table, form: Format) -> Any:
    """Converts a table to another format.

    Raises:
        FormatError: The format does not exist, or its package is not installed.

    Example:
        >>> convert_table(pa.table({"status": ["ok"]}), "arrow").num_rows
        1
    """
    if form == "arrow":
        return table
    if form not in ("pandas", "datasets"):
        raise FormatError(f"{form!r} is not a format; use 'arrow', 'pandas' or 'datasets'.")
    try:
        import_module(form)
    except ImportError as error:
        raise FormatError(
            f"The format {form!r} needs the package {form}, which is not installed: "
            "`pip install 'costhub[datasets]'` installs it."
        ) from error
    if form == "pandas":
        return table.to_pandas()
    from datasets import Dataset

    return Dataset(table)


def load_programs(
    path: str | Path,
    *,
    device: str | Sequence[str] | None = None,
    workloads: set[str] | None = None,
    spec: str = DEFAULT_SPEC,
    failures: bool = False,
    per_workload: int | None = None,
    seed: int = 0,
    progress: bool = True,
) -> Programs:
    """Reads the programs that ran on some devices; computes and caches missing features.

    Args:
        path: A data folder.
        device: The device, or several; may be left out if the folder has only one.
        workloads: Ids of the workloads to keep; all by default.
        spec: Name of the feature spec; for a composite one, a program has features only if it has those of
            every part.
        failures: Include programs that failed, whatever their status, with infinite latency.
        per_workload: Read at most this many programs per workload and device, drawn at random; features are computed
            only for these. The same seed draws the same programs, whatever workloads are read.
        seed: Seed of the draw.
        progress: Show a progress bar on a terminal while features are computed.

    Returns:
        The programs whose status is `ok` and that have features: device by device, within a device by
        workload, and within a workload in the order of the measurements.

    Raises:
        DataError: The folder cannot be read, lacks the device, or has several and `device` is not given; or
            `per_workload` is less than 1.
        UnknownNameError: The feature spec does not exist.
    """
    if per_workload is not None and per_workload < 1:
        raise DataError(f"per_workload is {per_workload}, but must be at least 1. Leave it out to read all programs.")
    devices = open_devices(path, device, workloads, spec, failures=failures)
    if per_workload is not None:
        devices = [block.at_most(per_workload, seed=seed) for block in devices]
    programs = Programs.join([block.load(progress=progress) for block in devices])
    return replace(programs, uses=_uses(path, programs))


def iter_programs(
    path: str | Path,
    *,
    device: str | Sequence[str] | None = None,
    workloads: set[str] | None = None,
    spec: str = DEFAULT_SPEC,
    failures: bool = False,
    batch_programs: int = 65_536,
    progress: bool = True,
) -> Iterator[Programs]:
    """Reads the programs of `load_programs` a few workloads at a time, with only one batch in memory.

    Args:
        path: As for `load_programs`, like the other arguments.
        device: The device, or several; each batch is from a single device.
        workloads: Ids of the workloads to keep.
        spec: Name of the feature spec.
        failures: Include programs that failed.
        batch_programs: A batch ends with the workload that brings it to this many programs; a workload is
            never split, since its programs are compared with one another.
        progress: Show a progress bar on a terminal while features are computed.

    Yields:
        The programs of one or more workloads; all batches joined equal the result of `load_programs`.

    Raises:
        DataError: As for `load_programs`.
        UnknownNameError: As for `load_programs`.
    """
    for block in open_devices(path, device, workloads, spec, failures=failures):
        complete, _ = block.with_features(progress=progress)
        for part in complete.cut(batch_programs):
            programs = part.load(progress=progress)
            yield replace(programs, uses=_uses(path, programs))


def _uses(path: str | Path, programs: Programs) -> dict[str, WorkloadUse]:
    """Describes the workloads of programs, according to the folder."""
    table = DataFolder.open(path).workloads(["workload_id", "name", "operator", "networks"])
    return workload_uses(table.filter(among("workload_id", programs.workload_ids)))
