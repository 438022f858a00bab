"""Compares feature specs: the same models with each of them, on workloads that are held out in folds.

Every workload is held out once, so hundreds of them are compared one by one, where a split holds out some forty.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click

from costhub.cards.tables import plain_table
from costhub.dataset.features.bodies import BODIES
from costhub.dataset.load import load_programs
from scripts.bench.common import machine, options
from scripts.bench.common.data import folds, own_copy
from scripts.bench.common.rows import Row, RowFile
from scripts.bench.models.grid import TILES, GridEntry
from scripts.bench.models.tasks import DeviceData
from scripts.bench.validated.validation import COLUMNS, KEY, VALIDATION, add, scores_of, summary_line

SPECS = (TILES, BODIES)
FOLDS = 4
MODELS = {"gbt": GridEntry("gbt", objective="log"), "mlp": GridEntry("mlp", objective="gap")}
EACH = 16
"""Programs of each workload: kernels of networks have about so many of each device."""


def titled(entry: GridEntry) -> str:
    """What a table calls a model that reads a spec."""
    return f"{entry.model} {entry.spec}"


def measure(source: DeviceData, kept: RowFile, entries: Sequence[GridEntry], each: int, count: int) -> None:
    """Adds the missing rows: a model for each entry and fold, tested on the workloads of the fold.

    Args:
        source: The device.
        kept: The rows so far; one that is there is not measured again.
        entries: Those with one spec follow one another, since its programs are held in memory.
        each: Programs of each workload to learn from and to test on.
        count: How many of the folds.
    """
    parts = folds(source.about, FOLDS, 0)[:count]
    for spec, own in itertools.groupby(entries, key=lambda entry: entry.spec):
        programs = load_programs(source.data, device=source.device, spec=spec, per_workload=each)
        for entry, part in itertools.product(own, parts):
            split = f"{part.split}-{part.fold}, {each} programs"
            about: Row = {
                "device": source.device,
                "split": split,
                "part": VALIDATION,
                "model": titled(entry),
                "seed": 0,
            }
            if kept.key_of(about) in kept:
                continue
            train, test = programs.of_workloads(set(part.train)), programs.of_workloads(set(part.test)).measured()
            _, scores, seconds = scores_of(entry, train, test, 0)
            add(kept, {**about, "programs": len(train.counts), "train_s": seconds}, scores, test)


def summary(rows: Sequence[Row], entries: Sequence[GridEntry]) -> Iterator[Row]:
    """Means over all workloads, and what is gained over the same model with the first spec, with standard errors."""
    for entry in entries:
        base = replace(entry, spec=entries[0].spec)
        yield summary_line(rows, VALIDATION, titled(entry), titled(base))


@click.command()
@options.data()
@click.option("--device", default="amd-epyc-zen5-2c", show_default=True)
@click.option("--spec", "specs", multiple=True, default=SPECS, show_default=True, help="The first is the base.")
@click.option("--arch", "archs", multiple=True, default=tuple(MODELS), show_default=True, type=click.Choice(MODELS))
@click.option("--each", default=EACH, show_default=True, help="Programs of each workload, at most.")
@options.quick("One fold, four programs of each workload, the first architecture.")
@options.rows_file()
@options.json_file()
def main(
    data: Path | None,
    device: str,
    specs: tuple[str, ...],
    archs: tuple[str, ...],
    each: int,
    quick: bool,
    rows_path: Path | None,
    path: Path | None,
) -> None:
    """Compares feature specs on workloads that are held out in folds."""
    each, count, archs = (4, 1, archs[:1]) if quick else (each, FOLDS, archs)
    entries = [replace(MODELS[arch], spec=spec) for spec in specs for arch in archs]
    source, kept = DeviceData(data or own_copy(), device), RowFile(rows_path, KEY)
    measure(source, kept, entries, each, count)
    rows = [row for row in kept.all if row["device"] == device and row["split"].endswith(f", {each} programs")]
    table = list(summary(rows, entries))
    click.echo(plain_table(table, COLUMNS))
    machine.write_result(path, {"device": device, "each": each, "folds": count, "summary": table})
