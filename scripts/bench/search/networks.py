"""Measures how soon a search makes held-out networks fast on this CPU, beside torch."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from costhub.collector.device.local import local_target
from costhub.collector.workloads.network_kernels import name_networks
from costhub.collector.workloads.network_source import BLOCKED, PLAIN, Lowering, read_network
from costhub.search.database import FILES
from costhub.search.whole_network.compile import distinguishing_input
from costhub.search.whole_network.finish import TORCH, TORCH_COMPILE, TUNED, UNTUNED, finish_network
from costhub.search.whole_network.network_timer import NetworkTimer
from scripts.bench.common import machine, options
from scripts.bench.common.kept_searches import kept_course
from scripts.bench.search.held_out import UnseenModels
from scripts.bench.search.once import seconds_at
from scripts.tables.networks import networks_table
from scripts.tables.search import LIGHT

NETWORKS = ("resnet18", "mobilenet_v2", "bert_small")
"""No model has learned from their kernels, see `UnseenModels`."""
ROUNDS = 30
"""All forms of a network are timed in turn in each; together they last longer than a host's disturbances."""


@dataclass(frozen=True)
class NetworkMethod:
    """A search, and the numbers of trials per kernel after which the network is compiled."""

    name: str
    folder: str
    milestones: tuple[int, ...]
    models: tuple[str, ...] = ()
    """Keys of `KINDS`."""
    fast_math: bool = False
    """Searched for `EXPONENTIAL` networks only."""

    @property
    def lowering(self) -> Lowering:
        """How its kernels are made: stock's as TVM makes them by itself."""
        return Lowering(self.fast_math, BLOCKED if self.models else PLAIN)


METHODS = (
    NetworkMethod(LIGHT, "stock", (64,)),
    NetworkMethod("costhub", "costhub", (16, 32), ("costhub",)),
    NetworkMethod("costhub, fast math", "fast", (16, 32), ("costhub",), fast_math=True),
)
EXPONENTIAL = ("bert_small",)
"""Those of the networks above that contain exp or erf."""


def searched(network: str, seed: int, method: NetworkMethod, models: Sequence[Path], folder: Path) -> dict[str, Any]:
    """The course of a search, whose database lies in the folder; an interrupted search starts anew."""
    words = (network, method.milestones[-1], seed, folder, int(method.fast_math), *models)
    return kept_course(folder, "network", *words)


def begun(database: Path, trials: int, out: Path) -> Path:
    """The database as it was after so many trials."""
    out.mkdir()
    workloads, records = FILES
    shutil.copy(database / workloads, out)
    lines = (database / records).read_text().splitlines(keepends=True)[:trials]
    (out / records).write_text("".join(lines))
    return out


def compiled(
    network: str, milestone: int, course: dict[str, Any], database: Path, out: Path, lowering: Lowering
) -> dict[str, Any]:
    """A row with the library of the network as it was after so many trials of the search."""
    target, ((label, _),) = local_target(), name_networks([network]).items()
    total = milestone * course["tasks"]
    whole = finish_network(
        network,
        label=label,
        target=json.dumps(target),
        database=begun(database, total, out),
        out=out,
        lowering=lowering,
        beside=[UNTUNED],
    )
    seconds = seconds_at(course["rounds"], total)
    return {**whole.to_json(), "trials": milestone, "tasks": course["tasks"], "seconds": seconds}


def timed(network: str, rows: Sequence[dict[str, Any]], *, torch_compile: bool) -> list[dict[str, Any]]:
    """The rows with latencies measured in turn, torch included, and without their libraries."""
    inputs = tuple(distinguishing_input(np.asarray(value)) for value in read_network(network).inputs)
    with NetworkTimer(inputs, rows[0]["threads"]) as timer:
        for number, row in enumerate(rows):
            if row["library"]:
                timer.load_library(str(number), row["library"])
        timer.load_torch(TORCH, network)
        if torch_compile:
            timer.load_torch(TORCH_COMPILE, network, compiled=True)
        taken = {name: vars(latency) for name, latency in timer.measure(rounds=ROUNDS).items()}
    torch = {form: taken[form] for form in (TORCH, TORCH_COMPILE) if form in taken}
    timed_rows = []
    for number, row in enumerate(rows):
        latencies = {UNTUNED: row["latencies"].get(UNTUNED), TUNED: taken.get(str(number)), **torch}
        measured = {form: latency for form, latency in latencies.items() if latency}
        timed_rows.append({**row, "library": None, "latencies": measured})
    return timed_rows


@click.command()
@click.option("--network", "networks", multiple=True, default=NETWORKS, show_default=True)
@options.data()
@options.models_folder()
@options.seeds(3)
@click.option("--torch-compile/--no-torch-compile", default=True, show_default=True)
@options.quick("One network and seed, costhub alone, without torch.compile.")
@click.option(
    "--searches",
    type=click.Path(path_type=Path),
    help="Where databases are kept; a search that is there is not done again.",
)
@options.json_file()
def main(
    networks: tuple[str, ...],
    data: Path | None,
    models: Path | None,
    seeds: int,
    torch_compile: bool,
    quick: bool,
    searches: Path | None,
    path: Path | None,
) -> None:
    """Run it with nothing else on the machine; a quarter of an hour to an hour for each network and seed."""
    methods: Sequence[NetworkMethod] = METHODS
    if quick:
        methods, networks, seeds, torch_compile = METHODS[1:2], ("bert_small",), 1, False
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        unseen = UnseenModels(data, models, scratch)
        for network in networks:
            of_it: list[dict[str, Any]] = []
            of_network = [each for each in methods if not each.fast_math or network in EXPONENTIAL]
            for seed, method in ((seed, method) for seed in range(seeds) for method in of_network):
                folders = [unseen.folder(name) for name in method.models]
                name = f"{network}-{method.folder}-{seed}"
                folder = (searches or Path(scratch, "searches")) / name
                course = searched(network, seed, method, folders, folder)
                of_it += [
                    {
                        **compiled(
                            network,
                            count,
                            course,
                            folder,
                            Path(scratch, f"{name}-{count}"),
                            method.lowering,
                        ),
                        "method": method.name,
                        "seed": seed,
                    }
                    for count in method.milestones
                ]
            rows += timed(network, of_it, torch_compile=torch_compile)
            click.echo(networks_table({"rows": rows}))
    machine.write_result(path, {"rows": rows})
