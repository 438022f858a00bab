"""AutoTVM's figure 8: what the first six convolutions of ResNet-18 are worth to searches for the next three.

By default searches are simulated among measured programs; `--live` searches on this machine.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
import numpy as np

from costhub.dataset.folder import DataFolder
from costhub.dataset.load import load_programs
from costhub.dataset.programs import IntArray, Programs
from costhub.models.architectures import new_model
from costhub.models.protocol import CostModel
from costhub.transfer.methods.by_name import find_method
from scripts.bench.common import machine, options
from scripts.bench.common.data import own_copy
from scripts.bench.common.pools import Propose, best_so_far, keep_order, search_pool
from scripts.bench.common.rows import Row, RowFile, mean_curves
from scripts.bench.transfer.convolutions_live import TREES, live_searches
from scripts.tables.papers.autotvm import FIGURE_8_BASE, figure_8_summary, figure_8_table, live_figure_8_table
from scripts.tables.plots import plot_curves

DEVICE = "amd-epyc-zen5-1c"
"""The device on which the convolutions have the most programs."""
SOURCES = tuple(f"resnet18.c{number}" for number in range(1, 7))
TARGETS = tuple(f"resnet18.c{number}" for number in range(7, 10))
SPECS = ("tiles@1", "relation@1")
CARRIED = ("frozen", "residual", "fine-tune", "corrected")
METHODS = ("random", FIGURE_8_BASE, *CARRIED)
KEY = ("device", "spec", "workload", "method", "batch", "seed")


def from_nothing(pool: Programs, seed: int) -> Propose:
    """Trees that are fitted anew to what was measured; the first batch is random."""

    def propose(chosen: IntArray, rest: IntArray) -> IntArray:
        measured = pool.select(chosen)
        if not measured.informative().any():
            return rest
        model = new_model("gbt", feature_spec=pool.spec, options=TREES)
        model.fit(measured, None, seed=seed, progress=False)
        return _best_first(model, pool, rest)

    return propose


def carried_over(pool: Programs, source: CostModel, method: str, seed: int) -> Propose:
    """The source's model, which learns by a transfer method; it leads the first batch as well."""

    def propose(chosen: IntArray, rest: IntArray) -> IntArray:
        model = find_method(method).adapt(source, pool.select(chosen), seed=seed) if len(chosen) else source
        return _best_first(model, pool, rest)

    return propose


def _best_first(model: CostModel, pool: Programs, rest: IntArray) -> IntArray:
    others = pool.select(rest)
    ordered: IntArray = rest[np.argsort(-model.predict(others.rows, others.counts), kind="stable")]
    return ordered


def simulated(pool: Programs, source: CostModel, method: str, *, batch: int, trials: int, seed: int) -> list[float]:
    """The best throughput so far after each trial, 1 being that of the best program of the pool."""
    if method in CARRIED:
        propose = carried_over(pool, source, method, seed)
    else:
        propose = keep_order if method == "random" else from_nothing(pool, seed)
    throughput = pool.throughput()
    chosen = search_pool(throughput, propose, batch=batch, trials=trials, seed=seed)
    return [round(float(value), 5) for value in best_so_far(throughput, chosen)]


def source_of(programs: Programs, names: Mapping[str, str], seed: int) -> CostModel:
    """Trees that have learned from all programs of the source's workloads."""
    model = new_model("gbt", feature_spec=programs.spec, options={"objective": "log"})
    model.fit(programs.of_workloads({names[name] for name in SOURCES}), None, seed=seed, progress=False)
    return model


def work(
    data: Path, device: str, spec: str, kept: RowFile, methods: Sequence[str], *, batch: int, trials: int, seeds: int
) -> None:
    """Adds the missing searches of one device and feature spec."""
    about = DataFolder.open(data).workloads(["workload_id", "name"]).to_pylist()
    names = {row["name"]: row["workload_id"] for row in about}
    programs = load_programs(data, device=device, spec=spec, workloads={names[n] for n in (*SOURCES, *TARGETS)})
    for seed in range(seeds):
        keys = [(device, spec, target, method, batch, seed) for target in TARGETS for method in methods]
        waiting = [key for key in keys if key not in kept]
        source = source_of(programs, names, seed) if waiting else None
        for key in waiting:
            pool = programs.of_workloads({names[key[2]]})
            assert source is not None
            best = simulated(pool, source, key[3], batch=batch, trials=trials, seed=seed)
            kept.add({**dict(zip(KEY, key, strict=True)), "programs": pool.n, "best": best})
        click.echo(f"{device}, {spec}, seed {seed}: {len(waiting)} searches")


def report(rows: Sequence[Row], path: Path, step: int) -> None:
    """Writes summary and rows, and draws the curves of each feature spec."""
    machine.write_result(path, {"base": FIGURE_8_BASE, "summary": figure_8_summary(rows), "rows": rows}, indent=None)
    panels: dict[str, list[Row]] = {}
    for place in dict.fromkeys((row["device"], row["spec"]) for row in rows):
        own = [row for row in rows if (row["device"], row["spec"]) == place]
        curves = [
            {**row, "curve": row["best"][step - 1 :: step], "trials": list(range(step, len(row["best"]) + 1, step))}
            for row in own
        ]
        panels[", ".join(place)] = mean_curves(curves, METHODS)
    plot_curves(path.with_suffix(".png"), panels, x="measured programs", y="best so far / best of all")


@click.command()
@options.data()
@click.option("--device", default=DEVICE, show_default=True, help="Of simulated searches.")
@click.option("--spec", "specs", multiple=True, default=SPECS, show_default=True)
@click.option("--only", default="*", show_default=True, help="Pattern of methods.")
@click.option("--batch", default=8, show_default=True, help="Programs measured between two fits.")
@options.trials(64)
@options.seeds(5)
@click.option("--live", is_flag=True, help="Search on this machine; run it with nothing else on the machine.")
@options.quick("One feature spec, one seed; live, one convolution and 16 trials.")
@options.rows_file()
@options.json_file("A picture of simulated searches goes beside it.")
def main(
    data: Path | None,
    device: str,
    specs: tuple[str, ...],
    only: str,
    batch: int,
    trials: int,
    seeds: int,
    live: bool,
    quick: bool,
    rows_path: Path | None,
    path: Path | None,
) -> None:
    """Searches for C7, C8 and C9 with a model from nothing, and with one of C1 to C6, by transfer method."""
    methods = fnmatch.filter(METHODS, only)
    if quick:
        specs, seeds = specs[:1], 1
    if live:
        targets = TARGETS[:1] if quick else TARGETS
        result = live_searches(
            data, rows_path, SOURCES, targets, methods, trials=16 if quick else trials, seeds=seeds, spec=specs[0]
        )
        machine.write_result(path, result)
        click.echo(live_figure_8_table(result))
        return
    kept = RowFile(rows_path, KEY, trials=trials)
    data = data or own_copy()
    for spec in specs:
        work(data, device, spec, kept, methods, batch=batch, trials=trials, seeds=seeds)
    click.echo(figure_8_table({"summary": figure_8_summary(kept.all)}))
    if path:
        report(kept.all, path, batch)
