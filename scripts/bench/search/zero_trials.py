"""Times zero-trial libraries of kernels that neither model nor seeds know beside stock MetaSchedule's 512 trials."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from costhub.api.compile import Compilation, CompileOptions, compile
from costhub.collector.device.local import local_target
from costhub.collector.workloads.network_kernels import name_networks
from costhub.collector.workloads.network_source import read_network
from costhub.hub.catalogue.hubs import dataset_folders
from costhub.search.whole_network.compile import distinguishing_input
from costhub.search.whole_network.finish import TORCH, finish_untimed
from costhub.search.whole_network.network_timer import NetworkTimer
from costhub.search.zero_trials.plan import SOURCES
from scripts.bench.common import machine, options
from scripts.bench.common.kept_searches import kept_course, stock_folder
from scripts.bench.common.remeasure import ROUNDS, best_trace, compiled_trace, remeasure, replayed
from scripts.bench.common.rows import RowFile
from scripts.bench.search.held_out import WORKLOADS, UnseenModels
from scripts.tables.networks import zero_trials_table
from scripts.tables.search import LIGHT

NETWORKS = ("resnet18", "mobilenet_v2", "bert_small")
"""The models of `UnseenModels` have not learned from their kernels."""
NETWORK_ROUNDS = 30
KEY = ("subject", "method", "seed", "trials")


@dataclass(frozen=True)
class ZeroTrialMethod:
    """Sources of schedules, and whether the hub's data and model know the workload."""

    name: str
    sources: tuple[str, ...]
    is_unseen: bool = True
    is_own: bool = False
    """Whether the user names the data, so that what they measured on the device comes before the model's choice."""


METHODS = (
    ZeroTrialMethod("all but measured", ("carried", "model")),
    ZeroTrialMethod("carried over alone", ("carried",)),
    ZeroTrialMethod("model alone", ("model",)),
    ZeroTrialMethod("all, workload known", tuple(SOURCES), is_unseen=False),
    ZeroTrialMethod("all, workload measured by the user", tuple(SOURCES), is_unseen=False, is_own=True),
)


@dataclass(frozen=True)
class Setting:
    """What all compilations of a run share."""

    unseen: UnseenModels
    data: tuple[Path, ...]
    """Folders that are known beside the hub's."""
    scratch: Path
    pool: int

    def compiled(self, subject: str, method: ZeroTrialMethod, seed: int) -> tuple[Compilation, Path]:
        """The compilation of a workload or network, and its folder; the outputs have been compared."""
        out = Path(tempfile.mkdtemp(dir=self.scratch)) / "out"
        without = tuple(sorted(self.unseen.without)) if method.is_unseen else ()
        data = self.data if method.is_unseen or method.is_own else ()
        found = compile(
            subject,
            out,
            model=self.unseen.folder("costhub") if method.is_unseen else "auto",
            options=CompileOptions(sources=method.sources, without=without, data=data, pool=self.pool),
            seed=seed,
            progress=False,
        )
        return found, out


def stock_database(kind: str, subject: str, trials: int, seed: int, searches: Path) -> Path:
    """The folder of stock's search, which is done unless it is there; an interrupted one starts anew."""
    folder = stock_folder(searches, subject, seed)
    if kind == "workload":
        kept_course(folder, kind, LIGHT, subject, trials, seed, folder)
    else:
        kept_course(folder, kind, subject, trials, seed, folder, 0)
    return folder


def described(subject: str, method: str, seed: int, trials: int, found: Compilation | None) -> dict[str, Any]:
    """A row without latencies."""
    row: dict[str, Any] = {"subject": subject, "method": method, "seed": seed, "trials": trials}
    if found is None:
        return row
    kernels = [asdict(kernel) for kernel in found.kernels]
    seconds = sum(kernel["seconds"] for kernel in kernels)
    return {**row, "ranking_s": seconds, "kernels": [{**kernel, "library": None} for kernel in kernels]}


def of_workload(
    setting: Setting,
    workload: str,
    methods: Sequence[ZeroTrialMethod],
    stock: Path,
    *,
    trials: int,
    seed: int,
    rounds: int,
) -> list[dict[str, Any]]:
    """Rows of a workload, all programs of which are timed in turn; a method without a schedule has no latency."""
    rows = [described(workload, LIGHT, seed, trials, None)]
    programs = {LIGHT: (workload, best_trace(stock, trials))}
    for method in methods:
        found, out = setting.compiled(workload, method, seed)
        rows.append(described(workload, method.name, seed, 0, found))
        if found.kernels[0].error is None:
            programs[method.name] = (workload, compiled_trace(out))
    best_us = remeasure(replayed(set(programs.values())), rounds)
    return with_gains([{**row, "best_us": best_us.get(programs.get(row["method"], ("", "")))} for row in rows])


def of_network(
    setting: Setting,
    network: str,
    methods: Sequence[ZeroTrialMethod],
    stock: Path,
    *,
    trials: int,
    seed: int,
    rounds: int,
) -> list[dict[str, Any]]:
    """Rows of a network, all libraries of which are timed in turn, beside torch."""
    ((label, _),) = name_networks([network]).items()
    target = local_target()
    out = Path(tempfile.mkdtemp(dir=setting.scratch))
    whole = finish_untimed(network, label=label, target=json.dumps(target), database=stock, out=out)
    rows, libraries = [described(network, LIGHT, seed, trials, None)], {LIGHT: whole.library}
    for method in methods:
        found, _ = setting.compiled(network, method, seed)
        rows.append(described(network, method.name, seed, 0, found))
        libraries[method.name] = found.networks[0].library
    inputs = tuple(distinguishing_input(np.asarray(value)) for value in read_network(network).inputs)
    with NetworkTimer(inputs, int(target["num-cores"])) as timer:
        for name, library in libraries.items():
            if library is not None:
                timer.load_library(name, library)
        timer.load_torch(TORCH, network)
        taken = timer.measure(rounds=rounds)
    torch_us = taken[TORCH].median_us if TORCH in taken else None
    latencies = {name: latency.median_us for name, latency in taken.items()}
    return with_gains([{**row, "best_us": latencies.get(row["method"]), "torch_us": torch_us} for row in rows])


def with_gains(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with `gain`, stock's latency over their own; above 1 is better."""
    stock_us = next(row["best_us"] for row in rows if row["method"] == LIGHT)
    return [{**row, "gain": stock_us / row["best_us"] if stock_us and row["best_us"] else None} for row in rows]


def missing(rows: RowFile, subject: str, seed: int, trials: int) -> bool:
    """Whether a subject is still to do; its programs are timed together, so it is done as a whole."""
    return (subject, LIGHT, seed, trials) not in rows


@click.command()
@options.data("A folder that is known beside the hub's; models learn from it, by default from the embedded dataset.")
@options.models_folder()
@options.workloads(WORKLOADS)
@click.option("--network", "networks", multiple=True, type=click.Choice(NETWORKS), help="A network as well.")
@click.option(
    "--searches",
    type=options.PATH,
    help="Where stock's databases are kept, SUBJECT-stock-SEED; a search that is there is not done again. "
    "The benchmark `search` can share the folder.",
)
@options.trials(512)
@click.option("--network-trials", default=64, show_default=True, help="Of stock, for each kernel of a network.")
@options.seeds(1)
@click.option("--rounds", default=ROUNDS, show_default=True, help="In which all programs of a workload are timed.")
@options.quick("One workload, 16 trials of stock, and all sources with the embedded model.")
@options.rows_file()
@options.json_file()
def main(
    data: Path | None,
    models: Path | None,
    workloads: tuple[str, ...],
    networks: tuple[str, ...],
    searches: Path | None,
    trials: int,
    network_trials: int,
    seeds: int,
    rounds: int,
    quick: bool,
    rows_path: Path | None,
    path: Path | None,
) -> None:
    """Latency of each kind of zero-trial library over stock's; run it with nothing else on the machine."""
    methods: Sequence[ZeroTrialMethod] = METHODS
    pool = CompileOptions().pool
    if quick:
        methods, workloads, networks, trials, seeds, rounds, pool = METHODS[3:], workloads[:1], (), 16, 1, 2, 32
        searches = rows_path = None  # of fewer trials and programs, which no other run is to take for its own
    rows = RowFile(rows_path, KEY)
    with tempfile.TemporaryDirectory() as folder:
        unseen = UnseenModels(data, models, folder, workloads)
        # By default as if the user had measured what the hub knows.
        setting = Setting(unseen, (data,) if data else tuple(dataset_folders().values()), Path(folder), pool)
        kept = searches or Path(folder, "searches")
        subjects = [("workload", each, trials) for each in workloads]
        subjects += [("network", each, network_trials) for each in networks]
        for seed, (kind, subject, most) in ((seed, each) for seed in range(seeds) for each in subjects):
            if missing(rows, subject, seed, most):
                stock = stock_database(kind, subject, most, seed, kept)
                made = of_workload if kind == "workload" else of_network
                count = rounds if kind == "workload" else NETWORK_ROUNDS
                rows.add(*made(setting, subject, methods, stock, trials=most, seed=seed, rounds=count))
                click.echo(zero_trials_table({"rows": rows.all}))
    result: Mapping[str, Any] = {"rows": rows.all}
    machine.write_result(path, result)
