"""Whole networks on this CPU: untuned, tuned, and as torch runs them; compiled, checked and timed."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import click
import machine

from costhub.cards.networks_table import networks_table
from costhub.cli.tune_progress import TuneProgress
from costhub.collector.builder import Builder
from costhub.collector.device import identify
from costhub.collector.network import name_networks, network_workloads
from costhub.collector.runner import Runner
from costhub.collector.target import local_target
from costhub.hub.auto import choose_model
from costhub.hub.device_rows import completed
from costhub.hub.pull import pull_found
from costhub.models.compound.conditioned import bound_to
from costhub.models.folder import load_model
from costhub.models.protocol import CostModel
from costhub.transfer.network.finish import finish_network
from costhub.transfer.tune import Job, tune_all

NETWORKS = ("resnet18", "mobilenet_v2", "bert_small")
KEY = ("network", "trials", "seed", "model")
"""What tells rows apart; those that a file holds are not measured again."""


def measured(
    network: str, model: CostModel, trials: int, seed: int, *, torch_compile: bool
) -> dict[str, Any]:
    """One search over the kernels of a network, and the network after it.

    Args:
        network: A name, or a file.
        model: Leads the search.
        trials: For each kernel, on average.
        seed: Of the search.
        torch_compile: Whether ``torch.compile`` is timed too.
    """
    target = json.dumps(local_target())
    kernels = network_workloads([network], target=target)
    jobs = [Job(each.name, each.module(), sum(count for _, count in each.networks)) for each in kernels]
    total = trials * len(jobs)
    ((label, _),) = name_networks([network]).items()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        with (
            Builder(target) as builder,
            Runner(target) as runner,
            TuneProgress(total, tasks=len(jobs)) as shown,
        ):
            found = tune_all(
                jobs, model=model, target=json.loads(target), out=out, trials=total, builder=builder,
                runner=runner, seed=seed, on_trial=shown.trial, on_batch=shown.batch,
            )  # fmt: skip
        whole = finish_network(
            network, label=label, target=target, database=out, out=out,
            threads=json.loads(target)["num-cores"], torch_compile=torch_compile,
        )  # fmt: skip
    return {
        **whole.to_json(), "network": label, "library": None, "trials": trials, "seed": seed,
        "tasks": len(jobs), "measured": sum(each.trials for each in found),
        "failures": sum(each.failures for each in found), "seconds": sum(each.seconds for each in found),
    }  # fmt: skip


@click.command()
@click.option("--network", "networks", multiple=True, default=NETWORKS, show_default=True)
@click.option("--model", "name", default="auto", show_default=True, help="What `costhub pull` takes.")
@click.option("--trials", default=64, show_default=True, help="For each kernel, on average.")
@click.option("--seeds", default=3, show_default=True)
@click.option("--torch-compile/--no-torch-compile", default=True, show_default=True)
@click.option("--quick", is_flag=True, help="One network, one seed, 16 trials, without torch.compile.")
@click.option("--json", "path", type=click.Path(path_type=Path), help="Rows that it holds are kept.")
def main(
    networks: tuple[str, ...],
    name: str,
    trials: int,
    seeds: int,
    torch_compile: bool,
    quick: bool,
    path: Path | None,
) -> None:
    """Run it with nothing else on the machine; stopped, it goes on with the next row."""
    if quick:
        networks, trials, seeds, torch_compile = networks[:1], 16, 1, False
    rows: list[dict[str, Any]] = json.loads(path.read_text())["rows"] if path and path.exists() else []
    device = identify()
    found = choose_model(name, device)
    model = bound_to(load_model(pull_found(found))[0], completed(device))
    labels = {network: label for label, network in name_networks(networks).items()}
    for seed in range(seeds):
        for network, label in labels.items():
            row = {"network": label, "trials": trials, "seed": seed, "model": found.entry.name}
            if any(all(each[key] == row[key] for key in KEY) for each in rows):
                continue
            rows.append({**measured(network, model, trials, seed, torch_compile=torch_compile), **row})
            click.echo(networks_table({"rows": rows[-1:]}))
            if path:
                path.write_text(json.dumps({**machine.describe(), "rows": rows}, indent=1))
    click.echo(networks_table({"rows": rows}))


if __name__ == "__main__":
    main()
