"""Asks whether a search would gain from building more programs than it runs, and looking at their compiled code first.

The searches are simulated in pools whose programs were all measured. A model that needs no build picks programs among
random candidates. Trees that have seen the compiled code of other workloads then pick those of them that are run.
Trees without the compiled code do the same: what they gain is owed to a second model, and not to the code.

The same pools show what the number of programs does to the metrics: random parts of each are ranked by several models.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import click
import numpy as np
import numpy.typing as npt

from costhub.api.models import read_model
from costhub.dataset.blocks import open_devices
from costhub.dataset.features.compiled import COMPILED
from costhub.dataset.features.program_key import KEY_COLUMNS, ProgramKeys, modules_of
from costhub.dataset.folder import DataFolder
from costhub.dataset.load import load_programs
from costhub.dataset.programs import IntArray, Programs
from costhub.dataset.splits.split import load_split
from costhub.hub.catalogue.devices import device_rows
from costhub.hub.catalogue.find import find_model
from costhub.models import metrics
from costhub.models.evaluate import NOISE_FLOOR
from costhub.models.info import ModelInfo
from costhub.models.parts import part_names, read_as
from costhub.models.protocol import CostModel, Scores
from costhub.search.replay.workloads import Latencies
from scripts.bench.common import machine, options
from scripts.bench.common.data import DATASETS, plain_workloads
from scripts.bench.common.rows import Row, RowFile
from scripts.bench.models.grid import BASELINES, STORE, TILES, GridEntry
from scripts.tables.gains import gain_with_error, mean_with_error
from scripts.tables.models.ceilings import pool_sizes_table, verify_stage_table

POOLS = "intel-xeon-emeraldrapids-avx2"
"""Ten workloads with some 1,300 random programs each."""
LEARNED_DATA, LEARNED = "intel-xeon-emeraldrapids", "intel-xeon-emeraldrapids-2c"
"""What the second models learn from: the same chip with its whole instruction set."""
SPLIT = "workload-40-seed0"
"""The split of every CPU dataset; what it holds out, no shipped model and no second one has learned."""
BOTH = f"{TILES}+{COMPILED}"
EVERY_SPEC = f"{BOTH}+{STORE}"
"""All that any model here reads, so that all of them learn from and rank the same programs."""
SECOND = (GridEntry("gbt", TILES, "log"), GridEntry("gbt", BOTH, "log"))
"""Models that may choose a second time. Only one that reads compiled code needs builds to do so."""
RECIPES = tuple(GridEntry(name, STORE) for name in BASELINES)
FIRST = "any-cpu"
RANDOM, ALL_BUILT, ALL_DRAWN = "random choice", f"{FIRST}, everything built is run", "every candidate is run"
DRAWS = 20
"""Sets of random candidates, or of random programs to rank, for each workload and seed."""
POOL_SIZES = (32, 128, 512)
ALL = "all"
METRICS = ("top_1", "top_5", "pairwise")
SECONDS = ("build_s", "run_wall_s")
"""Columns of measurements: CPU seconds of the build, wall seconds of loading and running."""
KEY = ("device", "learned", "each", "sizes", "seed", "workload")
QUICK_WORKLOADS, QUICK_PROGRAMS, QUICK_LEARNED, QUICK_EACH = 2, 48, 12, 8
"""Workloads and programs of each: of the pools, and to learn from."""
Seconds = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Sizes:
    """How many programs each stage of a search takes."""

    candidates: int = 512
    built: int = 64
    run: int = 16

    def __str__(self) -> str:
        return "/".join(map(str, asdict(self).values()))


QUICK_SIZES = Sizes(32, 16, 4)


class Choice(NamedTuple):
    """The positions of the programs that a search runs, and of those that it builds."""

    run: IntArray
    built: IntArray


@dataclass(frozen=True)
class MeasuredPool:
    """Programs of one device that were all built and run."""

    programs: Programs
    seconds: Seconds
    """(n, 2) what the build of each took, and its run."""

    @classmethod
    def load(cls, path: Path, *, quick: bool) -> MeasuredPool:
        """All programs of a data folder of one device, or a few of some workloads; computes missing features."""
        (block,) = open_devices(path, None, None, EVERY_SPEC, failures=False)
        if quick:
            block = block.of_workloads(block.workload_ids[:QUICK_WORKLOADS]).at_most(QUICK_PROGRAMS, seed=0)
        programs, places = block.load_with_places(progress=True)
        keys = block.take(places).keys.to_pylist()
        return cls(programs, recorded_seconds(path, block.features.device_id, keys))


def recorded_seconds(path: Path, device: str, keys: Sequence[bytes]) -> Seconds:
    """(n, 2) seconds of the build and of the run of programs, as they were recorded when these were measured.

    Args:
        path: A data folder.
        device: One of its devices.
        keys: The keys of the programs, as `ProgramKeys` makes them.

    Raises:
        ClickException: The data lack them for some of the programs.
    """
    folder = DataFolder.open(path)
    program_keys = ProgramKeys(modules_of(folder))
    found: dict[bytes, list[float]] = {}
    for part in folder.iter_measurements([device], [*KEY_COLUMNS, *SECONDS]):
        columns = (part[name].to_pylist() for name in SECONDS)
        for key, *seconds in zip(program_keys.of(part).to_pylist(), *columns, strict=True):
            if None not in seconds:
                found[key] = seconds
    if lacking := sum(key not in found for key in keys):
        raise click.ClickException(
            f"{path} does not say how long the builds and runs of {lacking:,} of {len(keys):,} programs took; take "
            "data that costhub collected itself."
        )
    return np.array([found[key] for key in keys], np.float64).reshape(-1, len(SECONDS))


def other_workloads(folder: Path, pool: set[str]) -> set[str]:
    """The workloads to learn from: in TVM's own layouts, on the training side of the split, and none of the pool's."""
    train = set(load_split(folder, SPLIT).train) - pool
    plain = plain_workloads(folder)
    return train if plain is None else train & plain


def other_programs(folder: Path, device: str, pool: set[str], each: int, *, quick: bool) -> Programs:
    """The programs to learn from, at most so many of each workload; computes missing features."""
    chosen = sorted(other_workloads(folder, pool))[: QUICK_LEARNED if quick else None]
    most = min(each, QUICK_EACH) if quick else each
    return load_programs(folder, device=device, workloads=set(chosen), per_workload=most, spec=EVERY_SPEC)


def knowledge(info: ModelInfo, pool: set[str]) -> Row:
    """What a shipped model has learned of the workloads of the pools on any device.

    Returns:
        `learned` of the `workloads`, by the model's own record. For each dataset that it learned from, how many are on
        either side of the split; the others are not in the dataset. And its `devices`.
    """
    splits = {}
    for name in info.datasets:
        dataset = Path(name.partition("@")[0]).name
        split = load_split(DATASETS / dataset, SPLIT)
        splits[dataset] = {"train": len(pool & set(split.train)), "test": len(pool & set(split.test))}
    learned = len(pool & set(info.train_workloads))
    return {"workloads": len(pool), "learned": learned, "splits": splits, "devices": list(info.device_ids)}


def named(entry: GridEntry) -> str:
    """What a table calls a model that learned from the chip's other workloads."""
    return entry.model if entry.model in BASELINES else f"trees on {entry.spec}"


def scores_of(entry: GridEntry, train: Programs, programs: Programs, seed: int) -> Scores:
    """(n,) scores of programs by a model that reads its own features of them, and learns from those of others."""
    learned, tested = (read_as(each, feature_spec=EVERY_SPEC, specs=[entry.spec])[0] for each in (train, programs))
    if entry.model in BASELINES:
        model = BASELINES[entry.model]()
        model.fit(learned.measured(), seed=seed)
    else:
        model = entry.make()
        model.fit(learned, None, seed=seed, progress=False)
    return np.asarray(model.predict(tested.rows, tested.counts), np.float64)


def first_scores(model: CostModel, programs: Programs) -> Scores:
    """(n,) scores of programs by the model that picks what is built; it is bound to their device."""
    (tested,) = read_as(programs, feature_spec=EVERY_SPEC, specs=[model.feature_spec])
    return np.asarray(model.predict(tested.rows, tested.counts), np.float64)


def best_first(scores: Scores, among: IntArray, count: int) -> IntArray:
    """The `count` programs of `among` with the highest scores, the best first; equal ones in the order of `among`.

    Example:
        >>> best_first(np.array([0.1, 0.9, 0.5, 0.9]), np.array([3, 0, 1, 2]), 3).tolist()
        [3, 1, 2]
    """
    return among[np.argsort(-scores[among], kind="stable")[:count]]


def best_by_both(first: Scores, second: Scores, among: IntArray, count: int) -> IntArray:
    """The `count` programs of `among` with the best mean of two ranks; equal ones in the order of `among`.

    Example:
        >>> best_by_both(np.array([3.0, 2.0, 1.0]), np.array([10.0, 30.0, 20.0]), np.arange(3), 1).tolist()
        [1]
    """
    from scipy.stats import rankdata  # here, because it takes half a second to load

    rank = rankdata(first[among]) + rankdata(second[among])  # the best has the highest
    return among[np.argsort(-rank, kind="stable")[:count]]


def ways(first: Scores, second: Mapping[str, Scores], drawn: IntArray, sizes: Sizes) -> dict[str, Choice]:
    """What each way of searching builds and runs.

    Args:
        first: (n,) scores of all programs of a workload by the model that needs no build.
        second: Feature spec -> scores of the same programs by the model that chooses a second time.
        drawn: The candidates, in random order.
        sizes: How many of them are built and run.
    """
    chosen, listed = best_first(first, drawn, sizes.run), best_first(first, drawn, sizes.built)
    at_random = drawn[: sizes.run]
    found = {RANDOM: Choice(at_random, at_random), FIRST: Choice(chosen, chosen)}
    for spec, scores in second.items():
        own, both = best_first(scores, listed, sizes.run), best_by_both(first, scores, listed, sizes.run)
        for name, run in ((f"then trees on {spec}", own), (f"then the mean rank with trees on {spec}", both)):
            found[f"{FIRST}, {name}"] = Choice(run, listed if COMPILED in part_names(spec) else run)
    return {**found, ALL_BUILT: Choice(listed, listed), ALL_DRAWN: Choice(drawn, drawn)}


def figures(choice: Choice, latency_s: Latencies, seconds: Seconds) -> Row:
    """How near a search comes to the best program of the pool, and what that takes.

    Example:
        >>> one = figures(Choice(np.array([1]), np.array([0, 1])), np.array([3e-3, 2e-3, 1e-3]), np.ones((3, 2)))
        >>> round(math.exp(one["log_found"]), 3), one["built"], one["build_s"], one["run"], one["run_s"]
        (0.5, 2, 2.0, 1, 1.0)
    """
    build_s, run_s = seconds.T
    return {
        "log_found": math.log(latency_s.min() / latency_s[choice.run].min()),
        "built": len(choice.built),
        "run": len(choice.run),
        "build_s": float(build_s[choice.built].sum()),
        "run_s": float(run_s[choice.run].sum()),
    }


def searched(
    latency_s: Latencies,
    seconds: Seconds,
    first: Scores,
    second: Mapping[str, Scores],
    sizes: Sizes,
    rng: np.random.Generator,
) -> dict[str, Row]:
    """Way of searching a workload -> means of its figures over draws; all ways get the same candidates."""
    found: dict[str, list[Row]] = {}
    for _ in range(DRAWS):
        drawn = rng.permutation(len(latency_s))[: sizes.candidates]
        for way, choice in ways(first, second, drawn, sizes).items():
            found.setdefault(way, []).append(figures(choice, latency_s, seconds))
    return {way: {key: fmean(row[key] for row in rows) for key in rows[0]} for way, rows in found.items()}


def ranked(latency_s: Latencies, scores: Mapping[str, Scores], rng: np.random.Generator) -> Iterator[Row]:
    """The metrics of each model among random programs of a workload, means over draws, and among all of them."""
    total = len(latency_s)
    for size in (*(size for size in POOL_SIZES if size < total), total):
        places = [rng.permutation(total)[:size] for _ in range(DRAWS if size < total else 1)]
        for model, own in scores.items():
            found = [
                (
                    metrics.top_k(own[few], latency_s[few], k=1),
                    metrics.top_k(own[few], latency_s[few], k=5),
                    metrics.pairwise(own[few], latency_s[few], noise_floor=NOISE_FLOOR),
                )
                for few in places
            ]
            means = map(fmean, zip(*found, strict=True))
            yield {"size": size if size < total else ALL, "model": model, **dict(zip(METRICS, means, strict=True))}


def add_rows(kept: RowFile, about: Row, pool: MeasuredPool, train: Programs, first: Scores, sizes: Sizes) -> None:
    """Adds the rows of one seed that are missing, one for each workload; without missing ones nothing is trained.

    Args:
        kept: The rows.
        about: The values of `KEY`, but for the workload.
        pool: The programs to choose from.
        train: The programs to learn from.
        first: (n,) scores of the pool by the model that needs no build.
        sizes: How many programs each stage takes.
    """
    programs, seed = pool.programs, about["seed"]
    keys = [kept.key_of({**about, "workload": name}) for name in programs.workload_ids]
    missing = [number for number, key in enumerate(keys) if key not in kept]
    if not missing:
        return
    others = {named(entry): scores_of(entry, train, programs, seed) for entry in (*SECOND, *RECIPES)}
    for number in missing:
        own = np.flatnonzero(programs.workload == number)
        latency_s, rng = programs.latency_s[own], np.random.default_rng([seed, number])
        second = {entry.spec: others[named(entry)][own] for entry in SECOND}
        models = {FIRST: first[own], **{name: scores[own] for name, scores in others.items()}}
        found = searched(latency_s, pool.seconds[own], first[own], second, sizes, rng)
        pools = list(ranked(latency_s, {**models, RANDOM: np.zeros(len(own))}, rng))
        kept.add({**about, "workload": programs.workload_ids[number], "ways": found, "pools": pools})
        click.echo(f"seed {seed}, workload {programs.workload_ids[number][:12]}: done")


def ways_summary(rows: Sequence[Row]) -> Iterator[Row]:
    """For each way of searching: geometric means over workloads of what it finds, and its gain over the first model.

    Standard errors are those of logarithms, over workloads of their means over seeds. Seconds are means.
    """
    base = _log_found(rows, FIRST)
    for way in rows[0]["ways"]:
        own = _log_found(rows, way)
        found, error = gain_with_error([*own.values()])
        gain, gain_error = gain_with_error([value - base[workload] for workload, value in own.items()])
        means = {key: fmean(row["ways"][way][key] for row in rows) for key in ("built", "run", "build_s", "run_s")}
        line = {"way": way, "found": found, "found_se": error, "gain": gain, "gain_se": gain_error, **means}
        by_workload = {workload[:12]: math.exp(value) for workload, value in own.items()}
        yield {**line, "seconds": means["build_s"] + means["run_s"], "by_workload": by_workload}


def _log_found(rows: Sequence[Row], way: str) -> dict[str, float]:
    """Workload -> mean over seeds of the logarithm of optimum / best found."""
    names = dict.fromkeys(row["workload"] for row in rows)
    return {name: fmean(row["ways"][way]["log_found"] for row in rows if row["workload"] == name) for name in names}


def pools_summary(rows: Sequence[Row]) -> Iterator[Row]:
    """For each model and number of programs: means over workloads of those over seeds, and their standard errors."""
    cells: dict[tuple[Any, str], dict[str, list[Row]]] = {}
    for row in rows:
        for line in row["pools"]:
            cells.setdefault((line["size"], line["model"]), {}).setdefault(row["workload"], []).append(line)
    for (size, model), by_workload in cells.items():
        found: Row = {"size": size, "model": model}
        for metric in METRICS:
            means = [fmean(line[metric] for line in lines) for lines in by_workload.values()]
            found[metric], found[f"{metric}_se"] = mean_with_error(means)
        yield found


@click.command()
@click.option("--dataset", default=LEARNED_DATA, show_default=True, help="Dataset or folder to learn from.")
@click.option("--device", default=LEARNED, show_default=True, help="Its device to learn from.")
@click.option("--each", default=32, show_default=True, help="Programs of each workload to learn from, at most.")
@options.data(f"The pools: a data folder of one device, with many programs of each workload; by default {POOLS}.")
@options.seeds(3, "Of draws and trainings.")
@options.quick("One seed, two workloads, a few programs of each.")
@options.rows_file()
@options.json_file()
def main(
    dataset: str,
    device: str,
    each: int,
    data: Path | None,
    seeds: int,
    quick: bool,
    rows_path: Path | None,
    path: Path | None,
) -> None:
    """Builds a model's best candidates, has a second model pick the ones to run, and ranks pools of several sizes.

    Nothing is measured. Features that are not in the cache are computed first; those of compiled code take a build of
    every program.
    """
    sizes, place = QUICK_SIZES if quick else Sizes(), data or DATASETS / POOLS
    pool = MeasuredPool.load(place, quick=quick)
    names = set(pool.programs.workload_ids)
    train = other_programs(DATASETS / dataset, device, names, each, quick=quick)
    (target,) = pool.programs.device_ids
    model = read_model(find_model(FIRST))
    first = first_scores(model.bind(device_rows(place, [target])[target]), pool.programs)
    kept = RowFile(rows_path, KEY)
    about: Row = {"device": target, "learned": device, "each": each, "sizes": str(sizes)}
    for seed in range(1 if quick else seeds):
        add_rows(kept, {**about, "seed": seed}, pool, train, first, sizes)
    rows = [row for row in kept if about.items() <= row.items() and row["workload"] in names]
    assert model.info is not None  # of a model of the hub
    result = {
        "first": FIRST,
        "pool_device": target,
        "programs": int(np.median(np.bincount(pool.programs.workload))),
        "learned": {"device": device, "programs": train.n, "workloads": len(np.unique(train.workload))},
        "knowledge": knowledge(model.info, names),
        **{"sizes": asdict(sizes), "draws": DRAWS, "seeds": len({row["seed"] for row in rows})},
        "ways": list(ways_summary(rows)),
        "pools": list(pools_summary(rows)),
    }
    click.echo(f"{verify_stage_table(result)}\n\n{pool_sizes_table(result)}")
    machine.write_result(path, result)
