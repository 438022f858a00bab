"""Measures what a model for all CPUs must have learned from to rank kernels in bfloat16."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow.compute as pc

from costhub.api.models import read_model
from costhub.cards.reports.tune_facts import multiplies_bfloat16
from costhub.cards.tables import TableColumn, number, plain_table
from costhub.dataset.folder import DataFolder
from costhub.dataset.load import load_programs
from costhub.dataset.programs import Programs
from costhub.dataset.splits.split import SPLITS_FOLDER, load_split, save_split
from costhub.hub.catalogue.devices import device_rows
from costhub.hub.catalogue.find import find_model
from costhub.models.evaluate import evaluate, evaluate_scores
from scripts.bench.common import machine, options
from scripts.bench.common.data import BLOCKED, DATASETS, PAIRS
from scripts.release.train import INTEL, MANY, RELEASES, ModelRelease, dataset, trained

SPEC = "tiles@1"
SPLITS = (PAIRS, BLOCKED, MANY)
LEARNED = (
    "float32 only; of this chip, plain layouts only",
    "and this chip's kernels in blocked layouts, and more in plain ones",
    "and its kernels in bfloat16: the shipped model",
)
"""What the three models have learned from; each has also what the one before it has."""
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


def learned_in_bfloat16() -> frozenset[str]:
    """Ids of the chip's kernels that multiply in bfloat16, were measured and may be learned from."""
    folder = DataFolder.open(DATASETS / INTEL)
    rows = folder.workloads(["workload_id", "name"]).to_pylist()
    pairs = {row["workload_id"] for row in rows if multiplies_bfloat16(row["name"])}
    for device in folder.device_ids():
        pairs &= {*pc.unique(folder.measurements(device, ["workload_id"])["workload_id"]).to_pylist()}
    return frozenset(pairs & {*load_split(DATASETS / INTEL, BLOCKED).train})


def models(folder: Path, before: Path, seed: int) -> Iterator[tuple[str, int, Path]]:
    """What each model has learned from, how many kernels in bfloat16 are among it, and its folder."""
    release, pairs = for_all_cpus(), learned_in_bfloat16()
    yield LEARNED[2], len(pairs), Path(release.device)
    yield LEARNED[0], 0, before
    data, out = dataset(release.dataset, str(folder)), folder / "float32"
    whole = load_split(data, MANY)
    train = tuple(set(whole.train) - pairs)
    save_split(replace(whole, train=train, made_from=None), data / SPLITS_FOLDER / f"{MANY}.json")
    out.mkdir()
    yield LEARNED[1], 0, trained(release, data, out, seed)


def tests() -> Iterator[tuple[str, Any, Programs]]:
    """Split, row of the devices table and programs of each test."""
    data = DATASETS / INTEL
    devices = device_rows(data, [d for d in for_all_cpus().devices if d.startswith(INTEL)])
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
            **{"split": split, "device": device["device_id"], "learned": learned, "bfloat16_workloads": count},
            **{"workloads": len(found.workloads), **{name: found.totals[name] for name in METRICS}},
            "standard_error": found.standard_errors["top_1"],
        }


@click.command()
@click.option("--before", required=True, type=options.PATH, help="The any-cpu before this chip had such kernels.")
@click.option("--seed", default=0, show_default=True)
@options.quick("The shipped model and that of --before.")
@options.json_file()
def main(before: Path, seed: int, quick: bool, path: Any) -> None:
    """Trains any-cpu's recipe without and with a chip's kernels in bfloat16, and ranks held-out ones."""
    held_out, rows = list(tests()), []
    for split, device, test in held_out:
        chance = evaluate_scores(np.random.default_rng(0).random(test.n), test)
        figures = {"workloads": len(chance.workloads), **{name: chance.totals[name] for name in METRICS}}
        rows.append({"split": split, "device": device["device_id"], "learned": "random order", **figures})
    with tempfile.TemporaryDirectory() as folder:
        # Each is trained when it is asked for, the shipped one and that of before first.
        for learned, count, place in islice(models(Path(folder), before, seed), 2 if quick else None):
            rows += rows_of(learned, count, place, held_out)
            click.echo(plain_table(rows[-len(held_out) :], COLUMNS))
    order = ["random order", *LEARNED]
    rows.sort(key=lambda row: order.index(row["learned"]))
    machine.write_result(path, {"seed": seed, "rows": rows})
