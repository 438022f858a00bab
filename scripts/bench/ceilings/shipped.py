"""Trains as a shipped model was trained, with several seeds: what its recipe gives, and what training and scoring cost.

A shipped model is one draw of its recipe; the other seeds say how much of its figures is chance. Nothing is installed.
"""

from __future__ import annotations

import datetime
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from costhub.api.models import read_model
from costhub.cards.tables import TableColumn, number, plain_table
from costhub.collector.device.cpu_state import core_count
from costhub.dataset.features.compute import featurise, read_chunks
from costhub.dataset.features.specs import find_spec
from costhub.dataset.folder import DataFolder
from costhub.dataset.load import load_programs
from costhub.dataset.programs import Programs
from costhub.dataset.splits.split import Split, list_splits, load_split, put_split
from costhub.hub.catalogue.devices import device_rows
from costhub.hub.catalogue.find import find_model
from costhub.hub.catalogue.hubs import read_config
from costhub.models.architectures import ARCHITECTURES
from costhub.models.evaluate import evaluate
from costhub.models.protocol import CostModel
from scripts.bench.common import machine, options
from scripts.bench.common.data import BLOCKED, DATASET, DATASETS, DEVICE, small_folder
from scripts.bench.common.rows import RowFile
from scripts.bench.common.synthetic import good_keys
from scripts.bench.models.runs import SCORED, rate
from scripts.release.train import RELEASES, TREES, ModelRelease, dataset, trained

SHIPPED, QUICK = "as shipped", "quick form"
QUICK_SPLIT = "one-of-two"
RANKED_TREES = f"gbt({','.join((*TREES[1:], 'objective=rank'))})"
VARIANTS: Mapping[str, Mapping[str, str]] = {
    SHIPPED: {},
    "400 trees at 0.05": {"rounds=200": "rounds=400", "learning_rate=0.1": "learning_rate=0.05"},
    "with trees that rank": {" mlp": f" mlp {RANKED_TREES}"},
    "four members": {" mlp": f" mlp {RANKED_TREES} mlp(objective=rank)"},
}
"""Name -> words of the recipe's options, and what they are replaced by."""
METRICS = ("top_1", "top_5", "pairwise")
LEARNED = ("options", "train_programs", "train_workloads")
"""What a model learned from, and how."""
RATES = ("train_s", "train_cpu_s", "bytes", "predictions_per_s", "with_features_per_s")
"""Figures of a training."""
KEY = ("model", "variant", "seed", "split", "device")
"""The keys that identify a row; those of a training have neither split nor device."""
COLUMNS = (
    *(TableColumn(name, name) for name in KEY),
    number("workloads", "workloads", "d"),
    *(number(name, name) for name in METRICS),
)
MEANS = (
    *(TableColumn(name, name) for name in ("model", "variant", "split")),
    *(number(name, name, "d") for name in ("devices", "seeds")),
    *(part for name in METRICS for part in (number(name, name), number(f"{name}_std", "std"))),
)
COSTS = (
    *(TableColumn(name, name) for name in ("model", "variant")),
    *(number(name, name, ",.0f") for name in ("seeds", "train_programs", "threads", *RATES)),
)
Row = dict[str, Any]
HeldOut = tuple[str, Mapping[str, Any], Programs]
"""Split, row of the devices table and programs."""


def name_of(release: ModelRelease) -> str:
    """What the hub calls its model."""
    return f"{release.device}-{release.arch}"


def varied(release: ModelRelease, variant: str) -> ModelRelease:
    """The same recipe with other trees.

    Raises:
        click.ClickException: The recipe does not say what the variant changes.
    """
    changed = with_words(release, VARIANTS[variant])
    if VARIANTS[variant] and changed == release:
        raise click.ClickException(f"The recipe of {name_of(release)} has no {' or '.join(VARIANTS[variant])} to vary.")
    return changed


def with_words(release: ModelRelease, words: Mapping[str, str]) -> ModelRelease:
    """The same with other words in its options."""
    for old, new in words.items():
        release = replace(release, options=tuple(option.replace(old, new) for option in release.options))
    return release


def quick_form(release: ModelRelease) -> ModelRelease:
    """Few trees, which learn from `small_data`."""
    few = with_words(release, {"rounds=200": "rounds=8"})
    return replace(few, split=QUICK_SPLIT, dataset=DATASET, devices=(DEVICE,))


def small_data(folder: Path) -> Path:
    """A folder with one workload to learn from and another one to test on."""
    data = small_folder(folder / "small")
    one, other = sorted(DataFolder.open(data).workloads(["workload_id"])["workload_id"].to_pylist())
    put_split(data, Split(QUICK_SPLIT, (one,), (other,)))
    return data


def joined(name: str, data: Path | None, scratch: str) -> Path:
    """The data folder of a recipe.

    Args:
        name: The dataset of the package, or several joined by `+`.
        data: Where it is kept; made there if there is nothing yet, whole or not at all. None for nowhere.
        scratch: A temporary folder.
    """
    if data is None:
        return dataset(name, scratch)
    if not data.exists():
        data.absolute().parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=data.absolute().parent) as beside:
            shutil.move(dataset(name, beside), data)
    return data


def ranked_devices(release: ModelRelease) -> tuple[str, ...]:
    """The devices that its card has figures of."""
    return (release.device,) if release.device in release.devices else release.devices or (release.device,)


def places(release: ModelRelease, data: Path) -> Iterator[tuple[str, Path, list[str]]]:
    """Each split whose tested workloads are ranked, the folder that has it, and the devices."""
    devices = ranked_devices(release)
    yield release.split, data, list(devices)
    for name in release.dataset.split("+"):
        if BLOCKED in list_splits(DATASETS / name):
            own = DataFolder.open(DATASETS / name).device_ids()
            yield BLOCKED, DATASETS / name, [device for device in devices if device in own]


def held_out_programs(release: ModelRelease, data: Path) -> Iterator[HeldOut]:
    """The programs that models rank, by split and device.

    Raises:
        click.ClickException: The folder lacks devices that the recipe learns from, as one that was joined for another.
    """
    if lacking := set(release.devices or (release.device,)) - set(DataFolder.open(data).device_ids()):
        raise click.ClickException(
            f"{data} has no measurements of {', '.join(sorted(lacking))}, from which {name_of(release)} learns: choose "
            "another folder with --data."
        )
    for split, place, devices in places(release, data):
        tested = set(load_split(place, split).test)
        for device_id, device in device_rows(data, devices).items():
            programs = load_programs(data, device=device_id, workloads=tested, spec=spec_of(release))
            if programs.n:
                yield split, device, programs


def spec_of(release: ModelRelease) -> str:
    """The features that its model reads."""
    return str(ARCHITECTURES.find(release.arch).default_spec)


def measured(
    release: ModelRelease, about: Row, data: Path, held_out: Sequence[HeldOut], folder: Path
) -> tuple[list[Row], Row]:
    """The figures of one more model of a recipe, by split and device, and those of its training.

    `train_s` is that of `costhub train`, which also reads the features and evaluates; it computes no features.

    Args:
        release: The recipe.
        about: The model, variant and seed.
        data: What it learns from.
        held_out: What it ranks.
        folder: Where the model goes.
    """
    devices = list(release.devices or (release.device,))
    # Computes the features that are missing.
    load_programs(data, device=devices, spec=spec_of(release), per_workload=release.each, seed=about["seed"])
    began, began_cpu = time.perf_counter(), time.process_time()
    out = trained(release, data, folder, about["seed"])
    train_s, train_cpu_s = time.perf_counter() - began, time.process_time() - began_cpu
    model, config = read_model(find_model(str(out))), read_config(out)
    _, device, programs = held_out[0]
    bound = model.bind(device)
    training = {
        **about,
        "options": " ".join(release.options),
        "train_programs": config["data_rows"],
        "train_workloads": len(config["train_workloads"]),
        "threads": int(os.environ.get("OMP_NUM_THREADS", "").partition(",")[0] or core_count()),
        "train_s": train_s,
        "train_cpu_s": train_cpu_s,
        "bytes": sum(path.stat().st_size for path in out.rglob("*") if path.is_file()),
        "predictions_per_s": rate(bound, programs),
        "with_features_per_s": rate_from_traces(bound, data, device["device_id"]),
        "at": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "load_average": round(os.getloadavg()[0], 2),
    }
    return list(figures(model, about, held_out)), training


def figures(model: CostModel, about: Row, held_out: Sequence[HeldOut]) -> Iterator[Row]:
    """How well a model ranks, by split and device; `_se` is the standard error over the workloads, None of only one."""
    for split, device, programs in held_out:
        found = evaluate(model.bind(device), programs).to_json()
        row = {**about, "split": split, "device": device["device_id"], "workloads": len(found["workloads"])}
        errors = {f"{name}_se": found["standard_errors"][name] for name in METRICS}
        yield {**row, **{name: found["totals"][name] for name in METRICS}, **errors}


def rate_from_traces(model: CostModel, data: Path, device: str) -> float:
    """Programs scored in a second if their features are computed, in processes that start for it."""
    keys = good_keys(data, device).unique()
    some = keys.take(np.linspace(0, len(keys) - 1, min(SCORED, len(keys))).astype(int))
    chunks = list(read_chunks(DataFolder.open(data), device, some))
    began = time.perf_counter()
    computed = featurise(chunks, find_spec(model.feature_spec))
    rows = [own for _, features in computed for own in features if own is not None]
    model.predict(np.concatenate(rows), np.array([len(own) for own in rows], np.int64))
    return len(rows) / (time.perf_counter() - began)


def add_missing(release: ModelRelease, variant: str, data: Path, kept: RowFile, seeds: Sequence[int]) -> None:
    """Trains with each of these seeds and adds the rows."""
    held_out = list(held_out_programs(release, data))
    for seed in seeds:
        about = {"model": name_of(release), "variant": variant, "seed": seed}
        with tempfile.TemporaryDirectory() as folder:
            rows, training = measured(release, about, data, held_out, Path(folder))
        # The row of the training is the last one: a seed that has it has all others.
        kept.add(*(row for row in (*rows, training) if kept.key_of(row) not in kept))
        click.echo(f"{plain_table(rows, COLUMNS)}\n\nTrained in {training['train_s']:,.0f} s.\n")


def missing(kept: RowFile, release: ModelRelease, variant: str, seeds: int) -> list[int]:
    """The seeds with which a recipe has not been trained yet."""
    about = {"model": name_of(release), "variant": variant}
    return [seed for seed in range(seeds) if kept.key_of({**about, "seed": seed}) not in kept]


def result_of(kept: Iterable[Row], wanted: Collection[tuple[str, str]], seeds: int) -> Row:
    """The content of the result file: the rows of some models and variants, and what they say together."""
    own = [row for row in kept if (row["model"], row["variant"]) in wanted and row["seed"] < seeds]
    rows, training = ([row for row in own if key in row] for key in ("split", "train_s"))
    return {
        "rows": rows,
        "summary": summary(rows),
        "over_devices": over_devices(rows),
        "training": training,
        "training_summary": training_summary(training),
    }


def summary(rows: Sequence[Row]) -> list[Row]:
    """By split and device: the mean of each metric over the seeds, with the standard deviation over them as `_std`.

    `_se` is the mean of the seeds' standard errors over the workloads.
    """
    found = []
    for about, own in grouped(rows, ("model", "variant", "split", "device")):
        line = {**about, "seeds": len(own), "workloads": own[0]["workloads"]}
        for name in METRICS:
            errors = [row[f"{name}_se"] for row in own]
            line |= with_std(name, [row[name] for row in own])
            line[f"{name}_se"] = None if None in errors else statistics.fmean(errors)
        found.append(line)
    return found


def over_devices(rows: Sequence[Row]) -> list[Row]:
    """By split: the mean over devices and seeds, with the standard deviation of the seeds' means as `_std`.

    `_lowest` and `_highest` are those of a device, as means over the seeds.
    """
    found = []
    for about, own in grouped(rows, ("model", "variant", "split")):
        of_seeds, of_devices = ([part for _, part in grouped(own, (key,))] for key in ("seed", "device"))
        line = {**about, "devices": len(of_devices), "seeds": len(of_seeds)}
        for name in METRICS:
            line |= with_std(name, [mean(part, name) for part in of_seeds])
            means = [mean(part, name) for part in of_devices]
            line |= {f"{name}_lowest": min(means), f"{name}_highest": max(means)}
        found.append(line)
    return found


def training_summary(training: Sequence[Row]) -> list[Row]:
    """By model and variant: the means of `RATES` over the seeds, and the longest training."""
    found = []
    for about, own in grouped(training, ("model", "variant", *LEARNED, "threads")):
        means = {name: mean(own, name) for name in RATES}
        found.append({**about, "seeds": len(own), **means, "train_s_highest": max(row["train_s"] for row in own)})
    return found


def grouped(rows: Iterable[Row], keys: Sequence[str]) -> list[tuple[Row, list[Row]]]:
    """The values of some keys, and the rows that have them, in the order in which they come.

    Example:
        >>> grouped([{"a": 1, "b": 2}, {"a": 3, "b": 4}, {"a": 1, "b": 5}], ["a"])
        [({'a': 1}, [{'a': 1, 'b': 2}, {'a': 1, 'b': 5}]), ({'a': 3}, [{'a': 3, 'b': 4}])]
    """
    cells: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        cells.setdefault(tuple(row[key] for key in keys), []).append(row)
    return [(dict(zip(keys, values, strict=True)), own) for values, own in cells.items()]


def mean(rows: Sequence[Row], name: str) -> float:
    """The mean of a figure."""
    return statistics.fmean(row[name] for row in rows)


def with_std(name: str, values: Sequence[float]) -> Row:
    """The mean of a figure and its standard deviation; None if there is only one value.

    Example:
        >>> with_std("top_1", [0.0, 1.0, 2.0]), with_std("top_1", [0.5])
        ({'top_1': 1.0, 'top_1_std': 1.0}, {'top_1': 0.5, 'top_1_std': None})
    """
    return {name: statistics.fmean(values), f"{name}_std": statistics.stdev(values) if len(values) > 1 else None}


@click.command()
@click.option(
    "--device",
    default="any-cpu",
    show_default=True,
    type=click.Choice(sorted({each.device for each in RELEASES})),
    help="What the shipped models are for.",
)
@click.option("--arch", "archs", multiple=True, help="Those of this architecture only.")
@click.option(
    "--variant",
    "variants",
    multiple=True,
    default=(SHIPPED,),
    show_default=True,
    type=click.Choice(list(VARIANTS)),
    help="What is changed in the recipe.",
)
@options.data("What they learn from, made there if there is nothing yet; by default made and removed again.")
@options.seeds()
@options.quick("One seed, a few trees, one workload to learn from; --data and --variant do not count.")
@options.rows_file()
@options.json_file()
def main(
    device: str,
    archs: tuple[str, ...],
    variants: tuple[str, ...],
    data: Path | None,
    seeds: int,
    quick: bool,
    rows_path: Path | None,
    path: Path | None,
) -> None:
    """Trains the recipes of shipped models anew and installs nothing; run it alone, since trainings are timed."""
    chosen = [each for each in RELEASES if each.device == device and (not archs or each.arch in archs)]
    if not chosen:
        there = ", ".join(each.arch for each in RELEASES if each.device == device)
        raise click.UsageError(f"The architectures of {device} are {there}; --arch names none of them.")
    seeds = 1 if quick else seeds
    if quick:
        forms = [(quick_form(each), QUICK) for each in chosen]
    else:
        forms = [(varied(each, variant), variant) for each in chosen for variant in variants]
    kept = RowFile(rows_path, KEY)
    left = [form for form in forms if missing(kept, *form, seeds)]
    if left:
        with tempfile.TemporaryDirectory() as scratch:
            # The models of a device learn from the same data.
            place = small_data(Path(scratch)) if quick else joined(chosen[0].dataset, data, scratch)
            for release, variant in left:
                add_missing(release, variant, place, kept, missing(kept, release, variant, seeds))
    found = result_of(kept, {(name_of(release), variant) for release, variant in forms}, seeds)
    click.echo(f"{plain_table(found['over_devices'], MEANS)}\n\n{plain_table(found['training_summary'], COSTS)}")
    machine.write_result(path, found)
