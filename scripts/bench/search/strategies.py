"""Searches on this CPU by every strategy and selection, led by one model to which all workloads are new."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import click

from costhub.collector.device.local import find_local
from costhub.collector.measurer import Measurer, local_measurer
from costhub.collector.workloads.suites import find_workload
from costhub.models.protocol import CostModel
from costhub.search.options import Search, find_selection
from costhub.search.strategies.by_name import find_strategy
from costhub.search.tune import tune
from scripts.bench.common import machine, options
from scripts.bench.common.remeasure import best_trace, with_best_us
from scripts.bench.common.rows import RowFile
from scripts.bench.search.held_out import WORKLOADS, UnseenModels
from scripts.tables.strategies import BASE, strategies_summary, strategies_table

CHOSEN = WORKLOADS[:4]
STRATEGIES = ("evolutionary", "annealing", "ppo", "random-top-k")
SELECTED = ("ranked", "diverse", "clustered")
KEY = ("workload", "strategy", "selection", "seed", "trials")


def searched(measurer: Measurer, model: CostModel, key: tuple[str, str, str, int, int]) -> dict[str, Any]:
    """The row of one search with the values of KEY, and the best program that it found."""
    workload, strategy, selection, seed, trials = key
    with tempfile.TemporaryDirectory() as folder:
        result = tune(
            find_workload(workload).module(),
            workload,
            Search(model, strategy=find_strategy(strategy), selection=find_selection(selection), seed=seed),
            measurer,
            out=Path(folder),
            trials=trials,
        )
        best = best_trace(Path(folder), trials) if result.curve else None
    return {
        **dict(zip(KEY, key, strict=True)),
        "measured": result.trials,
        "failures": result.failures,
        "seconds": result.seconds,
        "stages": result.stages,
        "curve": result.curve,
        "trace": best,
    }


@click.command()
@options.data()
@options.models_folder()
@options.workloads(CHOSEN)
@click.option("--strategy", "strategies", multiple=True, default=STRATEGIES)
@click.option("--select", "selections", multiple=True, default=SELECTED)
@options.trials(64)
@options.seeds(3)
@options.quick("One workload, one seed, 16 trials.")
@options.rows_file()
@options.json_file()
def main(
    data: Path | None,
    models: Path | None,
    workloads: tuple[str, ...],
    strategies: tuple[str, ...],
    selections: tuple[str, ...],
    trials: int,
    seeds: int,
    quick: bool,
    rows_path: Path | None,
    path: Path | None,
) -> None:
    """Compares latency, seconds and trials to convergence; run it with nothing else on the machine."""
    if quick:
        workloads, trials, seeds = workloads[:1], 16, 1
    kept = RowFile(rows_path, KEY)
    with tempfile.TemporaryDirectory() as folder, local_measurer(find_local(["auto"])) as measurer:
        model = UnseenModels(data, models, folder, workloads).bound("costhub")
        for seed in range(seeds):
            # Workload by workload, so that searches which are compared follow one another closely.
            keys = [(w, s, c, seed, trials) for w in workloads for s in strategies for c in selections]
            waiting = [key for key in keys if key not in kept]
            if waiting:  # the first search would pay for the start of the processes
                searched(measurer, model, (waiting[0][0], "random", "ranked", seed, 4))
            for key in waiting:
                row = searched(measurer, model, key)
                kept.add(row)
                best = f"{row['curve'][-1][2]:,.1f} us" if row["curve"] else "no program ran"
                click.echo(f"{', '.join(map(str, key))}: {best}, {row['seconds']:.0f} s")
    rows = with_best_us([row for row in kept if row["trials"] == trials])
    about = {"base": BASE, "trials": trials, "summary": strategies_summary(rows)}
    short = [{name: value for name, value in row.items() if name != "trace"} for row in rows]
    machine.write_result(path, {**about, "rows": short})
    click.echo(strategies_table(about))
