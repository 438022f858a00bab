"""Trees, TreeGRU or a genetic search, rank or regression, and whether uncertainty helps: AutoTVM's figures 4, 5, 7.

Each question is a search over the measured programs of a workload, with a model that starts from nothing.
"""

from __future__ import annotations

import fnmatch
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from costhub.dataset.folder import DataFolder
from costhub.dataset.load import load_programs
from costhub.dataset.programs import IntArray, Programs
from costhub.papers.autotvm_models import expected_improvement, upper_confidence_bound
from costhub.search.knobs import Knobs
from costhub.search.replay.strategies import GeneticOrder
from costhub.search.replay.workloads import ReplayWorkload
from scripts.bench.common import machine, options
from scripts.bench.common.data import own_copy
from scripts.bench.common.pools import Propose, asked_of, best_so_far, keep_order, knobs_of_workloads, search_pool
from scripts.bench.common.rows import RowFile, mean_curves
from scripts.bench.models.grid import LOOPS, TILES, GridEntry
from scripts.tables.plots import plot_curves

Scores = npt.NDArray[np.float64]
Pools = dict[str, list[Knobs]]
"""Workload id -> the knobs of its programs."""
KAPPA = 1.0
"""Standard deviations that the upper confidence bound adds."""
_TREES = {"rounds": 100, "min_child_weight": 1.0}
"""What suits a search of some hundred programs; the same for every method with trees."""
_ENSEMBLE = {"member": f"gbt({','.join(f'{name}={value}' for name, value in _TREES.items())})"}
METHODS: dict[str, tuple[GridEntry | None, str]] = {
    "random": (None, "mean"),
    "genetic": (None, "genetic"),
    "gbt rank": (GridEntry("gbt", TILES, "rank", _TREES), "mean"),
    "gbt regression": (GridEntry("gbt", TILES, "regression", _TREES), "mean"),
    "treegru rank": (GridEntry("treegru", LOOPS, "rank"), "mean"),
    "treegru regression": (GridEntry("treegru", LOOPS, "regression"), "mean"),
    "ensemble mean": (GridEntry("ensemble", TILES, "", _ENSEMBLE), "mean"),
    "ensemble UCB": (GridEntry("ensemble", TILES, "", _ENSEMBLE), "bound"),
    "ensemble EI": (GridEntry("ensemble", TILES, "", _ENSEMBLE), "improvement"),
}
KEY = ("device", "workload", "method", "seed", "batch")
FIGURES = {
    "figure 4": ("random", "genetic", "gbt rank", "treegru rank"),
    "figure 5": ("gbt rank", "gbt regression", "treegru rank", "treegru regression"),
    "figure 7": ("random", "ensemble mean", "ensemble UCB", "ensemble EI"),
}


def by_mean(model: Any, pool: Programs, best: float) -> Scores:
    """The model's own score."""
    return np.asarray(model.predict(pool.rows, pool.counts))


def by_bound(model: Any, pool: Programs, best: float) -> Scores:
    """Mean and spread of an ensemble, by the upper confidence bound."""
    mean, std = model.predict_with_spread(pool.rows, pool.counts)
    return np.asarray(upper_confidence_bound(mean, std, KAPPA))


def by_improvement(model: Any, pool: Programs, best: float) -> Scores:
    """Mean and spread of an ensemble, by the expected improvement over the best so far."""
    mean, std = model.predict_with_spread(pool.rows, pool.counts)
    return np.asarray(expected_improvement(mean, std, best))


PICKS: dict[str, Callable[[Any, Programs, float], Scores]] = {
    "mean": by_mean,
    "bound": by_bound,
    "improvement": by_improvement,
}


def led_by(pool: Programs, entry: GridEntry, pick: str, seed: int) -> Propose:
    """Proposes by a model that is fitted anew to all that was measured; at first, at random."""

    def propose(chosen: IntArray, rest: IntArray) -> IntArray:
        measured = pool.select(chosen)
        if not measured.informative().any():
            return rest
        model = entry.make()
        model.fit(measured, None, seed=seed, progress=False)
        # Throughput is relative to the best measured so far, so that this best is 1.
        score = PICKS[pick](model, pool.select(rest), 1.0)
        best_first: IntArray = rest[np.argsort(-score, kind="stable")]
        return best_first

    return propose


def search(pool: dict[str, Programs], knobs: Pools, method: str, *, batch: int, trials: int, seed: int) -> list[float]:
    """Searches among the programs of one workload.

    Args:
        pool: Measured programs of one workload on one device, under every feature spec.
        knobs: Those of the programs, by workload; read by the genetic search only.
        method: A key of METHODS.
        batch: Programs measured between two fits; the first batch is random.
        trials: Programs measured in all.
        seed: Of the first batch, of the fits and of random choice.

    Returns:
        For each batch the best throughput so far, 1 being the best of the pool.
    """
    entry, pick = METHODS[method]
    own = pool[entry.spec if entry else TILES]
    throughput = own.throughput()
    if pick == "genetic":
        workload = ReplayWorkload.of(own, knobs[own.workload_ids[own.workload[0]]])
        strategy = GeneticOrder(workload.task, model=None, seed=seed)
        propose: Propose = asked_of(strategy, workload.latency_s, batch=batch)
    else:
        propose = led_by(own, entry, pick, seed) if entry else keep_order
    best = best_so_far(throughput, search_pool(throughput, propose, batch=batch, trials=trials, seed=seed))
    return [float(best[min(end, len(best)) - 1]) for end in range(batch, trials + batch, batch)]


def workloads_of(data: Path, device: str, specs: set[str], *, trials: int, count: int) -> list[dict[str, Programs]]:
    """For some workloads with twice as many programs as trials, their programs under every spec."""
    loaded = {spec: load_programs(data, device=device, spec=spec) for spec in sorted(specs | {TILES})}
    tiles = loaded[TILES]
    sizes = np.bincount(tiles.workload, minlength=len(tiles.workload_ids))
    chosen = []
    for number in np.flatnonzero(sizes >= 2 * trials):
        name = tiles.workload_ids[number]
        own = {spec: programs.of_workloads({name}) for spec, programs in loaded.items()}
        # A program with features under one spec only would give one method a better optimum.
        if all(np.array_equal(own[TILES].latency_s, other.latency_s) for other in own.values()):
            chosen.append(own)
    return chosen[:: max(1, len(chosen) // count)][:count]


def work(
    device: str,
    pools: list[dict[str, Programs]],
    knobs: Pools,
    kept: RowFile,
    methods: Sequence[str],
    *,
    batch: int,
    trials: int,
    seeds: int,
    ends: float,
) -> None:
    """Adds the missing searches of one device."""
    for method in methods:
        for pool, seed in ((p, s) for p in pools for s in range(seeds)):
            own = pool[TILES]
            key = (device, own.workload_ids[own.workload[0]][:12], method, seed, batch)
            if key in kept or time.monotonic() > ends:
                continue
            at = time.perf_counter()
            curve = search(pool, knobs, method, batch=batch, trials=trials, seed=seed)
            figures = {"curve": curve, "last": curve[-1], "seconds": time.perf_counter() - at}
            counts = list(range(batch, trials + 1, batch))
            kept.add({**dict(zip(KEY, key, strict=True)), "trials": counts, **figures})
        own_rows = [row for row in kept if (row["device"], row["method"]) == (device, method)]
        if own_rows:
            end, seconds = (np.mean([row[k] for row in own_rows]) for k in ("last", "seconds"))
            click.echo(f"{device} {method}: {end:.3f} after {trials} trials, {seconds:.1f} s a search")


@click.command()
@options.data()
@click.option("--device", "devices", multiple=True, help="All by default.")
@click.option("--only", multiple=True, default=("*",), show_default=True, help="Pattern of methods.")
@click.option("--batch", default=8, show_default=True)
@options.trials(64)
@click.option("--workloads", default=24, show_default=True, help="With twice as many programs as trials.")
@options.seeds(3)
@click.option("--budget", "budget_s", type=float, default=math.inf, help="Seconds after which no new search is begun.")
@options.quick("Two workloads of one device, one seed.")
@options.rows_file()
@options.json_file("The curves; a picture of each figure goes beside it.")
def main(
    data: Path | None,
    devices: tuple[str, ...],
    only: tuple[str, ...],
    batch: int,
    trials: int,
    workloads: int,
    seeds: int,
    budget_s: float,
    quick: bool,
    rows_path: Path | None,
    path: Path | None,
) -> None:
    """Runs every method on the same workloads and seeds."""
    ends = time.monotonic() + budget_s
    data = data or own_copy()
    devices = devices or tuple(DataFolder.open(data).device_ids())
    if quick:
        devices, workloads, seeds = devices[:1], 2, 1
    kept = RowFile(rows_path, KEY, trials=list(range(batch, trials + 1, batch)))
    methods = [name for name in METHODS if any(fnmatch.fnmatch(name, pattern) for pattern in only)]
    specs = {entry.spec for name in methods if (entry := METHODS[name][0])}
    for device in devices:
        pools = workloads_of(data, device, specs, trials=trials, count=workloads)
        names = {pool[TILES].workload_ids[pool[TILES].workload[0]] for pool in pools}
        knobs = knobs_of_workloads(data, device, TILES, names) if "genetic" in methods else {}
        work(device, pools, knobs, kept, methods, batch=batch, trials=trials, seeds=seeds, ends=ends)
    if path:
        report(kept.all, path, batch)


def report(rows: list[dict[str, Any]], path: Path, batch: int) -> None:
    """Writes the curves and draws each figure."""
    rows = [row for row in rows if row["batch"] == batch]
    axes = {"x": "measured programs", "y": "best so far / best of all"}
    machine.write_result(path, {**axes, "curves": mean_curves(rows, tuple(METHODS))})
    for figure, methods in FIGURES.items():
        shown = mean_curves(rows, methods)
        panels = {
            device: [curve for curve in shown if curve["device"] == device]
            for device in dict.fromkeys(curve["device"] for curve in shown)
        }
        if any(len(curves) > 1 for curves in panels.values()):
            name = figure.replace(" ", "-")
            plot_curves(path.with_name(f"{path.stem}-{name}.png"), panels, x=axes["x"], y=axes["y"])
