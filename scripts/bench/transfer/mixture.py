"""Compares a transfer from one source with one from a blend of sources that few programs can tell apart."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from costhub.cards.tables import TableColumn, number, plain_table
from costhub.dataset.folder import DataFolder
from costhub.dataset.load import load_programs
from costhub.dataset.programs import FloatArray, IntArray, Programs
from costhub.models.architectures import new_model
from costhub.models.evaluate import evaluate_scores
from costhub.models.folder import load_model, save_model
from costhub.models.protocol import CostModel, Scores
from costhub.models.train import data_hash, describe_model
from costhub.models.trees.gbt import Gbt
from costhub.papers.source_mixture import MAX_SOURCES, indistinguishable, mixture_scale
from costhub.transfer.sources import RankedSource, rank_sources
from scripts.bench.common import machine, options
from scripts.bench.common.data import own_copy, own_folder

SPEC = "tiles@1"
KNOWN = "known@1"
"""The spec of sources whose scores are computed already."""
PROBED = (8, 16, 32, 64)
CHOICES = {"random": False, "telling": True}
OPTIONS: dict[str, dict[str, object]] = {"gbt": {"objective": "log"}, "mlp": {}}
METHODS = ("single", "mixture", "all")
METRICS = ("pairwise", "top_1")
KEY = ("task", "target", "seed", "probed", "choice")
COLUMNS = [
    TableColumn("task", "sources"),
    number("probed", "probed", "d"),
    TableColumn("choice", "programs"),
    TableColumn("method", "begin with"),
    number("made", "made", ".0%"),
    number("mean", "pairwise behind the best, mean", ".4f"),
    number("seeds_sd", "sd over seeds", ".4f"),
    number("worst", "worst"),
    number("within", "within 0.02", ".1%"),
    number("top_1", "top-1, mean", ".4f"),
    number("top_1_worst", "top-1, worst"),
]


@dataclass
class ScoredSource(Gbt):
    """A source whose scores are computed already; the row of a program is its position among them."""

    scores: Scores
    feature_spec: str = KNOWN

    def predict(self, rows: FloatArray, counts: IntArray) -> Scores:
        """(n,) scores of the programs at these positions."""
        return self.scores[rows[:, 0].astype(np.int64)]


@dataclass(frozen=True)
class TransferTask:
    """A target and the sources for it."""

    name: str
    target: str
    sources: tuple[tuple[str, str], ...]
    """Architecture and device of each."""
    known: bool = False
    """Whether the sources know the workloads that are held out on the target from their own devices."""


def tasks_of(kinds: dict[str, str], more: Sequence[str], unlike: Sequence[str]) -> Iterator[TransferTask]:
    """For every device the others of its kind, with one architecture or several; for some devices all."""
    for target, kind in kinds.items():
        others = [device for device, own in kinds.items() if device != target and own == kind]
        if len(others) > 1:
            trees = tuple(("gbt", device) for device in others)
            yield TransferTask(f"{kind}, gbt", target, trees)
            yield TransferTask(f"{kind}, gbt, workloads known", target, trees, known=True)
            if more:
                pairs = tuple((arch, device) for arch in ("gbt", *more) for device in others)
                yield TransferTask(f"{kind}, {' and '.join(('gbt', *more))}", target, pairs)
    for target in unlike:
        yield TransferTask(f"{target} from all", target, tuple(("gbt", own) for own in kinds if own != target))


def trained(arch: str, device: str, programs: Programs, seed: int, folder: Path) -> CostModel:
    """A source model, read from the folder if it holds one trained on the same programs."""
    path = folder / f"{arch}-{device}-{seed}-{data_hash(programs)[:12]}"
    if path.exists():
        return load_model(path)[0]
    model = new_model(arch, feature_spec=SPEC, options=OPTIONS[arch])
    model.fit(programs, None, seed=seed, progress=False)
    info = describe_model(model, programs, device_id=device, seed=seed, licence="Apache-2.0")
    save_model(model, path, info)
    return model


def rows_of(
    programs: dict[str, Programs], tasks: Sequence[TransferTask], seed: int, draws: int, folder: Path
) -> Iterator[dict[str, Any]]:
    """How each way of choosing ranks held-out workloads, for every task, number of programs and draw."""
    names = sorted({p.workload_ids[i] for p in programs.values() for i in np.unique(p.workload)})
    shuffled = np.random.default_rng(seed).permutation(len(names))
    out = {names[i] for i in shuffled[: len(names) // 4]}
    models = {}
    for known, pair in sorted({(task.known, pair) for task in tasks for pair in task.sources}):
        # Those that know all workloads are the same for every seed.
        learned = programs[pair[1]] if known else programs[pair[1]].of_workloads(set(names) - out)
        models[known, pair] = trained(*pair, learned, 0 if known else seed, folder)
    for task in tasks:
        own = programs[task.target]
        scores = {" ".join(pair): models[task.known, pair].predict(own.rows, own.counts) for pair in task.sources}
        places = np.arange(own.n, dtype=np.float32)[:, None]
        placed = replace(own, rows=places, counts=np.ones(own.n, np.int64), spec="")
        for figures in _choices(placed, scores, out, seed, draws):
            yield {"task": task.name, "target": task.target, "seed": seed, **figures}


def _choices(
    placed: Programs, scores: dict[str, Scores], out: set[str], seed: int, draws: int
) -> Iterator[dict[str, Any]]:
    test, pool = placed.of_workloads(out), placed.of_workloads(set(placed.workload_ids) - out)
    place = test.rows[:, 0].astype(np.int64)
    alone = {name: evaluate_scores(own[place], test).totals for name, own in scores.items()}
    best = {metric: max(totals[metric] for totals in alone.values()) for metric in METRICS}

    def judge(some: Sequence[RankedSource]) -> dict[str, float]:
        if len(some) == 1:
            return alone[some[0].name]
        standard = mixture_scale(some)
        mixed = standard.weight @ standard(np.stack([scores[one.name][place] for one in some]))
        return evaluate_scores(mixed, test).totals

    sources: dict[str, Any] = {name: ScoredSource(own) for name, own in scores.items()}
    workloads = np.unique(pool.workload)
    for draw in range(draws):
        # Which workloads could be measured: both ways of choosing programs choose from the same.
        half = np.random.default_rng([seed, draw]).permutation(workloads)[: len(workloads) // 2]
        able = pool.of_workloads({pool.workload_ids[i] for i in half})
        for probed in PROBED:
            for choice, tell_apart in CHOICES.items():
                ranked = rank_sources(
                    sources, {KNOWN: able}.__getitem__, seed=draw, probed=probed, tell_apart=tell_apart
                )
                mixed = indistinguishable(ranked)[:MAX_SOURCES]
                figures = {"single": judge(ranked[:1]), "mixture": judge(mixed), "all": judge(ranked)}
                yield {
                    "probed": probed,
                    "choice": choice,
                    "mixed": len(mixed),
                    **{f"best_{metric}": best[metric] for metric in METRICS},
                    **{f"{name}_{m}": one[m] for name, one in figures.items() for m in METRICS},
                }


def gathered(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each value of KEY, with a list of the results of its draws."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in KEY), []).append(row)
    return [
        dict(zip(KEY, key, strict=True))
        | {name: [round(row[name], 4) for row in own] for name in own[0] if name not in KEY}
        for key, own in groups.items()
    ]


def summary_of(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each task, number of programs, choice of them and method."""
    table = []
    keys = dict.fromkeys((row["task"], row["probed"], row["choice"]) for row in rows)
    for task, probed, choice in keys:
        own = [row for row in rows if (row["task"], row["probed"], row["choice"]) == (task, probed, choice)]
        for method in METHODS:
            lost = {m: [row[f"best_{m}"] - row[f"{method}_{m}"] for row in own] for m in METRICS}
            by_seed = [
                statistics.fmean(v for v, row in zip(lost["pairwise"], own, strict=True) if row["seed"] == s)
                for s in dict.fromkeys(row["seed"] for row in own)
            ]
            table.append(
                {
                    "task": task,
                    "probed": probed,
                    "choice": choice,
                    "method": method,
                    "draws": len(own),
                    "mean": statistics.fmean(lost["pairwise"]),
                    "seeds_sd": statistics.stdev(by_seed) if len(by_seed) > 1 else None,
                    "p90": float(np.quantile(lost["pairwise"], 0.9)),
                    "worst": max(lost["pairwise"]),
                    "within": statistics.fmean(value <= 0.02 for value in lost["pairwise"]),
                    "top_1": statistics.fmean(lost["top_1"]),
                    "top_1_worst": max(lost["top_1"]),
                    "made": statistics.fmean(row["mixed"] > 1 for row in own) if method == "mixture" else None,
                }
            )
    return table


@click.command()
@options.data_folders("Data folders; a copy of the embedded dataset by default.")
@click.option("--more", multiple=True, default=("mlp",), show_default=True, help="Architectures beside gbt.")
@click.option("--unlike", multiple=True, help="Target for which the devices of all kinds are sources.")
@options.models_folder()
@options.seeds(3, "Choices of held-out workloads.")
@click.option("--draws", default=10, show_default=True, help="Choices of the programs probed, of each.")
@options.quick("One seed, three draws, three devices, trees alone.")
@options.json_file()
def main(
    folders: tuple[Path, ...],
    more: tuple[str, ...],
    unlike: tuple[str, ...],
    models: Path | None,
    seeds: int,
    draws: int,
    quick: bool,
    path: Path | None,
) -> None:
    """Behind the best single source in hindsight by how much, on held-out workloads."""
    programs, kinds = {}, {}
    for data in folders or (own_copy(),):
        kind_of = {row["device_id"]: row["kind"] for row in DataFolder.open(data).devices().to_pylist()}
        for device in DataFolder.open(data).device_ids()[: 3 if quick else None]:
            kinds[device] = kind_of[device]
            programs[device] = load_programs(data, device=device, spec=SPEC)
    tasks = list(tasks_of(kinds, () if quick else more, unlike))
    kept = models or own_folder()
    number_of_seeds, number_of_draws = (1, 3) if quick else (seeds, draws)
    rows = [row for seed in range(number_of_seeds) for row in rows_of(programs, tasks, seed, number_of_draws, kept)]
    table = summary_of(rows)
    click.echo(plain_table(table, COLUMNS))
    if path:
        machine.write_result(path, {"summary": table, "rows": gathered(rows)}, indent=None)
