"""Ranks held-out kernels of one chip by models of any-cpu's recipe that have learned from more and more of its data."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
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
from scripts.bench.common.data import DATASETS
from scripts.release.train import ANY_CPU, MANY, dataset, trained

SPEC = "tiles@1"
METRICS = ("top_1", "top_5", "pairwise")
COLUMNS = (
    *(TableColumn(name, name) for name in ("split", "device", "learned")),
    number("workloads", "workloads", "d"),
    *(number(name, name, ".3f") for name in METRICS),
    number("standard_error", "se of top_1", ".3f"),
)
Row = dict[str, Any]
Test = tuple[str, Any, Programs]
"""Split, row of the devices table and programs."""
Taught = tuple[str, int, Path]
"""What a model has learned from, how many of the workloads in question are among it, and its folder or name."""


def trained_without(workloads: Collection[str], folder: Path, seed: int) -> Path:
    """The folder of a model that has learned from all that the shipped one has, except for some workloads."""
    out = folder / "without"
    data = dataset(ANY_CPU.dataset, str(folder))
    whole = load_split(data, MANY)
    train = tuple(set(whole.train) - set(workloads))
    save_split(replace(whole, train=train, made_from=None), data / SPLITS_FOLDER / f"{MANY}.json")
    out.mkdir()
    return trained(ANY_CPU, data, out, seed)


def tests_of(chip: str, splits: Sequence[str]) -> Iterator[Test]:
    """The tests of a chip's dataset, for each of its devices."""
    data = DATASETS / chip
    devices = device_rows(data, [d for d in ANY_CPU.devices if d.startswith(chip)])
    for device_id, device in devices.items():
        programs = load_programs(data, device=device_id, spec=SPEC)
        for name in splits:
            yield name, device, programs.of_workloads(set(load_split(data, name).test))


def ranked(models: Iterable[Taught], tests: Sequence[Test], counted: str) -> list[Row]:
    """The figures of random order and of each model, which is trained when it is asked for; shown as they come.

    Args:
        models: What is compared.
        tests: What they rank.
        counted: The name in a row of how many of the workloads in question the model has learned from.
    """
    rows: list[Row] = []
    for split, device, test in tests:
        chance = evaluate_scores(np.random.default_rng(0).random(test.n), test)
        figures = {"workloads": len(chance.workloads), **{name: chance.totals[name] for name in METRICS}}
        rows.append({"split": split, "device": device["device_id"], "learned": "random order", **figures})
    for learned, count, place in models:
        model = read_model(find_model(str(place)))
        for split, device, test in tests:
            found = evaluate(model.bind(device), test)
            rows.append(
                {
                    **{"split": split, "device": device["device_id"], "learned": learned, counted: count},
                    **{"workloads": len(found.workloads), **{name: found.totals[name] for name in METRICS}},
                    "standard_error": found.standard_errors["top_1"],
                }
            )
        click.echo(plain_table(rows[-len(tests) :], COLUMNS))
    return rows
