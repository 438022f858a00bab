"""What a limit on the sums of register tiles leaves out of the hub's measurements, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow.compute as pc

from costhub.collector.propose.register_tiles import FEW_SUMS, MOST_SUMS, RegisterTile
from costhub.dataset.folder import DataFolder
from costhub.dataset.latency import median_latency_s
from costhub.search.zero_trials.carry import TraceDecisions
from scripts.bench.common import machine, options
from scripts.bench.common.data import DATASETS
from scripts.tables.data import register_tiles_table

MEASURED_ON = ("amd-epyc-zen3", "intel-xeon-emeraldrapids")
"""Datasets of the package with such tiles: of a CPU with 16 registers for vectors, and of one with 32."""
LIMITS = (8, 12, FEW_SUMS, 16, 20, 24, MOST_SUMS, 32)
LEAST_PROGRAMS = 8
"""Workloads with fewer say little about the best of them."""
_COLUMNS = ["workload_id", "run_s", "trace"]


def sums_of(decisions: TraceDecisions) -> int:
    """How many vectors of sums a tile has; 0 if the trace has no register tile.

    Example:
        >>> sums_of(TraceDecisions("", ((0, (8, 2)), (1, (4, 7))), (4, 28), (), (), (), ()))
        14
    """
    factors = (drawn for _, drawn in decisions.tiles)
    tile = RegisterTile.of_splits(zip(decisions.limits, factors, strict=True))
    return tile.sums if tile else 0


def measured(dataset: str, device_id: str) -> dict[str, list[tuple[float, int]]]:
    """Workload -> seconds and vectors of sums of each program with a register tile."""
    found: dict[str, list[tuple[float, int]]] = {}
    folder, ran = DataFolder.open(DATASETS / dataset), pc.field("status") == "ok"
    for batch in folder.iter_measurements([device_id], _COLUMNS, ran):
        seconds = median_latency_s(batch["run_s"])
        rows = zip(batch["workload_id"].to_pylist(), seconds.tolist(), batch["trace"].to_pylist(), strict=True)
        for workload, second, trace in rows:
            decisions = TraceDecisions.read(trace)
            sums = 0 if decisions is None else sums_of(decisions)
            if sums and np.isfinite(second) and second > 0:
                found.setdefault(workload, []).append((second, sums))
    return {key: programs for key, programs in found.items() if len(programs) >= LEAST_PROGRAMS}


def row_of(device_id: str, limit: int, programs: Mapping[str, Sequence[tuple[float, int]]]) -> dict[str, Any]:
    """What a limit leaves out, and how much slower the best of the rest is: the geometric mean over workloads."""
    every = np.array([sums for own in programs.values() for _, sums in own])
    losses = [
        min((second for second, sums in own if sums <= limit), default=np.nan) / min(own)[0]
        for own in programs.values()
    ]
    return {
        **{"device_id": device_id, "limit": limit, "workloads": len(programs), "programs": len(every)},
        "left_out": float((every > limit).mean()),
        "best_left_out": float(np.mean([min(own)[1] > limit for own in programs.values()])),
        "loss": float(np.exp(np.nanmean(np.log(losses)))),
    }


def rows_of(datasets: Sequence[str]) -> Iterator[dict[str, Any]]:
    """A row for each device and limit."""
    for dataset in datasets:
        for device_id in DataFolder.open(DATASETS / dataset).device_ids():
            programs = measured(dataset, device_id)
            yield from (row_of(device_id, limit, programs) for limit in LIMITS)


@click.command()
@options.quick("The CPU with 16 registers alone.")
@options.json_file()
def main(quick: bool, path: Path | None) -> None:
    """Counts the programs in the blocked space that a limit would refuse; nothing is measured."""
    rows = list(rows_of(MEASURED_ON[:1] if quick else MEASURED_ON))
    click.echo(register_tiles_table({"rows": rows}))
    machine.write_result(path, {"rows": rows})
