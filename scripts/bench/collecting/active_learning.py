"""Asks whether a model may choose which programs a collection measures, and how many measurements that saves.

This is active learning from a pool, simulated: all programs of the pools were measured. Some of each workload are
chosen, a model learns from these alone, and ranks the programs of workloads that are held out. How many programs
chosen at random would serve as well tells what is saved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import click
import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from costhub.dataset.folder import DataFolder, among
from costhub.dataset.load import load_programs
from costhub.dataset.programs import IntArray, Programs
from costhub.dataset.splits.split import load_split
from costhub.hub.catalogue.devices import device_rows
from costhub.models.evaluate import evaluate, evaluate_scores
from costhub.models.parts import part_leads, part_widths
from costhub.models.protocol import Scores
from costhub.models.trees.pooling import pool_parts
from costhub.papers.autotvm_models import bootstrap
from scripts.bench.common import machine, options
from scripts.bench.common.data import DATASETS, plain_workloads
from scripts.bench.common.rows import Row, RowFile
from scripts.bench.models.grid import MEMBERS, SHIPPED, TILES, GridEntry
from scripts.release.train import ANY_CPU
from scripts.tables.collecting import active_learning_table
from scripts.tables.gains import mean_with_error

TARGETS = ("amd-epyc-zen5-1c", "intel-xeon-emeraldrapids-1c")
CHOOSER = GridEntry("conditioned", TILES, options={**SHIPPED, "members": SHIPPED["members"].split()[0]})
"""The trees of the shipped model, which learn from all devices but those of the target's chip."""
LEARNERS = {
    "gbt": GridEntry("gbt", TILES, "log"),
    "blend": GridEntry("blend", TILES, options={"members": MEMBERS}),
}
"""Models that learn from what was chosen."""
RANDOM, HIGHEST, SPREAD, DISTANT = "at random", "highest score", "largest spread of scores", "most distant in features"
HALF = "half highest score, half at random"
STRATEGIES = (RANDOM, HIGHEST, SPREAD, DISTANT, HALF)
SHARES, QUICK_SHARES = (0.1, 0.25, 0.5), (0.25,)
LOWEST, ALL = 0.05, 1.0
"""Shares that are only drawn at random."""
LEAST = 2
"""Programs chosen of a workload: one alone has nothing to be compared with."""
METRICS = ("top_1", "top_5", "pairwise")
RESAMPLES, LEVEL = 1000, 0.9
"""Bootstraps of the tested workloads, and the share of them that an interval holds."""
KEY = ("device", "each", "members", "most_workloads", "model", "strategy", "share", "seed")


@dataclass(frozen=True)
class Sizes:
    """Programs of a workload on a device of another chip, models that choose together, workloads of a side."""

    each: int = 32
    members: int = 4
    most_workloads: int | None = None


@dataclass(frozen=True)
class Sides:
    """What is chosen from on a device, what is tested on, and what was measured elsewhere."""

    pool: Programs
    test: Programs
    elsewhere: Programs
    """Of the workloads of the pool, on devices of other chips."""
    devices: Mapping[str, Mapping[str, Any]]
    """Of both, by id, as the devices table has them."""
    shared: float
    """The share of the pool's programs that were measured elsewhere too."""


def dataset_of(device: str) -> str:
    """The dataset with the measurements of a device, which are those of its chip."""
    return next(name for name in ANY_CPU.dataset.split("+") if device in DataFolder.open(DATASETS / name).device_ids())


def workload_sides(dataset: str, most: int | None) -> tuple[set[str], set[str]]:
    """The workloads to choose programs of, in TVM's own layouts, and the held-out ones; `most` of each."""
    split = load_split(DATASETS / dataset, ANY_CPU.split)
    train = set(split.train) - set(split.test)
    train &= plain_workloads(DATASETS / dataset) or train
    return set(sorted(train)[:most]), set(sorted(split.test)[:most])


def other_chips(dataset: str, workloads: set[str]) -> Iterator[tuple[Path, list[str], set[str]]]:
    """The datasets of the other chips: folder, devices, and those of the workloads that its split does not hold out."""
    for name in ANY_CPU.dataset.split("+"):
        if name != dataset:
            devices = [each for each in DataFolder.open(DATASETS / name).device_ids() if each in ANY_CPU.devices]
            yield DATASETS / name, devices, workloads & set(load_split(DATASETS / name, ANY_CPU.split).train)


def program_ids(folder: Path, devices: Sequence[str], workloads: set[str]) -> set[str]:
    """The ids of the programs of some workloads that ran on some devices."""
    where = (pc.field("status") == "ok") & among("workload_id", sorted(workloads))
    return set(DataFolder.open(folder).select_measurements(devices, ["program_id"], where)["program_id"].to_pylist())


def load_sides(device: str, sizes: Sizes) -> Sides:
    """Reads the programs of both sides on a device, and those of the other chips; computes missing features."""
    dataset = dataset_of(device)
    train, test = workload_sides(dataset, sizes.most_workloads)
    own = DATASETS / dataset
    pool, tested = (load_programs(own, device=device, workloads=side, spec=TILES) for side in (train, test))
    rows = device_rows(own, [device])
    parts: list[Programs] = []
    there: set[str] = set()
    for folder, devices, learned in other_chips(dataset, train):
        parts.append(load_programs(folder, device=devices, workloads=learned, spec=TILES, per_workload=sizes.each))
        there |= program_ids(folder, devices, learned)
        rows |= device_rows(folder, devices)
    here = program_ids(own, [device], train)
    return Sides(pool, tested, Programs.join(parts), rows, len(here & there) / len(here))


def member_scores(sides: Sides, members: int, seed: int) -> Scores:
    """(members, n) scores of the pool by models that learned from bootstraps of what was measured elsewhere."""
    scores = []
    for number in range(members):
        model = CHOOSER.make()
        model.add_devices(sides.devices)
        drawn = bootstrap(sides.elsewhere, np.random.default_rng([seed, number]))
        model.fit(drawn, None, seed=members * seed + number, progress=False)
        (device,) = sides.pool.device_ids
        scores.append(model.bind(sides.devices[device]).predict(sides.pool.rows, sides.pool.counts))
    return np.stack(scores)


def standardised(programs: Programs) -> Scores:
    """(n, d) the features of programs as trees read them, with mean 0 and standard deviation 1 if they vary at all."""
    widths = part_widths(programs.spec, programs.rows.shape[1])
    pooled = pool_parts(programs.rows, programs.counts, widths, part_leads(programs.spec)).astype(np.float64)
    deviation = pooled.std(axis=0)
    features: Scores = (pooled - pooled.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    return features


def highest_first(values: Scores, drawn: IntArray) -> IntArray:
    """The programs by their values; equal ones in the order in which they were drawn."""
    return drawn[np.argsort(-values[drawn], kind="stable")]


def farthest_first(features: Scores, drawn: IntArray) -> IntArray:
    """Greedy k-centre (Gonzalez, 1985): the first one drawn, then always the program farthest from all chosen ones.

    Example:
        >>> farthest_first(np.array([[0.0], [10.0], [1.0], [6.0]]), np.array([3, 2, 0, 1])).tolist()
        [3, 0, 1, 2]
    """
    order, nearest = [int(drawn[0])], np.full(len(drawn), np.inf)
    while len(order) < len(drawn):
        nearest = np.minimum(nearest, ((features - features[order[-1]]) ** 2).sum(axis=1))
        nearest[order] = -1.0  # below the distance of an equal program
        order.append(int(drawn[np.argmax(nearest[drawn])]))
    return np.array(order, np.int64)


def alternately(first: IntArray, second: IntArray) -> IntArray:
    """The programs of two orders in turn, each once.

    Example:
        >>> alternately(np.array([0, 2, 1, 3]), np.array([3, 2, 0, 1])).tolist()
        [0, 3, 2, 1]
    """
    both = np.stack([first, second], axis=1).ravel()
    return both[np.sort(np.unique(both, return_index=True)[1])]


def orders(scores: Scores, features: Scores, drawn: IntArray) -> dict[str, IntArray]:
    """Strategy -> the order in which it measures the programs of a workload; fewer are the first ones of more.

    It takes (members, n) scores, (n, d) standardised features, and the programs in a random order.
    """
    highest = highest_first(scores.mean(axis=0), drawn)
    # How fast a member takes the whole workload to be says nothing about the order of its programs.
    spread = (scores - scores.mean(axis=1, keepdims=True)).std(axis=0)
    return {
        RANDOM: drawn,
        HIGHEST: highest,
        SPREAD: highest_first(spread, drawn),
        DISTANT: farthest_first(features, drawn),
        HALF: alternately(highest, drawn),
    }


def places(pool: Programs, scores: Scores, seed: int) -> dict[str, IntArray]:
    """Strategy -> (n,) the place of each program in the order of its workload, from 0."""
    features = standardised(pool)
    found = {strategy: np.empty(pool.n, np.int64) for strategy in STRATEGIES}
    for number in np.unique(pool.workload).tolist():
        own = np.flatnonzero(pool.workload == number)
        drawn = np.random.default_rng([seed, number]).permutation(len(own))
        for strategy, order in orders(scores[:, own], features[own], drawn).items():
            found[strategy][own[order]] = np.arange(len(own))
    return found


def chosen(pool: Programs, place: IntArray, share: float) -> Programs:
    """The first programs of each workload: a share of them, and at least `LEAST`."""
    most = np.maximum(LEAST, np.round(share * np.bincount(pool.workload)))
    return pool.select(np.flatnonzero(place < most[pool.workload]))


def runs(device: str, seed: int, models: Sequence[str], shares: Sequence[float], sizes: Sizes) -> list[Row]:
    """The values of `KEY` of all rows of a device and seed."""
    cells = [(RANDOM, share) for share in sorted({LOWEST, *shares, ALL})]
    cells += [(strategy, share) for strategy in STRATEGIES if strategy != RANDOM for share in shares]
    about: Row = {"device": device, **asdict(sizes), "seed": seed}
    return [{**about, "model": model, "strategy": way, "share": share} for model in models for way, share in cells]


def add_rows(kept: RowFile, sides: Sides, asked: Sequence[Row]) -> None:
    """Adds the rows of one device and seed that are asked for, each with what the choice was among."""
    seed, pool = asked[0]["seed"], sides.pool
    scores = member_scores(sides, asked[0]["members"], seed)
    place = places(pool, scores, seed)
    among_what = {
        "pool_programs": pool.n,
        "pool_workloads": len(np.unique(pool.workload)),
        "learned_programs": sides.elsewhere.n,
        "learned_devices": len(np.unique(sides.elsewhere.device)),
        "shared": sides.shared,
        "chooser_pairwise": evaluate_scores(scores.mean(axis=0), pool).pairwise,
    }
    for about in asked:
        train, model = chosen(pool, place[about["strategy"]], about["share"]), LEARNERS[about["model"]].make()
        model.fit(train, None, seed=seed, progress=False)
        row = evaluate(model, sides.test).row({**about, "programs": train.n, **among_what})
        kept.add(row)
        click.echo(f"{about['device']}, seed {seed}: {train.n:,} {about['strategy']}, pairs {row['pairwise']:.3f}")


def equal_programs(level: float, programs: npt.ArrayLike, curve: Scores) -> float:
    """How many programs chosen at random give a metric of `level`; at most and at least as many as were tried.

    The curve is interpolated over the logarithm of the programs. Where it falls, which is chance, it is levelled out.

    Example:
        >>> round(equal_programs(0.6, [100, 400], np.array([0.5, 0.7])))
        200
    """
    from scipy.optimize import isotonic_regression  # here, because it takes long to load

    return float(np.exp(np.interp(level, isotonic_regression(curve).x, np.log(programs))))


def level_of(rows: Sequence[Row], metric: str) -> Scores:
    """(workloads,) a metric, as means over seeds."""
    level: Scores = np.mean([row["by_workload"][metric] for row in rows], axis=0)
    return level


def compared(own: Scores, at_random: Scores, programs: Sequence[float]) -> dict[str, float]:
    """How many `programs` at random serve as well as others, by their (points, workloads) and (workloads,) metrics."""
    draws = np.random.default_rng(0).integers(len(own), size=(RESAMPLES, len(own)))
    found = [equal_programs(own[draw].mean(), programs, at_random[:, draw].mean(axis=1)) for draw in draws]
    low, high = np.quantile(found, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2]).tolist()
    return {"equal": equal_programs(own.mean(), programs, at_random.mean(axis=1)), "low": low, "high": high}


def summary(rows: Sequence[Row]) -> Iterator[Row]:
    """By device, model, strategy and share: means over seeds, with standard errors over workloads as `_se`.

    `_gain` is that over as large a share at random. `_equal` is the number of programs that serve as well if they are
    chosen at random, `_low` and `_high` its interval, and `_saved` the share of them that need not be measured.
    """
    cells: dict[tuple[str, str], dict[tuple[str, float], list[Row]]] = {}
    for row in rows:
        own = cells.setdefault((row["device"], row["model"]), {})
        own.setdefault((row["strategy"], row["share"]), []).append(row)
    for (device, model), by_choice in cells.items():
        points = sorted(share for strategy, share in by_choice if strategy == RANDOM)
        programs = [fmean(row["programs"] for row in by_choice[RANDOM, share]) for share in points]
        for (strategy, share), own_rows in by_choice.items():
            line: Row = {"device": device, "model": model, "strategy": strategy, "share": share}
            line |= {"seeds": len(own_rows), "programs": fmean(row["programs"] for row in own_rows)}
            for metric in METRICS:
                level = level_of(own_rows, metric)
                line[metric], line[f"{metric}_se"] = mean_with_error(level.tolist())
                if strategy != RANDOM:
                    at_random = np.stack([level_of(by_choice[RANDOM, each], metric) for each in points])
                    gains = (level - at_random[points.index(share)]).tolist()
                    line[f"{metric}_gain"], line[f"{metric}_gain_se"] = mean_with_error(gains)
                    found = compared(level, at_random, programs)
                    line |= {f"{metric}_{name}": value for name, value in found.items()}
                    line[f"{metric}_saved"] = 1.0 - line["programs"] / found["equal"]
            yield line


def pools_of(rows: Sequence[Row]) -> Iterator[Row]:
    """For each device what the choice was among, and what chose; how well it orders the pool is a mean over seeds."""
    names = ("pool_programs", "pool_workloads", "learned_programs", "learned_devices", "shared", "chooser_pairwise")
    for device in dict.fromkeys(row["device"] for row in rows):
        own = [row for row in rows if row["device"] == device]
        yield {"device": device, **{name: fmean(row[name] for row in own) for name in names}}


@click.command()
@click.option(
    "--device", "devices", multiple=True, default=TARGETS, show_default=True, type=click.Choice(list(ANY_CPU.devices))
)
@click.option("--model", "models", multiple=True, default=("gbt",), show_default=True, type=click.Choice([*LEARNERS]))
@options.seeds(3, "Of draws and trainings.")
@options.quick("One device, a few workloads, one share, one seed.")
@options.rows_file()
@options.json_file()
def main(
    devices: tuple[str, ...],
    models: tuple[str, ...],
    seeds: int,
    quick: bool,
    rows_path: Path | None,
    path: Path | None,
) -> None:
    """Trains on programs that were chosen in several ways and tests on held-out workloads; measures nothing."""
    sizes, shares = (Sizes(8, 2, 8), QUICK_SHARES) if quick else (Sizes(), SHARES)
    devices, seeds = (devices[:1], 1) if quick else (devices, seeds)
    kept = RowFile(rows_path, KEY)
    asked: list[Row] = []
    for device in devices:
        of_seeds = [runs(device, seed, models, shares, sizes) for seed in range(seeds)]
        asked += [about for own in of_seeds for about in own]
        missing = [[about for about in own if kept.key_of(about) not in kept] for own in of_seeds]
        if any(missing):
            sides = load_sides(device, sizes)
            for own in filter(None, missing):
                add_rows(kept, sides, own)
    by_key = {kept.key_of(row): row for row in kept}
    rows = [by_key[kept.key_of(about)] for about in asked]
    result: Row = {
        **{"split": ANY_CPU.split, "seeds": seeds, "workloads": len(rows[0]["workload_ids"]), **asdict(sizes)},
        **{"resamples": RESAMPLES, "level": LEVEL, "random": RANDOM},
        **{"pools": list(pools_of(rows)), "summary": list(summary(rows)), "rows": rows},
    }
    click.echo(active_learning_table(result))
    machine.write_result(path, result, indent=None)
