"""Measures what a model for all CPUs must have seen to rank kernels in blocked layouts: the layout, or the chip."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import click
import numpy as np

from costhub.api.models import read_model
from costhub.cards.tables import TableColumn, number, plain_table
from costhub.dataset.load import load_programs
from costhub.dataset.programs import Programs
from costhub.dataset.splits.split import SPLITS_FOLDER, load_split, save_split
from costhub.hub.catalogue.devices import device_rows
from costhub.hub.catalogue.find import find_model
from costhub.models.evaluate import evaluate, evaluate_scores
from scripts.bench.common import machine, options
from scripts.bench.common.data import DATASETS
from scripts.release.train import EMERALD, MANY, RELEASES, ModelRelease, dataset, trained

SPEC = "tiles@1"
BLOCKED = "blocked-40-seed0"
SPLITS = (BLOCKED, MANY)
METRICS = ("top_1", "top_5", "pairwise")
COLUMNS = (
    *(TableColumn(name, name) for name in ("split", "device", "learned")),
    number("workloads", "workloads", "d"),
    *(number(name, name, ".3f") for name in METRICS),
    number("standard_error", "se of top_1", ".3f"),
)
Row = dict[str, Any]


def for_all_cpus() -> ModelRelease:
    """The release whose training is varied."""
    return next(each for each in RELEASES if each.device == "any-cpu")


def without_the_chip(release: ModelRelease) -> ModelRelease:
    """The same, from the other chips alone."""
    others = "+".join(name for name in release.dataset.split("+") if name != EMERALD)
    return replace(release, dataset=others, devices=tuple(d for d in release.devices if not d.startswith(EMERALD)))


def blocked_workloads() -> tuple[str, ...]:
    """Ids of the chip's kernels in blocked layouts that may be learned: no other dataset's split has them."""
    known = load_split(DATASETS / for_all_cpus().dataset.split("+")[0], MANY)
    own = load_split(DATASETS / EMERALD, MANY)
    return tuple(sorted({*own.train} - {*known.train, *known.test}))


def models(folder: Path, others: Path | None, seed: int) -> Iterator[tuple[str, int, Path]]:
    """What each model has learned, from how many blocked workloads of the chip, and its folder."""
    release, blocked = for_all_cpus(), blocked_workloads()
    yield "and this chip's kernels in blocked layouts: the shipped model", len(blocked), Path(release.device)
    rest = without_the_chip(release)
    yield "four other chips", 0, others or trained(rest, dataset(rest.dataset, str(folder)), folder, seed)
    data, out = dataset(release.dataset, str(folder)), folder / "plain"
    whole = load_split(data, MANY)
    train = tuple(set(whole.train) - set(blocked))
    save_split(replace(whole, train=train, made_from=None), data / SPLITS_FOLDER / f"{MANY}.json")
    out.mkdir()
    yield "and this chip's kernels in plain layouts", 0, trained(release, data, out, seed)


def tests() -> Iterator[tuple[str, Any, Programs]]:
    """Split, row of the devices table and programs of each test."""
    data = DATASETS / EMERALD
    devices = device_rows(data, [d for d in for_all_cpus().devices if d.startswith(EMERALD)])
    for device_id, device in devices.items():
        programs = load_programs(data, device=device_id, spec=SPEC)
        for name in SPLITS:
            yield name, device, programs.of_workloads(set(load_split(data, name).test))


def rows_of(learned: str, count: int, place: Path, held_out: Sequence[tuple[str, Any, Programs]]) -> Iterator[Row]:
    """The figures of one model."""
    model = read_model(find_model(str(place)))
    for split, device, test in held_out:
        found = evaluate(model.bind(device), test)
        yield {
            **{"split": split, "device": device["device_id"], "learned": learned, "blocked_workloads": count},
            **{"workloads": len(found.workloads), **{name: found.totals[name] for name in METRICS}},
            "standard_error": found.standard_errors["top_1"],
        }


@click.command()
@click.option("--others", type=options.PATH, help="The model of the other chips alone, if it is trained already.")
@click.option("--seed", default=0, show_default=True)
@options.quick("The shipped model alone.")
@options.json_file()
def main(others: Path | None, seed: int, quick: bool, path: Any) -> None:
    """Trains any-cpu's recipe with more and more of the chip's data, and ranks its held-out kernels."""
    held_out, rows = list(tests()), []
    for split, device, test in held_out:
        chance = evaluate_scores(np.random.default_rng(0).random(test.n), test)
        figures = {"workloads": len(chance.workloads), **{name: chance.totals[name] for name in METRICS}}
        rows.append({"split": split, "device": device["device_id"], "learned": "random order", **figures})
    with tempfile.TemporaryDirectory() as folder:
        # Each is trained when it is asked for, and the shipped one comes first.
        for learned, count, place in islice(models(Path(folder), others, seed), 1 if quick else None):
            rows += rows_of(learned, count, place, held_out)
            click.echo(plain_table(rows[-len(held_out) :], COLUMNS))
    rows.sort(key=lambda row: (row.get("blocked_workloads", -1), row["learned"].startswith("and")))
    machine.write_result(path, {"seed": seed, "rows": rows})
