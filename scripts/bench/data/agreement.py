"""How far two devices agree on the order of the programs that both have measured."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa

from costhub.cards.tables import TableColumn, number, plain_table
from costhub.dataset.folder import DataFolder
from costhub.dataset.programs import Programs
from costhub.models.evaluate import evaluate_scores
from scripts.bench.common import machine, options
from scripts.bench.common.data import DATASETS, median_latencies

MEASURED_BY = {
    "native": ("amd-epyc-zen5", "amd-epyc-zen4", "intel-xeon-graniterapids", "nvidia-a100", "nvidia-h200"),
    "transplanted": ("nvidia-v100", "nvidia-k80", "amd-mi50"),
}
"""Whose code generator made the latencies -> datasets of the package."""
COLUMNS = (
    *(TableColumn(name, name) for name in ("measured", "one", "other")),
    number("workloads", "workloads", "d"),
    number("programs", "programs", ",d"),
    number("pairwise", "pairs in the same order", ".3f"),
    number("top_1", "top-1 by the other's order", ".3f"),
)
Row = dict[str, Any]


def agreement(one: pa.Table, other: pa.Table) -> Row | None:
    """The share of pairs of programs that two devices order alike; None if no workload has two shared programs."""
    both = one.join(other, keys=["workload_id", "program_id"], join_type="inner", right_suffix="_other")
    ids, workload, counts = np.unique(both["workload_id"].to_numpy(), return_inverse=True, return_counts=True)
    kept = counts[workload] > 1
    if not kept.any():
        return None
    rows = both["latency_s_other"].to_numpy()[kept]
    programs = Programs(
        rows.astype(np.float32)[:, None],
        np.ones(len(rows), np.int64),
        workload[kept].astype(np.int64),
        tuple(ids),
        both["latency_s"].to_numpy()[kept],
    )
    totals = evaluate_scores(-rows, programs).totals
    return {
        "workloads": int((counts > 1).sum()),
        "programs": programs.n,
        "pairwise": totals["pairwise"],
        "top_1": totals["top_1"],
    }


def rows_of(tables: Mapping[str, tuple[str, pa.Table]]) -> Iterator[Row]:
    """Every two devices whose latencies are of one kind."""
    for (one, (kind, own)), (other, (others_kind, theirs)) in itertools.combinations(tables.items(), 2):
        found = agreement(own, theirs) if kind == others_kind else None
        if found is not None:
            yield {"measured": kind, "one": one, "other": other, **found}


@click.command()
@options.quick("The transplanted ones alone.")
@options.json_file()
def main(quick: bool, path: Path | None) -> None:
    """Compares the latencies of all devices of the package that share programs."""
    tables = {}
    for kind, names in MEASURED_BY.items():
        for name in names if kind == "transplanted" or not quick else ():
            for device in DataFolder.open(DATASETS / name).device_ids():
                tables[device] = kind, median_latencies(DATASETS / name, [device])
    rows = list(rows_of(tables))
    click.echo(plain_table(rows, COLUMNS))
    machine.write_result(path, {"rows": rows})
