"""Provides `costhub tune`: search for fast programs of a workload with a pretrained cost model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from costhub.cli.busy import tell_if_busy
from costhub.cli.interrupt import ended_like_by_ctrl_c
from costhub.cli.listing import list_option
from costhub.errors import NetworkError, WorkloadError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from costhub.transfer.methods.method import TransferMethod
    from costhub.transfer.network.finish import FinishedNetwork
    from costhub.transfer.search.result import TuneResult
    from costhub.transfer.selection.selection import Selection
    from costhub.transfer.strategies.strategy import Strategy
    from costhub.transfer.tune import Job


@dataclass(frozen=True)
class How:
    """The parts of a search that have a name."""

    method: TransferMethod
    strategy: Strategy
    selection: Selection | None


EXAMPLE = """
\b
Example:
  costhub tune resnet18.c7 matmul.512x512x512 --trials 64 --out tuned/
  costhub tune --network mobilenet_v2 --trials 32 --out tuned/
  costhub tune resnet18.c7 --strategy annealing --select diverse --out tuned/
"""


@click.command("tune", epilog=EXAMPLE)
@list_option
@click.argument("workloads", nargs=-1, metavar="[WORKLOAD]...")
@click.option(
    "--network",
    "networks",
    multiple=True,
    help="A network by name, or a file: .pt2 (torch.export.save), .json (relax, tvm.ir.save_json).",
)
@click.option(
    "--model",
    "model_name",
    default="auto",
    show_default=True,
    help="Model: what `costhub pull` takes, or 'auto'.",
)
@click.option("--arch", help="Architecture of the model, for example mlp; by default the best one.")
@click.option(
    "--draft",
    metavar="MODEL",
    help="A cheap model, as one of trace_decisions@1, that ranks all candidates; --model sees the best.",
)
@click.option(
    "--trials",
    default=64,
    show_default=True,
    type=click.IntRange(min=1),
    help="Programs to measure for each, on average: those that may still gain get more.",
)
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the results.",
)
@click.option(
    "--method", default="brief", show_default=True,
    help="How the model learns from what is measured: brief, frozen, or a method of `costhub adapt`.",
)  # fmt: skip
@click.option(
    "--strategy", default="evolutionary", show_default=True,
    help="How programs are proposed: evolutionary (TVM's own), annealing, ppo, random-top-k or random.",
)  # fmt: skip
@click.option(
    "--select", default="ranked", show_default=True,
    help="Which of them are measured: ranked (by score), diverse or clustered.",
)  # fmt: skip
@click.option(
    "--torch-compile", is_flag=True,
    help="Time networks under torch.compile as well, which takes a minute or more.",
)  # fmt: skip
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    workloads: tuple[str, ...],
    networks: tuple[str, ...],
    model_name: str,
    arch: str | None,
    draft: str | None,
    trials: int,
    out: Path,
    method: str,
    strategy: str,
    select: str,
    torch_compile: bool,
    seed: int,
    as_json: bool,
) -> None:
    """Search for fast programs of each WORKLOAD on this machine, led by a pretrained cost model.

    WORKLOAD is a name such as resnet18.c7, a suite, or a file with a TVM module in JSON (tvm.ir.save_json).
    The results are a TVM database that stock TVM compiles from, a report and a plot for each workload. A
    network is then compiled, checked against torch and timed; OUT/NETWORK.so is the result.

    Stop it with Ctrl-C at any time and start it again with the same --out: it goes on where it stopped.
    """
    from costhub.cli.tune_jobs import named_jobs, network_jobs
    from costhub.cli.tune_report import TuneReport, told
    from costhub.collector.device import identify
    from costhub.collector.target import local_target
    from costhub.hub.auto import choose_model
    from costhub.hub.pull import pull, pull_found
    from costhub.transfer.methods.registry import find_method
    from costhub.transfer.selection.registry import find_selection
    from costhub.transfer.strategies.registry import find_strategy

    if not workloads and not networks:
        raise click.UsageError("Nothing to tune: name a WORKLOAD, or a network with --network.")
    how = How(find_method(method), find_strategy(strategy), find_selection(select))
    jobs = [job for text in workloads for job in named_jobs(text)]
    device, target = identify(), local_target()
    found = choose_model(model_name, device, arch=arch)
    folder = pull_found(found)
    click.echo(f"Model {found.entry.name} ({found.entry.arch}). {found.reason}", err=True)
    drafting = pull(draft) if draft else None
    jobs += network_jobs(networks, json.dumps(target))
    if not jobs:
        raise WorkloadError(f"{' and '.join(networks)} has no kernel that could be tuned.")
    about = {
        "model": found.entry.name, "model_reason": found.reason,
        "method": f"{strategy} search, {select}; the model learns from each round by: {method}",
    }  # fmt: skip
    with ended_like_by_ctrl_c():
        results, order = _tune(
            jobs, folder, drafting, device, target, trials=trials, out=out, how=how, seed=seed
        )
        report = TuneReport(results, out, {job.name: job.weight for job in jobs}, order, device, about)
        report.draw()
        report.write()  # What was found is told, whatever becomes of the networks.
        finished = _finish(networks, target, out, torch_compile=torch_compile)
    summary = report.write(finished)
    click.echo(json.dumps(summary) if as_json else told(results, finished, out))
    _check(finished)


def _check(finished: Sequence[FinishedNetwork]) -> None:
    """Raises a NetworkError where outputs are not torch's."""
    wrong = [network.error for network in finished if network.error]
    if wrong:
        raise NetworkError(" ".join(wrong))


def _tune(
    jobs: Sequence[Job],
    folder: Path,
    drafting: Path | None,
    device: dict[str, Any],
    target: dict[str, Any],
    *,
    trials: int,
    out: Path,
    how: How,
    seed: int,
) -> tuple[list[TuneResult], list[str]]:
    """What was found, and the workload of each trial."""
    from costhub.cli.tune_progress import TuneProgress
    from costhub.cli.tune_report import refuse_newer_report
    from costhub.collector.builder import Builder
    from costhub.collector.runner import Runner
    from costhub.hub.device_rows import completed
    from costhub.models.compound.conditioned import bound_to
    from costhub.models.folder import load_model
    from costhub.transfer.tune import tune_all

    tell_if_busy()
    refuse_newer_report(out)
    known = completed(device)
    model = bound_to(load_model(folder)[0], known)
    draft = bound_to(load_model(drafting)[0], known) if drafting else None
    total = trials * len(jobs)
    with (
        Builder(json.dumps(target)) as builder,
        Runner(json.dumps(target)) as runner,
        TuneProgress(total, tasks=len(jobs)) as progress,
    ):
        results = tune_all(
            jobs, model=model, draft=draft, target=target, out=out, trials=total, builder=builder,
            runner=runner, method=how.method, strategy=how.strategy, selection=how.selection, seed=seed,
            on_trial=progress.trial, on_batch=progress.batch,
        )  # fmt: skip
    return results, progress.order


def _finish(
    networks: Sequence[str], target: dict[str, Any], out: Path, *, torch_compile: bool
) -> list[FinishedNetwork]:
    """The networks as a whole, after the search."""
    from costhub.collector.network import name_networks
    from costhub.transfer.network.finish import finish_network

    return [
        finish_network(
            network, label=label, target=json.dumps(target), database=out, out=out,
            threads=target["num-cores"], torch_compile=torch_compile,
            on_step=lambda step: click.echo(f"{step} ...", err=True),
        )
        for label, network in name_networks(networks).items()
    ]  # fmt: skip
