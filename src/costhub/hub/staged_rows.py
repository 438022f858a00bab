"""Provides LeftOut and the functions leave_out_*: the rows and workloads that a contribution does without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from costhub.dataset.check.measurements import CheckContext, Ledger, LedgerRule, Mask, RowRule, Rows, entries_of
from costhub.dataset.check.rules import RULES
from costhub.dataset.folder import DataFolder
from costhub.dataset.shards.shard_set import MERGE_ROWS, add_shard, shard_paths
from costhub.terminal_text import counted

_NOISY_SESSION = "CH060"
DISTURBED_RULES = ("CH033", "CH037", "CH040", _NOISY_SESSION)
"""The rules that rows break because other programs ran beside them: nothing else is wrong with a folder."""


@dataclass(frozen=True)
class LeftOut:
    """How many rows of a folder are not sent."""

    disturbed: int = 0
    """Rows measured while other programs ran."""
    held: int = 0
    """Rows that the dataset holds already."""

    def __str__(self) -> str:
        """In words; empty if every row is sent.

        Example:
            >>> str(LeftOut(disturbed=12, held=1))
            '12 rows measured beside other programs, 1 row that the dataset has already'
        """
        reasons = {"measured beside other programs": self.disturbed, "that the dataset has already": self.held}
        return ", ".join(f"{counted(rows, 'row')} {why}" for why, rows in reasons.items() if rows)


def leave_out_disturbed(folder: str | Path) -> int:
    """Removes the rows that break one of `DISTURBED_RULES`, and noisy sessions, from a staged data folder.

    Args:
        folder: A copy of a data folder, in which `check_folder` found breaches of these rules alone.

    Returns:
        Number of rows removed.

    Raises:
        DataError: The folder cannot be read.
    """
    devices = DataFolder.open(folder).devices().to_pylist()
    context = CheckContext({row["device_id"]: row for row in devices})
    return _remove(folder, lambda device_id, table: _disturbed(device_id, table, context))


def _disturbed(device_id: str, table: pa.Table, context: CheckContext) -> Mask:
    mask = np.zeros(table.num_rows, bool)
    if not table.num_rows:
        return mask
    # No rule reads traces here, and Arrow cannot join texts of more than 2 GiB.
    at = table.schema.get_field_index("trace")
    field = table.schema.field(at)
    table = table.set_column(at, field, pa.nulls(table.num_rows, field.type))
    (batch,) = table.combine_chunks().to_batches()
    rows = Rows(batch, context, device_id)
    ledger = Ledger(entries_of(rows, 0), [False])
    for rule in (RULES[name] for name in DISTURBED_RULES):
        if isinstance(rule, RowRule):
            for _, found in rule.find(rows):
                mask |= found
        elif isinstance(rule, LedgerRule):
            for _, found in rule.find(ledger, context):
                # Of a noisy session, rows without repeats are no better: nothing shows how they were disturbed.
                mask |= np.isin(ledger["session"], ledger["session"][found]) if rule.id == _NOISY_SESSION else found
    return mask


def leave_out_held(folder: str | Path, dataset: str | Path) -> int:
    """Removes the rows that a dataset holds already from a staged data folder, unless it holds all of them.

    Args:
        folder: A copy of a data folder.
        dataset: The data folder that is to receive the rows.

    Returns:
        Number of rows that the dataset holds; if these are all rows, none is removed.

    Raises:
        DataError: One of the folders cannot be read.
    """
    new, hub = DataFolder.open(folder), DataFolder.open(dataset)
    held = {
        device_id: hub.measurements(device_id, columns=["record_id"])["record_id"].combine_chunks()
        for device_id in set(new.device_ids()) & set(hub.device_ids())
    }

    def is_held(device_id: str, table: pa.Table) -> Mask:
        if device_id not in held:
            return np.zeros(table.num_rows, bool)
        mask: Mask = pc.is_in(table["record_id"], value_set=held[device_id]).to_numpy()
        return mask

    records = [(each, new.measurements(each, columns=["record_id"])) for each in new.device_ids()]
    count = sum(int(is_held(device_id, table).sum()) for device_id, table in records)
    if 0 < count < sum(table.num_rows for _, table in records):
        _remove(folder, is_held)
    return count


def leave_out_unmeasured(folder: str | Path) -> None:
    """Removes the workloads without a measurement from a staged data folder.

    A collection notes all of its workloads before it measures the first; those that it did not get to may be of
    networks of the user's own.

    Args:
        folder: A copy of a data folder.

    Raises:
        DataError: The folder cannot be read.
    """
    data = DataFolder.open(folder)
    batches = data.iter_measurements(columns=["workload_id"])
    measured = {key for batch in batches for key in batch["workload_id"].unique().to_pylist()}
    table = data.workloads()
    kept = table.filter(pc.is_in(table["workload_id"], value_set=pa.array(sorted(measured), pa.string())))
    if kept.num_rows == table.num_rows:
        return
    place = data.path / "workloads"
    for path in shard_paths(place):
        path.unlink()
    add_shard(place, kept)


def _remove(folder: str | Path, is_left_out: Callable[[str, pa.Table], Mask]) -> int:
    """Removes the rows of a mask from every device, and devices of which no row is left; returns the number of rows."""
    data, removed = DataFolder.open(folder), 0
    for device_id in data.device_ids():
        table = data.measurements(device_id)
        mask = is_left_out(device_id, table)
        if not mask.any():
            continue
        removed += int(mask.sum())
        kept, place = table.filter(pa.array(~mask)), data.path / "measurements" / device_id
        for path in shard_paths(place):
            path.unlink()
        for start in range(0, kept.num_rows, MERGE_ROWS):
            add_shard(place, kept.slice(start, MERGE_ROWS))
        if not kept.num_rows:
            place.rmdir()
    return removed
