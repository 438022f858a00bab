"""How far two devices agree on the order of the programs that both have measured."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa

from costhub.cards.tables import TableColumn, number, plain_table
from costhub.dataset.credit import is_replayed
from costhub.dataset.folder import DataFolder
from costhub.dataset.programs import Programs
from costhub.hub.catalogue.devices import device_rows
from costhub.models.evaluate import evaluate_scores
from scripts.bench.common import machine, options
from scripts.bench.common.data import embedded_datasets, median_latencies

NATIVE, TRANSPLANTED = "native", "transplanted"
MIXED = f"{NATIVE} x {TRANSPLANTED}"
"""Of two devices, one has latencies of TVM's code, the other of another code generator's."""
COLUMNS = (
    *(TableColumn(name, name) for name in ("kind", "measured", "one", "other")),
    number("shared", "programs of both", ",d"),
    number("workloads", "workloads with several", ",d"),
    number("programs", "programs of these", ",d"),
    number("pairwise", "pairs in the same order", ".3f"),
    number("top_1", "top-1 by the other's order", ".3f"),
)
Row = dict[str, Any]


@dataclass(frozen=True)
class DeviceLatencies:
    """What a device has measured."""

    kind: str
    """CPU or GPU: the programs of one are none of the other's."""
    measured: str
    """Whose code was measured: NATIVE, TVM's own, or TRANSPLANTED."""
    latencies: pa.Table
    """As `median_latencies` has them."""


def agreement(one: pa.Table, other: pa.Table) -> Row:
    """How many programs two devices share, and the share of pairs of these that they order alike.

    Only programs of workloads that have two or more of them are compared; the figures are None if no workload has.
    """
    both = one.join(other, keys=["workload_id", "program_id"], join_type="inner", right_suffix="_other")
    ids, workload, counts = np.unique(both["workload_id"].to_numpy(), return_inverse=True, return_counts=True)
    kept = counts[workload] > 1
    found: Row = {
        "shared": both.num_rows,
        "workloads": int((counts > 1).sum()),
        "programs": int(kept.sum()),
        "pairwise": None,
        "top_1": None,
    }
    if not kept.any():
        return found
    rows = both["latency_s_other"].to_numpy()[kept]
    programs = Programs(
        rows.astype(np.float32)[:, None],
        np.ones(len(rows), np.int64),
        workload[kept].astype(np.int64),
        tuple(ids),
        both["latency_s"].to_numpy()[kept],
    )
    totals = evaluate_scores(-rows, programs).totals
    return {**found, "pairwise": totals["pairwise"], "top_1": totals["top_1"]}


def rows_of(devices: Mapping[str, DeviceLatencies]) -> Iterator[Row]:
    """Every two devices of one kind, also those that share no program."""
    for (one, own), (other, theirs) in itertools.combinations(devices.items(), 2):
        if own.kind == theirs.kind:
            measured = own.measured if own.measured == theirs.measured else MIXED
            found = agreement(own.latencies, theirs.latencies)
            yield {"kind": own.kind, "measured": measured, "one": one, "other": other, **found}


def embedded_devices(*, quick: bool) -> dict[str, DeviceLatencies]:
    """All devices with measurements in the package, CPUs first.

    Args:
        quick: Only those with transplanted latencies.
    """
    devices = {}
    for folder in embedded_datasets():
        names = DataFolder.open(folder).device_ids()
        for device, row in device_rows(folder, names).items():
            kind = "CPU" if row["kind"] == "cpu" else "GPU"
            measured = TRANSPLANTED if is_replayed(folder, device) else NATIVE
            if measured == TRANSPLANTED or not quick:
                devices[device] = DeviceLatencies(kind, measured, median_latencies(folder, [device]))
    return dict(sorted(devices.items(), key=lambda item: item[1].kind))


@click.command()
@options.quick("The transplanted ones alone.")
@options.json_file()
def main(quick: bool, path: Path | None) -> None:
    """Compares the latencies of every two CPUs and every two GPUs of the package."""
    rows = list(rows_of(embedded_devices(quick=quick)))
    click.echo(plain_table(rows, COLUMNS))
    machine.write_result(path, {"rows": rows})
