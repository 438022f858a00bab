"""Whole held-out networks on this CPU: how soon a search makes them fast, and how fast torch runs them."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import machine
from bench_models import read_rows
from bench_search import WORKLOADS, seconds_at
from embedded import copy_dataset
from fresh import told_by
from search_models import held_out, trained

from costhub.cards.networks_table import networks_table
from costhub.cards.search_table import LIGHT
from costhub.collector.network import name_networks
from costhub.collector.target import local_target
from costhub.transfer.network.finish import finish_network
from costhub.transfer.search.database import FILES

NETWORKS = ("resnet18", "mobilenet_v2", "bert_small")
"""Whose kernels `search_models.held_out` keeps from every model."""


@dataclass(frozen=True)
class Method:
    """A search, and after how many trials for each kernel the network is compiled."""

    name: str
    milestones: tuple[int, ...]
    models: tuple[str, ...] = ()
    """Of search_models.py."""


METHODS = (Method(LIGHT, (64,)), Method("costhub", (16, 32), ("costhub",)))


def begun(database: Path, trials: int, out: Path) -> Path:
    """The database as it was after so many trials."""
    out.mkdir()
    workloads, records = FILES
    shutil.copy(database / workloads, out)
    lines = (database / records).read_text().splitlines(keepends=True)[:trials]
    (out / records).write_text("".join(lines))
    return out


def compared(
    network: str, seed: int, method: Method, models: Sequence[Path], *, compiled: bool
) -> Iterator[dict[str, Any]]:
    """One row for each milestone, the last one of the whole search; the first one may time torch.compile."""
    target = local_target()
    ((label, _),) = name_networks([network]).items()
    with tempfile.TemporaryDirectory() as folder:
        words = (network, method.milestones[-1], seed, Path(folder, "search"), *models)
        course = told_by("network_once.py", *words)
        for milestone in method.milestones:
            total = milestone * course["tasks"]
            known = begun(Path(folder, "search"), total, Path(folder, str(milestone)))
            whole = finish_network(
                network, label=label, target=json.dumps(target), database=known, out=known,
                threads=target["num-cores"], torch_compile=compiled and milestone == method.milestones[0],
            )  # fmt: skip
            yield {
                **whole.to_json(), "network": label, "library": None, "method": method.name,
                "trials": milestone, "seed": seed, "tasks": course["tasks"],
                "seconds": seconds_at(course["rounds"], total),
            }  # fmt: skip


@click.command()
@click.option("--network", "networks", multiple=True, default=NETWORKS, show_default=True)
@click.option("--data", type=click.Path(path_type=Path), help="By default a copy of the embedded dataset.")
@click.option("--models", type=click.Path(path_type=Path), help="Where trained models are kept.")
@click.option("--seeds", default=3, show_default=True)
@click.option("--torch-compile/--no-torch-compile", default=True, show_default=True)
@click.option("--quick", is_flag=True, help="One network and seed, costhub alone, without torch.compile.")
@click.option("--rows", "rows_path", type=click.Path(path_type=Path), help="JSON lines; what is there is not "
              "done again.")  # fmt: skip
@click.option("--json", "path", type=click.Path(path_type=Path))
def main(
    networks: tuple[str, ...], data: Path | None, models: Path | None, seeds: int, torch_compile: bool,
    quick: bool, rows_path: Path | None, path: Path | None,
) -> None:  # fmt: skip
    """Run it with nothing else on the machine; a quarter of an hour to an hour for each network and seed."""
    methods = METHODS
    if quick:
        methods, networks, seeds, torch_compile = METHODS[1:], networks[:1], 1, False
    rows = read_rows(rows_path)
    labels = {network: label for label, network in name_networks(networks).items()}
    with tempfile.TemporaryDirectory() as folder:
        data, models = data or copy_dataset(folder), models or Path(folder, "models")
        models.mkdir(exist_ok=True)
        without = held_out(data, WORKLOADS)
        each = [
            (seed, network, method) for seed in range(seeds) for network in networks for method in methods
        ]
        for seed, network, method in each:
            key = (labels[network], seed, method.name)
            if any((row["network"], row["seed"], row["method"]) == key for row in rows):
                continue
            trained_on = [trained(name, data, models, without) for name in method.models]
            compiled = torch_compile and method is methods[0]
            found = list(compared(network, seed, method, trained_on, compiled=compiled))
            rows += found
            click.echo(networks_table({"rows": found}))
            if rows_path:
                with rows_path.open("a") as file:
                    file.writelines(json.dumps(row) + "\n" for row in found)
    click.echo(networks_table({"rows": rows}))
    if path:
        path.write_text(json.dumps({**machine.describe(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
