"""Trains the models of the headline table with another seed, and compares them with the table's spread."""

from __future__ import annotations

import json
import math
import statistics
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import click
from scipy import stats

from costhub.cards.tables import TableColumn, number, plain_table
from scripts.bench.common import machine, options
from scripts.bench.common.data import copy_dataset
from scripts.bench.models.grid import CEILING, GRIDS, RANDOM, GridEntry
from scripts.bench.models.runs import run
from scripts.bench.models.tasks import DeviceData

TABLE = machine.RESULTS / "model_comparison.json"
METRICS = ("top_1", "top_5", "pairwise")
SEED = 7
"""Not one of the table's seeds, which are 0 to 2."""
SAME = 5e-4
"""The table keeps four digits of every workload."""
CERTAINTY = 0.99
"""The probability that another seed's figure lies in the interval."""
PLACES = {
    "amd-epyc-zen5-2c": ("amd-epyc-zen5", "workload-40-seed0"),
    "intel-xeon-graniterapids-2c": ("intel-xeon-graniterapids", "workload-40-seed0"),
    "nvidia-h200": ("nvidia-h200", "fold-5"),
}
"""Device -> dataset of the package and split."""
COLUMNS = (
    TableColumn("device", "device"),
    TableColumn("model", "model"),
    TableColumn("metric", "metric"),
    *(number(key, title, ".3f") for key, title in (("here", "here"), ("mean", "table"), ("within", "+-"))),
    TableColumn("verdict", "verdict"),
)
Row = dict[str, Any]
Spreads = dict[tuple[bool, str, str], tuple[float, int]]
"""See `kind`, and the metric."""


def form(row: Row) -> tuple[str, ...]:
    """The keys that identify a line."""
    return tuple(row[key] for key in ("device", "split", "also", "model", "objective", "spec", "variant"))


def kind(row: Row) -> tuple[bool, str]:
    """Whether its folds are drawn anew by every seed, and the model."""
    return row["split"].startswith("fold"), row["model"]


def spreads(summary: list[Row]) -> Spreads:
    """Standard deviation between seeds, pooled over the devices, and its degrees of freedom.

    Three seeds of one device say little about a spread; those of all devices together do.
    """
    variances: dict[tuple[bool, str, str], list[tuple[float, int]]] = defaultdict(list)
    for row in summary:
        for metric in METRICS:
            if row["seeds"] > 1:
                variances[(*kind(row), metric)].append((row[f"{metric}_std"] ** 2, row["seeds"] - 1))
    return {
        key: (math.sqrt(sum(v * df for v, df in own) / sum(df for _, df in own)), sum(df for _, df in own))
        for key, own in variances.items()
    }


def entries(summary: list[Row], device: str, split: str) -> list[GridEntry]:
    """The learned models of a device in the table, each with its best objective and features."""
    lines = {form(row) for row in summary}
    return [
        entry
        for entry in GRIDS["best"]
        if entry.model not in (RANDOM, CEILING)
        and (device, split, "", entry.model, entry.objective, entry.spec, entry.variant) in lines
    ]


def trained(source: DeviceData, split: str, entry: GridEntry) -> dict[str, float]:
    """Means over the workloads, of all folds together."""
    rows = [run(source, part, entry, SEED) for part in source.parts([split], SEED)]
    by_workload = {name: [v for row in rows for v in row["by_workload"][name]] for name in METRICS}
    return {name: statistics.fmean(values) for name, values in by_workload.items()}


def compared(here: dict[str, float], row: Row, spread: Spreads) -> list[Row]:
    """One line per metric: the figure, that of the table, and whether the spread explains the difference."""
    table = []
    for metric, value in here.items():
        deviation, freedom = spread[(*kind(row), metric)]
        # Both another seed and the mean of the table's seeds vary; what has no seed does not.
        widest = float(stats.t.ppf(0.5 + CERTAINTY / 2, freedom))
        within = widest * deviation * math.sqrt(1 + 1 / row["seeds"])
        verdict = "ok" if abs(value - row[metric]) <= within + SAME else "outside" if within else "no spread"
        table.append(
            {
                "device": row["device"],
                "model": " ".join(filter(None, form(row)[3:])),
                "metric": metric,
                "here": value,
                "mean": row[metric],
                "within": within,
                "verdict": verdict,
            }
        )
    return table


@click.command()
@click.option("--device", "devices", multiple=True, type=click.Choice(sorted(PLACES)), help="All by default.")
@options.quick("The first model of one device.")
@options.json_file()
def main(devices: tuple[str, ...], quick: bool, path: Path | None) -> None:
    """A quarter of an hour on two cores; exits with 1 if more than one figure in twenty is outside."""
    summary: list[Row] = json.loads(TABLE.read_text())["summary"]
    lines, spread = {form(row): row for row in summary}, spreads(summary)
    rows: list[Row] = []
    for device, (dataset, split) in PLACES.items():
        if (devices and device not in devices) or (quick and rows):
            continue
        with tempfile.TemporaryDirectory() as folder:
            source = DeviceData(copy_dataset(folder, dataset), device)
            for entry in entries(summary, device, split)[: 1 if quick else None]:
                key = (device, split, "", entry.model, entry.objective, entry.spec, entry.variant)
                rows += compared(trained(source, split, entry), lines[key], spread)
                click.echo(plain_table(rows[-len(METRICS) :], COLUMNS))
    good, outside = (sum(row["verdict"] == verdict for row in rows) for verdict in ("ok", "outside"))
    click.echo(f"\n{good} of {len(rows)} figures are within the table's spread, {outside} outside.")
    machine.write_result(path, {"rows": rows})
    if outside > len(rows) / 20:
        raise SystemExit(1)
