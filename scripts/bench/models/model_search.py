"""Trees or TreeGRU, rank or regression, and whether uncertainty helps: AutoTVM's figures 4, 5 and 7.

Each question is a search over the measured programs of a workload, with a model that starts from nothing.
"""

from __future__ import annotations

import fnmatch
import json
import math
import time
from pathlib import Path
from typing import Any

import click
import numpy as np

from costhub.dataset.folder import DataFolder
from costhub.dataset.load import load_programs
from costhub.dataset.programs import Programs
from scripts.bench.common import machine
from scripts.bench.common.data import own_copy
from scripts.bench.common.rows import mean_curves, read_rows
from scripts.bench.models.grid import LOOPS, TILES, Entry
from scripts.bench.models.simulated_search import search
from scripts.tables.plots import plot_curves

_TREES = {"rounds": 100, "min_child_weight": 1.0}
"""What suits a search of some hundred programs; the same for every method with trees."""
_ENSEMBLE = {"member": f"gbt({','.join(f'{name}={value}' for name, value in _TREES.items())})"}
METHODS: dict[str, tuple[Entry | None, str]] = {
    "random": (None, "mean"),
    "gbt rank": (Entry("gbt", TILES, "rank", _TREES), "mean"),
    "gbt regression": (Entry("gbt", TILES, "regression", _TREES), "mean"),
    "treegru rank": (Entry("treegru", LOOPS, "rank"), "mean"),
    "treegru regression": (Entry("treegru", LOOPS, "regression"), "mean"),
    "ensemble mean": (Entry("ensemble", TILES, "", _ENSEMBLE), "mean"),
    "ensemble UCB": (Entry("ensemble", TILES, "", _ENSEMBLE), "bound"),
    "ensemble EI": (Entry("ensemble", TILES, "", _ENSEMBLE), "improvement"),
}
KEY = ("device", "workload", "method", "seed", "batch")
FIGURES = {
    "figure 4": ("random", "gbt rank", "treegru rank"),
    "figure 5": ("gbt rank", "gbt regression", "treegru rank", "treegru regression"),
    "figure 7": ("random", "ensemble mean", "ensemble UCB", "ensemble EI"),
}


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
    rows: list[dict[str, Any]],
    *,
    rows_path: Path | None,
    only: str,
    batch: int,
    trials: int,
    seeds: int,
    ends: float,
) -> None:
    """Adds the searches of one device that are missing to the list and to the file."""
    done = {tuple(row[key] for key in KEY) for row in rows}
    for method, (entry, pick) in METHODS.items():
        if not fnmatch.fnmatch(method, only):
            continue
        for pool, seed in ((p, s) for p in pools for s in range(seeds)):
            own = pool[entry.spec if entry else TILES]
            key = (device, own.workload_ids[own.workload[0]][:12], method, seed, batch)
            if key in done or time.monotonic() > ends:
                continue
            at = time.perf_counter()
            curve = search(own, entry, batch=batch, trials=trials, seed=seed, pick=pick)
            row: dict[str, Any] = {
                **dict(zip(KEY, key, strict=True)),
                "trials": list(range(batch, trials + 1, batch)),
                "curve": curve,
                "last": curve[-1],
                "seconds": time.perf_counter() - at,
            }
            rows.append(row)
            if rows_path:
                with rows_path.open("a") as file:
                    file.write(json.dumps(row) + "\n")
        own_rows = [row for row in rows if (row["device"], row["method"]) == (device, method)]
        if own_rows:
            end, seconds = (np.mean([row[k] for row in own_rows]) for k in ("last", "seconds"))
            click.echo(f"{device} {method}: {end:.3f} after {trials} trials, {seconds:.1f} s a search")


@click.command()
@click.option("--data", type=click.Path(path_type=Path), help="By default a copy of the embedded dataset.")
@click.option("--device", "devices", multiple=True, help="All by default.")
@click.option("--only", default="*", show_default=True, help="Pattern of methods.")
@click.option("--batch", default=8, show_default=True)
@click.option("--trials", default=64, show_default=True)
@click.option("--workloads", default=24, show_default=True, help="With twice as many programs as trials.")
@click.option("--seeds", default=3, show_default=True)
@click.option("--budget", "budget_s", type=float, default=math.inf, help="Seconds after which no new search is begun.")
@click.option("--quick", is_flag=True, help="Two workloads of one device, one seed.")
@click.option(
    "--rows", "rows_path", type=click.Path(path_type=Path), help="JSON lines; what is there is not done again."
)
@click.option(
    "--json", "path", type=click.Path(path_type=Path), help="The curves; a picture of each figure goes beside it."
)
def main(
    data: Path | None,
    devices: tuple[str, ...],
    only: str,
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
    rows = read_rows(rows_path)
    entries = [entry for name, (entry, _) in METHODS.items() if entry and fnmatch.fnmatch(name, only)]
    specs = {entry.spec for entry in entries}
    for device in devices:
        pools = workloads_of(data, device, specs, trials=trials, count=workloads)
        work(
            device,
            pools,
            rows,
            rows_path=rows_path,
            only=only,
            batch=batch,
            trials=trials,
            seeds=seeds,
            ends=ends,
        )
    if path:
        report(rows, path, batch)


def report(rows: list[dict[str, Any]], path: Path, batch: int) -> None:
    """Writes the curves and draws each figure."""
    rows = [row for row in rows if row["batch"] == batch]
    axes = {"x": "measured programs", "y": "best so far / best of all"}
    path.write_text(json.dumps({**machine.describe(), **axes, "curves": mean_curves(rows, tuple(METHODS))}, indent=1))
    for figure, methods in FIGURES.items():
        shown = mean_curves(rows, methods)
        panels = {
            device: [curve for curve in shown if curve["device"] == device]
            for device in dict.fromkeys(curve["device"] for curve in shown)
        }
        if panels:
            name = figure.replace(" ", "-")
            plot_curves(path.with_name(f"{path.stem}-{name}.png"), panels, **axes)


if __name__ == "__main__":
    main()
