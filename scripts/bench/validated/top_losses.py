"""Losses of boosted trees for the head of the list: chosen on validation workloads, and only then tested.

The validation workloads are drawn inside the training side of a split. Only the loss that is best on them is fitted to
the whole training side and ranks the tested workloads, beside the default and what a blend is made of today.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click

from costhub.cards.tables import plain_table
from costhub.dataset.programs import Programs
from costhub.models.protocol import Scores
from scripts.bench.common import machine, options
from scripts.bench.common.data import SplitPart, folds, own_copy
from scripts.bench.common.rows import Row, RowFile
from scripts.bench.models.grid import TILES, TOP, GridEntry
from scripts.bench.models.tasks import DeviceData
from scripts.bench.validated.validation import (
    COLUMNS,
    FOLDS,
    KEY,
    TEST,
    VALIDATION,
    add,
    by_workload,
    named,
    scores_of,
    standardised,
    summary_line,
)

CHOSEN_BY = "top_1"
"""The figure whose mean over the validation workloads decides; fixed before any of them was computed."""
DEFAULT, TODAY = TOP[0], TOP[1]
"""What `gbt` learns unless told, and the trees of a blend as the other benchmarks build it."""
NETWORK = GridEntry("mlp", TILES, "gap")
"""The other member of a blend."""


def blended(entry: GridEntry) -> str:
    """What a table calls its blend with the network."""
    return f"blend of {named(entry)} and {NETWORK.model}"


def validation_part(source: DeviceData, train: frozenset[str], seed: int) -> SplitPart:
    """A third of the workloads to learn from, to validate on; three seeds in a row divide them among themselves."""
    about = [row for row in source.about if row["workload_id"] in train]
    part = folds(about, FOLDS, seed // FOLDS)[seed % FOLDS]
    return replace(part, split=VALIDATION)


def validate(source: DeviceData, split: SplitPart, kept: RowFile, seeds: int) -> None:
    """Adds the missing rows of all losses on validation workloads."""
    for seed in range(seeds):
        part = validation_part(source, split.train, seed)
        for entry in TOP:
            about = {"device": source.device, "split": split.split, "part": VALIDATION, "model": named(entry)}
            if kept.key_of({**about, "seed": seed}) not in kept:
                train, valid = source.sides(part, entry, seed)
                _, scores, seconds = scores_of(entry, train, valid, seed)
                add(kept, {**about, "seed": seed, "train_s": seconds}, scores, valid)


def chosen(rows: Sequence[Row]) -> GridEntry:
    """The loss with the best mean over all validation workloads."""
    return max(TOP, key=lambda entry: _mean(by_workload(rows, VALIDATION, named(entry), CHOSEN_BY)))


def test(source: DeviceData, split: SplitPart, kept: RowFile, seeds: int, best: GridEntry) -> None:
    """Adds the missing rows on the tested workloads: of the chosen loss, and of those that it is compared with."""
    trees = list({named(entry): entry for entry in (DEFAULT, TODAY, best)}.values())
    names = [*map(named, trees), *map(blended, (TODAY, best))]
    for seed in range(seeds):
        about = {"device": source.device, "split": split.split, "part": TEST, "seed": seed}
        if all(kept.key_of({**about, "model": name}) in kept for name in names):
            continue
        train, held_out = source.sides(split, DEFAULT, seed)
        found = {named(entry): scores_of(entry, train, held_out, seed) for entry in (*trees, NETWORK)}
        for entry in trees:
            _, scores, seconds = found[named(entry)]
            add(kept, {**about, "model": named(entry), "train_s": seconds}, scores, held_out)
        for entry in {named(entry): entry for entry in (TODAY, best)}.values():
            scores = blend_scores([found[named(each)][:2] for each in (entry, NETWORK)], train)
            add(kept, {**about, "model": blended(entry)}, scores, held_out)


def blend_scores(members: Sequence[tuple[Scores, Scores]], train: Programs) -> Scores:
    """The scores that a `Blend` of equal weights gives, from its members' for the programs to learn from and to rank.

    Members are fitted once and serve alone and in each blend.
    """
    scores: Scores = standardised(members, train).mean(axis=0)
    return scores


def summary(rows: Sequence[Row], best: GridEntry) -> Iterator[Row]:
    """Means over workloads of the means over seeds, with standard errors over workloads, and what is gained.

    A gain is the difference to the base on the same workloads: the default for trees, today's blend for blends.
    """
    losses = {name: named(DEFAULT) for name in map(named, TOP)}
    tested = losses | {name: blended(TODAY) for name in map(blended, (TODAY, best))}
    for part, bases in ((VALIDATION, losses), (TEST, tested)):
        for model, base in bases.items():
            if any((row["part"], row["model"]) == (part, model) for row in rows):
                yield summary_line(rows, part, model, base)


def _mean(values: Mapping[str, float]) -> float:
    return statistics.fmean(values.values())


@click.command()
@options.data()
@click.option("--device", default="amd-epyc-zen5-2c", show_default=True)
@click.option("--split", "name", default="workload-40-seed0", show_default=True, help="Its test side is held out.")
@options.seeds(FOLDS)
@options.quick("One seed.")
@options.rows_file()
@options.json_file()
def main(
    data: Path | None, device: str, name: str, seeds: int, quick: bool, rows_path: Path | None, path: Path | None
) -> None:
    """Chooses a loss of boosted trees on validation workloads and tests the chosen one."""
    seeds = 1 if quick else seeds
    source, kept = DeviceData(data or own_copy(), device), RowFile(rows_path, KEY, device=device, split=name)
    (split,) = source.parts([name], 0)
    validate(source, split, kept, seeds)
    best = chosen(kept.all)
    test(source, split, kept, seeds, best)
    table = list(summary(kept.all, best))
    click.echo(plain_table(table, COLUMNS))
    machine.write_result(path, {"chosen": named(best), "chosen_by": CHOSEN_BY, "summary": table})
