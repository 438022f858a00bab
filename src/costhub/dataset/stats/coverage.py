"""Provides coverage: what of each operator family was measured on each device."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class Cell:
    """One operator family on one device."""

    operator: str
    device_id: str
    workloads: int
    """Distinct workloads that were tried."""
    programs: int
    """Distinct programs that ran."""
    measured: int
    """Attempts, failures included."""


def coverage(observations: pa.Table) -> tuple[Cell, ...]:
    """Counts what there is of every operator family on every device, largest first.

    Args:
        observations: As `read_observations` gives them.
    """
    keys = ["operator", "device_id"]
    tried = observations.group_by(keys).aggregate([("workload_id", "count_distinct"), ([], "count_all")])
    ran = observations.filter(pc.field("status") == "ok").group_by(keys)
    programs = {
        (row["operator"], row["device_id"]): row["program_id_count_distinct"]
        for row in ran.aggregate([("program_id", "count_distinct")]).to_pylist()
    }
    cells = [
        Cell(
            row["operator"],
            row["device_id"],
            row["workload_id_count_distinct"],
            programs.get((row["operator"], row["device_id"]), 0),
            row["count_all"],
        )
        for row in tried.to_pylist()
    ]
    return tuple(sorted(cells, key=lambda cell: (-cell.measured, cell.operator, cell.device_id)))
