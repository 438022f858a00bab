"""Measures whether a model that knows the numbers of devices ranks better on a device it has never seen."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from costhub.cards.tables import TableColumn, number, plain_table
from costhub.dataset.folder import DataFolder
from costhub.dataset.load import load_programs
from costhub.dataset.programs import Programs
from costhub.dataset.splits.split import load_split
from costhub.hub.catalogue.devices import device_rows
from costhub.models.compound.conditioned import Conditioned, ConditionedOptions
from costhub.models.evaluate import evaluate
from costhub.models.networks.mlp import Mlp
from costhub.models.networks.network_options import MlpOptions
from costhub.models.protocol import CostModel
from costhub.models.trees.gbt import Gbt, GbtOptions
from scripts.bench.common import machine, options
from scripts.bench.common.data import SPLIT, copy_dataset
from scripts.bench.common.rows import earlier_rows

SPEC = "tiles@1"
BASES = ("gbt", "mlp")
SEEN, NEW = "workloads known from others", "new workloads"
TOLD = {"told numbers": False, "told numbers and relations": True}
METRICS = ("top_1", "top_5", "pairwise")
COLUMNS = (
    TableColumn("test", "on the device left out"),
    TableColumn("base", "base"),
    TableColumn("method", "method"),
    *(number(metric, metric) for metric in METRICS),
    *(number(f"{metric}_std", "std") for metric in METRICS),
)


@dataclass(frozen=True)
class Sizes:
    """The size of the training: small, so that all devices can be left out in turn."""

    each: int
    rounds: int
    epochs: int
    hidden: int

    def new(self, base: str) -> CostModel:
        """A model that knows nothing about devices."""
        if base == "gbt":
            return Gbt(feature_spec=SPEC, options=GbtOptions(rounds=self.rounds, learning_rate=0.1))
        return Mlp(feature_spec=SPEC, options=MlpOptions(epochs=self.epochs, hidden=self.hidden))

    def drawn(self, programs: Programs, seed: int) -> Programs:
        """At most `each` programs of every group, so that every device has the same weight."""
        return programs.at_most(self.each, seed=seed)


def compare(
    programs: Programs,
    left_out: str,
    base: str,
    seed: int,
    sizes: Sizes,
    split: Mapping[str, set[str]],
    devices: Mapping[str, Mapping[str, Any]],
    kin: set[str],
) -> Iterator[dict[str, Any]]:
    """The figures of each method on the device left out."""
    own = programs.of_devices({left_out})
    train_side = programs.of_workloads(split[SEEN])
    others = sizes.drawn(train_side.of_devices(set(devices) - {left_out} - kin), seed)
    models: dict[str, tuple[CostModel, Programs]] = {"told nothing": (sizes.new(base), others)}
    for method, relations in TOLD.items():
        options = ConditionedOptions(relations=relations)
        conditioned = Conditioned(feature_spec=SPEC, options=options, devices=devices, base=sizes.new(base))
        models[method] = conditioned, others
    models["trained on this device"] = sizes.new(base), sizes.drawn(train_side.of_devices({left_out}), seed)
    for method, (model, train) in models.items():
        start = time.perf_counter()
        model.fit(train, None, seed=seed, progress=False)
        row = {"method": method, "programs": train.n, "train_s": time.perf_counter() - start}
        scorer = model.bind(devices[left_out]) if isinstance(model, Conditioned) else model
        # A model is not tested on what it has learned from.
        for test in (NEW,) if method == "trained on this device" else (SEEN, NEW):
            totals = evaluate(scorer, own.of_workloads(split[test])).totals
            yield {**row, "test": test, **{metric: totals[metric] for metric in METRICS}}


@click.command()
@options.data_folders("Data folders, the first with the split; the embedded dataset of the CPU by default.")
@click.option(
    "--base",
    "bases",
    multiple=True,
    type=click.Choice(BASES),
    default=BASES,
    show_default=True,
    help="Architectures that get the numbers.",
)
@click.option("--each", default=32, show_default=True, help="Programs of a workload and device, at most.")
@click.option("--rounds", default=200, show_default=True, help="Trees of the gbt.")
@click.option("--epochs", default=20, show_default=True, help="Of the mlp.")
@click.option("--hidden", default=128, show_default=True, help="Of the mlp.")
@click.option("--leave-out", "asked", multiple=True, help="Devices to leave out in turn; all by default.")
@click.option("--new-chip", is_flag=True, help="With a device leave out all others of its chip.")
@options.seeds(3)
@options.quick("One seed, three devices, the first left out.")
@options.json_file("What is there is not done again.")
def main(
    folders: tuple[Path, ...],
    bases: tuple[str, ...],
    each: int,
    rounds: int,
    epochs: int,
    hidden: int,
    asked: tuple[str, ...],
    new_chip: bool,
    seeds: int,
    quick: bool,
    path: Path | None,
) -> None:
    """Leaves out one device of the data after the other, and trains on the workloads of the split."""
    sizes = Sizes(each, rounds, epochs, hidden)
    with tempfile.TemporaryDirectory() as folder:
        folders = folders or (copy_dataset(folder),)
        held_out = load_split(folders[0] / SPLIT)
        split = {SEEN: set(held_out.train), NEW: set(held_out.test)}
        parts: list[Programs] = []
        devices: dict[str, dict[str, Any]] = {}
        for data in folders:
            names = DataFolder.open(data).device_ids()[: 3 if quick else None]
            parts.append(load_programs(data, device=names, workloads=split[SEEN] | split[NEW], spec=SPEC))
            devices |= device_rows(data, names)
        programs, names = Programs.join(parts), [*devices]
    about = {**vars(sizes), "new_chip": new_chip}
    rows = earlier_rows(path, **about)
    done = {(row["seed"], row["base"], row["device"]) for row in rows}
    for seed in range(1 if quick else seeds):
        for base in bases:
            for left_out in asked or names[: 1 if quick else None]:
                if (seed, base, left_out) in done:
                    continue
                kin = {name for name in names if new_chip and _chip(devices[name]) == _chip(devices[left_out])}
                own = compare(programs, left_out, base, seed, sizes, split, devices, kin)
                rows += [{"device": left_out, "base": base, "seed": seed, **row} for row in own]
                # After each device, since all of them take long.
                machine.write_result(path, {**about, "summary": summary(rows), "rows": rows})
    click.echo(plain_table(summary(rows), COLUMNS))


def _chip(device: Mapping[str, Any]) -> tuple[Any, Any]:
    """A virtual machine names chips of several generations alike."""
    return device["model_name"], device["microarchitecture"]


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean over the devices left out of the means over seeds, and the spread over devices."""
    table = []
    keys = ("test", "base", "method")
    for key in sorted({tuple(row[name] for name in keys) for row in rows}):
        own = [row for row in rows if tuple(row[name] for name in keys) == key]
        line: dict[str, Any] = dict(zip(keys, key, strict=True))
        for metric in METRICS:
            means = [
                np.mean([row[metric] for row in own if row["device"] == device])
                for device in sorted({row["device"] for row in own})
            ]
            line |= {metric: float(np.mean(means)), f"{metric}_std": float(np.std(means))}
        table.append(line)
    return table
