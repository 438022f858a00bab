"""Compares cost models with TVM's and TenSet's recipes, random choice and the noise ceiling."""

from __future__ import annotations

import fnmatch
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click

from costhub.cards.tables import TableColumn, number, plain_table
from costhub.dataset.folder import DataFolder
from costhub.dataset.splits.split import SPLITS_FOLDER, load_split, save_split
from costhub.errors import DataError, UnknownNameError
from costhub.hub.data import find_data
from costhub.models.evaluate import METRICS
from costhub.names import close_names
from scripts.bench.common import machine, options
from scripts.bench.common.data import BLOCKED, DATASETS, SplitPart, own_copy, own_folder
from scripts.bench.common.rows import RowFile
from scripts.bench.models.grid import GRIDS, TWO_PASSES, GridEntry
from scripts.bench.models.runs import KEY, key_of, run
from scripts.bench.models.tasks import DeviceData
from scripts.release.train import ANY_CPU, EMERALD, MANY, dataset
from scripts.tables.models.comparison import summaries

COLUMNS = (
    *(TableColumn(name, name) for name in ("device", "split", "model", "objective", "spec", "variant")),
    *(part for name in METRICS for part in (number(name, name), number(f"{name}_se", "se"))),
    number("top_1_std", "std"),
    number("train_s", "train s", ",.0f"),
    number("predictions_per_s", "scored/s", ",.0f"),
)


def joined_copy() -> Path:
    """A folder with the data that the shipped model of all CPUs learns from; it goes away with the process.

    It also has BLOCKED, with the workloads of `MANY` to learn from, so that both splits test what learned the same.
    """
    place = own_folder()
    made = dataset(ANY_CPU.dataset, str(place))
    many, blocked = load_split(made, MANY), load_split(DATASETS / EMERALD, BLOCKED)
    train = tuple(set(many.train) - set(blocked.test))
    split = replace(many, name=BLOCKED, train=train, test=blocked.test, made_from=None)
    save_split(split, made / SPLITS_FOLDER / f"{BLOCKED}.json")
    return made.rename(place / ANY_CPU.device)


def sources_of(
    names: Sequence[str], devices: Sequence[str], also: Path | None, each: int | None = None
) -> list[DeviceData]:
    """The devices of the data with these names, or those of them that are in `devices`.

    Raises:
        CosthubError: One of its kinds: no folder, dataset or device has such a name, or nothing is left.
    """
    places = [find_data(name) for name in names]
    found = [
        (place.folder, device)
        for place in places
        for device in ([place.device_id] if place.device_id else DataFolder.open(place.folder).device_ids())
    ]
    missing = set(devices) - {device for _, device in found}
    if missing or not found:
        raise DataError(
            f"{', '.join(names)} has no measurements of {', '.join(sorted(missing)) or 'any device'}. "
            f"It has those of {', '.join(device for _, device in found) or 'none'}."
        )
    return [DeviceData(folder, device, also, each) for folder, device in found if not devices or device in devices]


def entries_of(grid: str, only: str) -> list[GridEntry]:
    """The lines of a grid whose labels fit a pattern.

    Raises:
        UnknownNameError: None does.
    """
    labels = [entry.label for entry in GRIDS[grid]]
    found = [entry for entry in GRIDS[grid] if fnmatch.fnmatch(entry.label, only)]
    if not found:
        plain = only.strip("*/")
        raise UnknownNameError(
            f"line of the grid {grid}",
            only,
            close_names(plain, labels),
            "scripts/bench/models/grid.py",
            labels,
            advice="An objective or a variant that a line has not is left out, with its slash.",
        )
    return found


def plan(
    sources: list[DeviceData], entries: list[GridEntry], splits: tuple[str, ...], seeds: int
) -> Iterator[tuple[DeviceData, SplitPart, GridEntry, int]]:
    """Everything to do; the rows of one feature spec come together, since loading takes long."""
    for source in sources:
        for kind in dict.fromkeys(entry.rows for entry in entries):
            for seed in range(seeds):
                for part in source.parts(splits or source.default_splits(), seed):
                    for entry in entries:
                        possible = entry.variant != TWO_PASSES or source.median_gap() is not None
                        # With all workloads it is what the line `programs 1/1` is.
                        possible &= entry.workloads is None or entry.workloads < len(part.train)
                        if entry.rows == kind and possible:
                            yield source, part, entry, seed


def work(
    tasks: Iterator[tuple[DeviceData, SplitPart, GridEntry, int]],
    kept: RowFile,
    *,
    budget_s: float,
    valid_share: float,
) -> None:
    """Adds the missing rows."""
    ends = time.monotonic() + budget_s
    for source, part, entry, seed in tasks:
        if kept.key_of(key_of(source, part, entry, seed)) in kept:
            continue
        if time.monotonic() > ends:
            click.echo("The budget is spent; run the command again to continue.", err=True)
            return
        label = f"{source.device} {part.split}.{part.fold} seed {seed} {entry.label}"
        try:
            row = run(source, part, entry, seed, valid_share=valid_share)
        except Exception as error:  # one failing model must not cost hours of the others
            click.echo(f"{label}: {error!r}", err=True)
            continue
        kept.add(row)
        click.echo(f"{label}: top_1 {row['top_1']:.3f}, {row.get('train_s', 0.0):.1f} s")


@click.command()
@click.option(
    "--data",
    "names",
    multiple=True,
    help="Folders, datasets or devices; by default a copy of amd-epyc-zen5, "
    "for learning-joint the data of all CPUs, joined as any-cpu learns from them.",
)
@click.option("--device", "devices", multiple=True, help="Of the data; all by default.")
@click.option(
    "--split",
    "splits",
    multiple=True,
    help="A split of the data, such as fold-5-seed0-1; fold-N for all folds of each seed; validation-N for N of the "
    f"workloads that {MANY} learns from, drawn with each seed, or validation-N-seedS; c1-c6-to-c7, c1-c6-to-c7-c12 or "
    "c1-c6-to-matmul. By default held-out-14 and network-tenset, or fold-5.",
)
@click.option("--also", type=click.Path(path_type=Path), help="A folder of one device to learn from as well.")
@click.option("--grid", type=click.Choice(sorted(GRIDS)), default="comparison", show_default=True)
@click.option("--only", default="*", show_default=True, help="Pattern of model/objective/spec/variant.")
@options.seeds(3)
@click.option(
    "--each", type=click.IntRange(min=2), help="Programs of each workload to learn from at most; all by default."
)
@click.option("--valid-share", default=0.0, show_default=True, help="Of the workloads, to stop training early.")
@click.option("--budget", "budget_s", type=float, default=math.inf, help="Seconds after which no new row is begun.")
@options.quick("One seed of a few models on one device.")
@options.rows_file()
@options.json_file("The summary of all rows.")
def main(
    names: tuple[str, ...],
    devices: tuple[str, ...],
    splits: tuple[str, ...],
    also: Path | None,
    grid: str,
    only: str,
    seeds: int,
    each: int | None,
    valid_share: float,
    budget_s: float,
    quick: bool,
    rows_path: Path | None,
    path: Path | None,
) -> None:
    """Fits every model of a grid on the train side of every split and ranks the programs of the test side."""
    if not names:
        names = (str(joined_copy() if grid == "learning-joint" and not quick else own_copy()),)
    sources = sources_of(names, devices, also, each)
    if quick:
        grid, seeds, sources = "quick", 1, sources[:1]
        splits = splits or tuple(sources[0].default_splits()[:1])
    kept = RowFile(rows_path, KEY, valid_share=valid_share)
    tasks = plan(sources, entries_of(grid, only), splits, seeds)
    work(tasks, kept, budget_s=budget_s, valid_share=valid_share)
    table = summaries(kept.all)
    click.echo(plain_table(sorted(table, key=lambda row: -row["top_1"]), COLUMNS))
    if path:
        short = [{k: v for k, v in row.items() if k not in ("workload_ids", "by_workload")} for row in kept]
        machine.write_result(path, {"summary": table, "rows": short})
