"""Measures how far a source chosen by a few programs of the target lies behind the best one."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

from costhub.cards.tables import number, plain_table
from costhub.dataset.folder import DataFolder
from costhub.dataset.load import load_programs
from costhub.dataset.programs import Programs
from costhub.models.architectures import new_model
from costhub.models.evaluate import evaluate
from costhub.models.protocol import CostModel
from costhub.transfer.sources import rank_sources
from scripts.bench.common import machine, options
from scripts.bench.common.data import own_copy

SPEC = "tiles@1"
PROBED = (8, 16, 32, 64)
METRICS = ("pairwise", "top_1")


def rows_of(programs: dict[str, Programs], seed: int, draws: int) -> Iterator[dict[str, Any]]:
    """For every target: how far the chosen source lies behind the best of all other devices."""
    names = sorted({p.workload_ids[i] for p in programs.values() for i in np.unique(p.workload)})
    drawn = np.random.default_rng(seed).permutation(len(names))
    out = {names[i] for i in drawn[: len(names) // 4]}
    models: dict[str, CostModel] = {}
    for device, own in programs.items():
        models[device] = new_model("gbt", feature_spec=SPEC, options={"objective": "log"})
        models[device].fit(own.of_workloads(set(names) - out), None, seed=seed, progress=False)
    for target, own in programs.items():
        others = {device: model for device, model in models.items() if device != target}
        test, pool = own.of_workloads(out), own.of_workloads(set(names) - out)
        totals = {device: evaluate(model, test).totals for device, model in others.items()}
        best = {metric: max(own[metric] for own in totals.values()) for metric in METRICS}
        for probed in PROBED:
            for draw in range(draws):
                ranked = rank_sources(others, {SPEC: pool}.__getitem__, seed=100 * seed + draw, probed=probed)
                chosen = ranked[0].name
                behind = {metric: best[metric] - totals[chosen][metric] for metric in METRICS}
                yield {
                    "target": target,
                    "seed": seed,
                    "draw": draw,
                    "probed": probed,
                    "source": chosen,
                    **behind,
                }


@click.command()
@options.data("Data folder of several devices; a copy of the embedded dataset by default.")
@options.seeds(3, "Choices of held-out workloads.")
@click.option("--draws", default=10, show_default=True, help="Choices of the programs probed, of each.")
@options.quick("One seed, three draws.")
@options.json_file()
def main(data: Path | None, seeds: int, draws: int, quick: bool, path: Path | None) -> None:
    """Prints how far the chosen source is behind the best with 8 to 64 programs probed."""
    data = data or own_copy()
    devices = DataFolder.open(data).device_ids()
    programs = {device: load_programs(data, device=device, spec=SPEC) for device in devices}
    rows = [row for seed in range(1 if quick else seeds) for row in rows_of(programs, seed, 3 if quick else draws)]
    table = []
    for probed in PROBED:
        lost = [row["pairwise"] for row in rows if row["probed"] == probed]
        top = [row["top_1"] for row in rows if row["probed"] == probed]
        table.append(
            {
                "probed": probed,
                "mean": statistics.fmean(lost),
                "p90": float(np.quantile(lost, 0.9)),
                "worst": max(lost),
                "top_1": statistics.fmean(top),
                "within": statistics.fmean(value <= 0.02 for value in lost),
            }
        )
    columns = [
        number("probed", "programs probed", "d"),
        number("mean", "pairwise behind the best, mean"),
        number("p90", "90th percentile"),
        number("worst", "worst"),
        number("top_1", "top-1, mean"),
        number("within", "share within 0.02", ".0%"),
    ]
    click.echo(plain_table(table, columns))
    machine.write_result(path, {"summary": table, "rows": rows})
