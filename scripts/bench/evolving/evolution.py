"""How large TVM's evolution needs to be for the kernels of networks, whose layouts have small design spaces."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import click

from costhub import load_model
from costhub.api.network_jobs import network_jobs
from costhub.collector.device.identity import identify
from costhub.collector.device.local import find_local, local_target
from costhub.collector.measurer import Measurer, local_measurer
from costhub.collector.workloads.network_source import BLOCKED, Lowering
from costhub.search.options import Search
from costhub.search.result import STAGES, TuneResult
from costhub.search.strategies.strategy import Evolutionary
from costhub.search.tune import tune_all
from scripts.bench.common import machine, options
from scripts.bench.common.rows import RowFile
from scripts.tables.strategies import evolution_table

NETWORKS = ("resnet18", "mobilenet_v2", "bert_small")
SETTINGS = {
    "256 x 2": Evolutionary(256, 2, 1.0),
    "64 x 1": Evolutionary(64, 1, 1.0),
    "64 x 1, pressure 3": Evolutionary(64, 1, 3.0),
}
"""Name -> how programs evolve, the setting that others are compared with first."""
KEY = ("network", "population", "generations", "pressure", "seed", "trials")
Key = tuple[str, int, int, float, int, int]


def searched(measurer: Measurer, key: Key) -> dict[str, Any]:
    """The row of the search with the values of KEY, led by the best model for this machine."""
    network, population, generations, pressure, seed, trials = key
    model = load_model("auto", device=identify())
    jobs = network_jobs([network], json.dumps(local_target()), Lowering(fast_math=True, layout=BLOCKED))
    search = Search(model, strategy=Evolutionary(population, generations, pressure), seed=seed)
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        results = tune_all(jobs, search, measurer, out=Path(folder), trials=trials * len(jobs))
    seconds = time.perf_counter() - start
    calls = {job.name: job.weight for job in jobs}
    return {
        **dict(zip(KEY, key, strict=True)),
        "kernels": len(jobs),
        "total_us": total_us(results, calls),
        "seconds": seconds,
        "stages": {stage: sum(each.stages.get(stage, 0.0) for each in results) for stage in STAGES},
    }


def total_us(results: Sequence[TuneResult], calls: Mapping[str, float]) -> float:
    """Microseconds of all calls.

    Raises:
        ClickException: No program of a kernel ran, so the sum would lack it.
    """
    if without := [each.workload for each in results if not each.best_us]:
        raise click.ClickException(f"No program of {without[0]} ran: searches that lack a kernel cannot be compared.")
    return sum(each.best_us * calls[each.workload] for each in results if each.best_us)


@click.command()
@click.option("--network", "networks", multiple=True, default=NETWORKS, show_default=True)
@click.option("--setting", "settings", multiple=True, type=click.Choice(list(SETTINGS)), default=tuple(SETTINGS))
@options.trials(16)
@options.seeds(2)
@options.quick("MobileNet-V2, two trials for each kernel.")
@options.rows_file()
@options.json_file()
def main(
    networks: tuple[str, ...],
    settings: tuple[str, ...],
    trials: int,
    seeds: int,
    quick: bool,
    rows_path: Path | None,
    path: Path | None,
) -> None:
    """Compares the seconds of searches and what they find; run it with nothing else on the machine."""
    if quick:
        networks, trials, seeds = ("mobilenet_v2",), 2, 1
    kept = RowFile(rows_path, KEY, trials=trials)
    with local_measurer(find_local(["auto"])) as measurer:
        measurer.launch()
        # Network by network, so that searches which are compared follow one another closely.
        own = [astuple(SETTINGS[name]) for name in settings]
        for key in ((net, *each, seed, trials) for seed in range(seeds) for net in networks for each in own):
            if key not in kept:
                row = searched(measurer, key)
                kept.add(row)
                click.echo(f"{', '.join(map(str, key))}: {row['total_us']:,.0f} us, {row['seconds']:.0f} s")
    result = {"rows": kept.all}
    machine.write_result(path, result)
    click.echo(evolution_table(result))
