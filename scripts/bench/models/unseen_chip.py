"""Evaluates the shipped models on a chip that none of them has learned from, beside models of the chip itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from costhub.api.models import read_model
from costhub.cards.tables import TableColumn, number, plain_table
from costhub.dataset.folder import DataFolder
from costhub.dataset.load import load_programs
from costhub.dataset.programs import Programs
from costhub.dataset.splits.split import load_split
from costhub.hub.catalogue.devices import device_rows
from costhub.hub.catalogue.find import find_model, kinds_of
from costhub.hub.catalogue.hubs import list_models
from costhub.models.architectures import new_model
from costhub.models.evaluate import evaluate, evaluate_scores
from scripts.bench.common import machine, options
from scripts.bench.common.data import DATASETS

METRICS = ("top_1", "top_5", "pairwise")
SPLIT = "workload-40-seed0"
SPEC = "tiles@1"
OWN = {"gbt": {"objective": "log"}, "mlp": {}}
"""Architecture -> options of the models that learn from the chip itself."""
COLUMNS = (
    *(TableColumn(name, name) for name in ("device", "model", "seed")),
    *(number(name, name, ".3f") for name in METRICS),
)
Row = dict[str, Any]


def shipped(test: Programs, device: Mapping[str, Any]) -> Iterator[Row]:
    """The figures of every shipped model of the device's kind that has not learned from the device."""
    for entry in sorted(list_models(), key=lambda entry: entry.name):
        if device["kind"] in kinds_of(entry) and device["device_id"] not in entry.devices:
            model = read_model(find_model(entry.name)).bind(device)
            if model.feature_spec == SPEC:
                yield {"model": entry.name, "seed": None, **_figures(evaluate(model, test).totals)}


def of_folders(folders: Sequence[Path], test: Programs, device: Mapping[str, Any]) -> Iterator[Row]:
    """The figures of models that are not shipped, by the names of their folders."""
    for folder in folders:
        found = evaluate(read_model(find_model(str(folder))).bind(device), test).totals
        yield {"model": folder.name, "seed": None, **_figures(found)}


def of_the_chip(train: Programs, test: Programs, seeds: int) -> Iterator[Row]:
    """The figures of models that learned from the chip's own measurements of the other workloads."""
    for arch, given in OWN.items():
        for seed in range(seeds):
            model = new_model(arch, feature_spec=SPEC, options=given)
            model.fit(train, None, seed=seed, progress=False)
            yield {"model": f"{arch} of this device", "seed": seed, **_figures(evaluate(model, test).totals)}


@click.command()
@click.option("--dataset", default="amd-epyc-zen4", show_default=True, help="Embedded dataset with the chip's data.")
@click.option("--model", "folders", multiple=True, type=options.PATH, help="Also this model, which is not shipped.")
@options.seeds(3)
@options.quick("One seed.")
@options.json_file()
def main(dataset: str, folders: tuple[Path, ...], seeds: int, quick: bool, path: Any) -> None:
    """Ranks the programs of 40 workloads that no shipped CPU model has learned from."""
    data = DATASETS / dataset
    split = load_split(data, SPLIT)
    rows: list[Row] = []
    for device_id, device in device_rows(data, DataFolder.open(data).device_ids()).items():
        programs = load_programs(data, device=device_id, spec=SPEC)
        test, train = (programs.of_workloads(set(side)) for side in (split.test, split.train))
        chance = evaluate_scores(np.random.default_rng(0).random(test.n), test).totals
        found = [*shipped(test, device), *of_folders(folders, test, device)]
        found += of_the_chip(train, test, 1 if quick else seeds)
        own = [*found, {"model": "random order", "seed": None, **_figures(chance)}]
        rows += [{"device": device_id, "workloads": len(set(test.workload.tolist())), **row} for row in own]
    click.echo(plain_table(rows, COLUMNS))
    machine.write_result(path, {"split": SPLIT, "rows": rows})


def _figures(totals: Mapping[str, float]) -> Row:
    return {name: totals[name] for name in METRICS}
