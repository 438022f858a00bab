"""Loads measurements from wherever an address points: a folder, a hub on this machine, or Hugging Face."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

import pyarrow as pa

from costhub.dataset import load
from costhub.dataset.formats import Format, converted
from costhub.dataset.load import Names
from costhub.dataset.shards.shard import ROW_GROUP_ROWS
from costhub.hub.data_place import data_at

if TYPE_CHECKING:
    from datasets import Dataset
    from pandas import DataFrame


@overload
def load_measurements(
    where: str | Path,
    *,
    device: Names | None = ...,
    workload: Names | None = ...,
    operator: Names | None = ...,
    status: Names | None = ...,
    columns: Sequence[str] | None = ...,
    format: Literal["arrow"] = ...,
) -> pa.Table: ...
@overload
def load_measurements(
    where: str | Path,
    *,
    device: Names | None = ...,
    workload: Names | None = ...,
    operator: Names | None = ...,
    status: Names | None = ...,
    columns: Sequence[str] | None = ...,
    format: Literal["pandas"],
) -> DataFrame: ...
@overload
def load_measurements(
    where: str | Path,
    *,
    device: Names | None = ...,
    workload: Names | None = ...,
    operator: Names | None = ...,
    status: Names | None = ...,
    columns: Sequence[str] | None = ...,
    format: Literal["datasets"],
) -> Dataset: ...


def load_measurements(
    where: str | Path,
    *,
    device: Names | None = None,
    workload: Names | None = None,
    operator: Names | None = None,
    status: Names | None = None,
    columns: Sequence[str] | None = None,
    format: Format = "arrow",
) -> pa.Table | DataFrame | Dataset:
    """Reads the measurements that match, and no more of the files than it has to.

    Args:
        where: A data folder: a path, the name of a dataset or device in the hubs on this machine,
            `local-dir:/PATH` or `hf-hub:ORG/NAME@REVISION`.
        device: Device ids to keep; by default the one that `where` names, or all of a folder or dataset.
        workload: Ids or names of workloads to keep; all by default.
        operator: Operator families to keep; all by default.
        status: Statuses to keep; all by default.
        columns: Columns wanted; all by default.
        format: `arrow` for a table, `pandas` for a data frame, `datasets` for a `datasets.Dataset`.

    Returns:
        One row per measurement, with the columns of `dataset.schema.MEASUREMENTS`.

    Raises:
        CosthubError: One of its subclasses: there is no such data, name or column, the hub cannot be
            reached, a file is damaged, or a package is not installed.

    Example:
        >>> load_measurements("amd-epyc-zen5-2c", status="ok", columns=["run_s"]).num_rows > 1000
        True
    """
    with data_at(where) as place:
        table = load.load_measurements(
            place.path,
            device=place.device_id if device is None else device,
            workload=workload,
            operator=operator,
            status=status,
            columns=columns,
            filesystem=place.filesystem,
        )
    return converted(table, format)


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
    """Reads in batches what `load_measurements` reads, in memory that does not grow with the data.

    From the Hugging Face hub it fetches the footers of the shards and, of the row groups that match, only the
    columns that are asked for; nothing is written to disk.

    Args:
        where: As for `load_measurements`.
        device: Device ids to keep; by default the one that `where` names, or all of a folder or dataset.
        workload: Ids or names of workloads to keep; all by default.
        operator: Operator families to keep; all by default.
        status: Statuses to keep; all by default.
        columns: Columns wanted; all by default.
        batch_rows: Rows of a batch, at most.

    Raises:
        CosthubError: As `load_measurements`.

    Example:
        >>> batches = iter_measurements("amd-epyc-zen5-2c", columns=["run_s"], batch_rows=500)
        >>> max(batch.num_rows for batch in batches)
        500
    """
    with data_at(where) as place:
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
