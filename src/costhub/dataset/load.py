"""Provides load_measurements: measurements of a data folder, filtered while they are read."""

from __future__ import annotations

import difflib
import functools
import operator as operators
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.folder import DataFolder
from costhub.errors import UnknownNameError

Names = str | Sequence[str]


def load_measurements(
    path: str | Path,
    *,
    device: Names | None = None,
    workload: Names | None = None,
    operator: Names | None = None,
    status: Names | None = None,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Reads measurements, those not yet in a shard included.

    Args:
        path: A data folder.
        device: Device ids to keep; all by default.
        workload: Ids or names of workloads to keep; all by default.
        operator: Operator families to keep; all by default.
        status: Statuses to keep; all by default.
        columns: Columns wanted; all by default.

    Returns:
        A table with the columns of `schema.MEASUREMENTS`.

    Raises:
        DataError: The folder cannot be read, or has no such device or column.
        UnknownNameError: No workload has that id or name.
    """
    folder = DataFolder.open(path)
    conditions = []
    if workload is not None:
        conditions.append(_among("workload_id", _workload_ids(folder, _listed(workload))))
    if operator is not None:
        family = folder.workloads().filter(_among("operator", _listed(operator)))
        conditions.append(_among("workload_id", family["workload_id"].to_pylist()))
    if status is not None:
        conditions.append(_among("status", _listed(status)))
    where = functools.reduce(operators.and_, conditions) if conditions else None
    return folder.select_measurements(None if device is None else _listed(device), columns, where)


def _listed(names: Names) -> list[str]:
    return [names] if isinstance(names, str) else list(names)


def _among(column: str, names: Sequence[str]) -> pc.Expression:
    # Typed: Arrow cannot tell what an empty list is a list of.
    return pc.field(column).isin(pa.array(list(names), pa.string()))


def _workload_ids(folder: DataFolder, names: Sequence[str]) -> list[str]:
    table = folder.workloads().select(["workload_id", "name"])
    ids = []
    for name in names:
        found = table.filter((pc.field("workload_id") == name) | (pc.field("name") == name))
        if not found.num_rows:
            close = difflib.get_close_matches(name, table["name"].to_pylist(), n=3)
            raise UnknownNameError("workload", name, close, f"costhub stats {folder.path}")
        ids += found["workload_id"].to_pylist()
    return ids
