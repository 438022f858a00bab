"""Measures what a model for all CPUs must have learned from to rank kernels in bfloat16."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pyarrow.compute as pc

from costhub.cards.reports.tune_facts import multiplies_bfloat16
from costhub.dataset.folder import DataFolder
from costhub.dataset.splits.split import load_split
from scripts.bench.common import machine, options
from scripts.bench.common.data import BLOCKED, DATASETS, PAIRS
from scripts.bench.models.chip_kernels import Taught, ranked, tests_of, trained_without
from scripts.release.train import ANY_CPU, INTEL, MANY

LEARNED = (
    "float32 only; of this chip, plain layouts only",
    "and this chip's kernels in blocked layouts, and more in plain ones",
    "and its kernels in bfloat16: the shipped model",
)
"""What the three models have learned from; each has also what the one before it has."""


def learned_in_bfloat16() -> frozenset[str]:
    """Ids of the chip's kernels that multiply in bfloat16, were measured and may be learned from."""
    folder = DataFolder.open(DATASETS / INTEL)
    rows = folder.workloads(["workload_id", "name"]).to_pylist()
    pairs = {row["workload_id"] for row in rows if multiplies_bfloat16(row["name"])}
    for device in folder.device_ids():
        pairs &= {*pc.unique(folder.measurements(device, ["workload_id"])["workload_id"]).to_pylist()}
    return frozenset(pairs & {*load_split(DATASETS / INTEL, BLOCKED).train})


def models(folder: Path, before: Path | None, seed: int, *, quick: bool) -> Iterator[Taught]:
    """What each model has learned from, how many kernels in bfloat16 are among it, and its folder."""
    pairs = learned_in_bfloat16()
    yield LEARNED[2], len(pairs), Path(ANY_CPU.device)
    if before is not None:
        yield LEARNED[0], 0, before
    if not quick:
        yield LEARNED[1], 0, trained_without(pairs, folder, seed)


@click.command()
@click.option("--before", type=options.PATH, help="The any-cpu before this chip had such kernels, to compare with.")
@click.option("--seed", default=0, show_default=True)
@options.quick("Nothing is trained.")
@options.json_file()
def main(before: Path | None, seed: int, quick: bool, path: Any) -> None:
    """Trains any-cpu's recipe without and with a chip's kernels in bfloat16, and ranks held-out ones."""
    with tempfile.TemporaryDirectory() as folder:
        compared = models(Path(folder), before, seed, quick=quick)
        rows = ranked(compared, list(tests_of(INTEL, (PAIRS, BLOCKED, MANY))), "bfloat16_workloads")
    order = ["random order", *LEARNED]
    rows.sort(key=lambda row: order.index(row["learned"]))
    machine.write_result(path, {"seed": seed, "rows": rows})
