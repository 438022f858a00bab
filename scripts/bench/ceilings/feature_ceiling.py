"""Separates what limits a model: too few programs of the very workload, or features that do not tell them apart."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from costhub.cards.tables import TableColumn, number, plain_table
from costhub.dataset.folder import DataFolder
from costhub.dataset.load import load_programs
from costhub.dataset.programs import Programs, drawn_places
from costhub.dataset.splits.split import load_split
from costhub.models.architectures import new_model
from costhub.models.evaluate import evaluate
from costhub.models.parts import part_leads, part_widths
from costhub.models.protocol import CostModel
from costhub.models.trees.pooling import pool_parts
from scripts.bench.common import machine, options
from scripts.bench.common.data import DATASETS, plain_workloads
from scripts.tables.models.ceilings import feature_ceiling_summary

SPLIT = "workload-40-seed0"
SPECS = ("tiles@1", "per_store@1")
KNOWN = 0.75
"""The share of a held-out workload's programs that may be learned from; the others are tested on in all cases."""
MODELS = {"gbt": {"objective": "log"}, "mlp": {}, "blend": {"members": "gbt(objective=log) mlp"}}
METRICS = ("top_1", "top_5", "pairwise")
OTHERS = "other workloads"
Row = dict[str, Any]
LEARNED = (
    *(TableColumn(name, name) for name in ("split", "spec", "arch", "learned from", "seed")),
    *(number(name, name, ".3f") for name in (*METRICS, "error")),
)
ALIKE = (
    *(TableColumn(name, name) for name in ("device", "spec")),
    *(number(name, name, ".3f") for name in ("spread", "nearest", "nearest_tenth", "random_pair")),
)


def parted(held_out: Programs, known: int, *, seed: int) -> tuple[Programs, Programs]:
    """`known` programs of each workload, drawn at random, and the others."""
    place = drawn_places(held_out, np.random.default_rng(seed))
    return held_out.select(place < known), held_out.select(place >= known)


def of_known_workloads(programs: Programs, held: set[str], archs: Sequence[str], each: int, seed: int) -> Iterator[Row]:
    """Models that learn from other workloads, from these and most programs of the held-out ones, or from the latter.

    All are tested on the rest of the held-out workloads, and those that know nothing of these on all of their programs.
    """
    others, held_out = programs.of_workloads(set(programs.workload_ids) - held), programs.of_workloads(held)
    known, test = parted(held_out, int(KNOWN * each), seed=seed)
    trainings = {OTHERS: others, "both": Programs.join([others, known]), "these workloads": known}
    spec = programs.spec
    for arch in archs:
        for name, train in trainings.items():
            model = new_model(arch, feature_spec=spec, options=MODELS[arch])
            model.fit(train, None, seed=seed, progress=False)
            row = {"spec": spec, "arch": arch, "seed": seed}
            yield {**row, "learned from": name, **_figures(model, test)}
            if name == OTHERS:
                yield {**row, "learned from": f"{OTHERS}; tested on all", **_figures(model, held_out)}


def _figures(model: CostModel, test: Programs) -> Row:
    totals = evaluate(model, test).totals
    found: Row = {metric: totals[metric] for metric in METRICS}
    if model.arch == "gbt":
        found["error"] = log_error(np.asarray(model.predict(test.rows, test.counts), np.float64), test)
    return found


def log_error(scores: npt.NDArray[np.float64], test: Programs) -> float:
    """Standard deviation of score + log latency within a workload: the error where scores are log throughput.

    Example:
        >>> p = Programs.from_list([np.ones((1, 2))] * 2, np.array([0, 0]), ("w",), np.array([1.0, np.e]))
        >>> round(log_error(np.array([0.0, 0.0]), p), 3)
        0.707
    """
    off = scores + np.log(test.latency_s)
    squares, degrees = 0.0, 0
    for number_ in np.unique(test.group):
        own = off[test.group == number_]
        squares, degrees = squares + float(((own - own.mean()) ** 2).sum()), degrees + len(own) - 1
    return float(np.sqrt(squares / degrees))


def alike(programs: Programs, spec: str) -> Row:
    """How far the latencies of programs differ that are nearest to each other in features, within a workload.

    Returns:
        In logarithms, as standard deviations of one program: `spread` of a workload; `nearest` of each program and its
        nearest neighbour; `nearest_tenth` of the tenth of these pairs that are nearest; `random_pair` for comparison.
    """
    inputs = pool_parts(
        programs.rows, programs.counts, part_widths(spec, programs.rows.shape[1]), part_leads(spec)
    ).astype(np.float64)
    inputs = (inputs - inputs.mean(axis=0)) / np.where(inputs.std(axis=0) > 0, inputs.std(axis=0), 1.0)
    gaps, distances, chance, spreads = [], [], [], []
    rng = np.random.default_rng(0)
    for number_ in np.unique(programs.group):
        own = np.flatnonzero(programs.group == number_)
        logs = np.log(programs.latency_s[own])
        squares = (inputs[own] ** 2).sum(axis=1)
        distance = squares[:, None] + squares[None, :] - 2 * inputs[own] @ inputs[own].T
        np.fill_diagonal(distance, np.inf)
        nearest = distance.argmin(axis=1)
        gaps.append(logs - logs[nearest])
        distances.append(distance.min(axis=1))
        chance.append(logs - logs[rng.permutation(len(own))])
        spreads.append(logs.std())
    gap, near = np.concatenate(gaps), np.concatenate(distances)
    tenth = near <= np.quantile(near, 0.1)
    return {
        "spread": float(np.mean(spreads)),
        "nearest": _of_one(gap),
        "nearest_tenth": _of_one(gap[tenth]),
        "random_pair": _of_one(np.concatenate(chance)),
    }


def _of_one(gap: npt.NDArray[np.float64]) -> float:
    """Of two programs that differ by `gap`, the standard deviation of one."""
    return float(np.sqrt(np.mean(gap**2) / 2))


@click.command()
@click.option("--dataset", default="amd-epyc-zen5", show_default=True, help="Embedded dataset, or a data folder.")
@click.option("--device", default="amd-epyc-zen5-2c", show_default=True)
@click.option(
    "--split", "splits", multiple=True, default=(SPLIT,), show_default=True, help="Its test side is held out."
)
@click.option("--spec", "specs", multiple=True, default=SPECS, show_default=True, help="Layouts of features.")
@click.option("--arch", "archs", multiple=True, default=tuple(MODELS), show_default=True, type=click.Choice(MODELS))
@click.option("--each", default=32, show_default=True, help="Programs of each workload, at most.")
@options.data("A data folder with many programs of each workload, whose neighbours are compared too.")
@options.seeds(3)
@options.quick("One seed, one layout.")
@options.json_file()
def main(
    dataset: str,
    device: str,
    splits: tuple[str, ...],
    specs: tuple[str, ...],
    archs: tuple[str, ...],
    each: int,
    data: Path | None,
    seeds: int,
    quick: bool,
    path: Path | None,
) -> None:
    """Tests on programs of workloads that are known, or not, to models; and compares neighbours."""
    folder = DATASETS / dataset
    places = [] if data is None else [(data, name) for name in DataFolder.open(data).device_ids()]
    learned: list[Row] = []
    neighbours: list[Row] = []
    for spec in specs[: 1 if quick else None]:
        workloads = plain_workloads(folder)
        programs = load_programs(folder, device=device, workloads=workloads, per_workload=each, spec=spec)
        for split, seed in itertools.product(splits, range(1 if quick else seeds)):
            held = set(load_split(folder, split).test)
            learned += [{"split": split, **row} for row in of_known_workloads(programs, held, archs, each, seed)]
        neighbours.append({"device": device, "spec": spec, **alike(programs.measured(), spec)})
        for place, name in places:
            own = load_programs(place, device=name, spec=spec).measured()
            neighbours.append({"device": name, "spec": spec, **alike(own, spec)})
    click.echo(plain_table(learned, LEARNED))
    click.echo(plain_table(neighbours, ALIKE))
    result = {"dataset": dataset, "device": device, "summary": feature_ceiling_summary(learned)}
    machine.write_result(path, {**result, "rows": learned, "neighbours": neighbours})
