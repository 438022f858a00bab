"""Provides `costhub tune`: search for fast programs of a workload with a pretrained cost model."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from costhub.cli.shared.interaction import interruptible
from costhub.cli.shared.measuring import check_names, exported_among, named_jobs, network_jobs, open_measurer
from costhub.cli.shared.options import METHOD, SELECTION, STRATEGY, check_tracker_options, list_option
from costhub.errors import NetworkError, WorkloadError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from costhub.collector.measurer import Measurer
    from costhub.hub.catalogue.hubs import ModelEntry
    from costhub.search.database import SearchFolder
    from costhub.search.options import Job
    from costhub.search.result import TuneResult
    from costhub.search.selection import Selection
    from costhub.search.strategies.strategy import Strategy
    from costhub.search.whole_network.finish import FinishedNetwork
    from costhub.transfer.methods.method import TransferMethod


@dataclass(frozen=True)
class SearchParts:
    """The parts of a search that have a name."""

    method: TransferMethod
    strategy: Strategy
    selection: Selection | None
    said: str
    """Their description, for the report."""


EXAMPLE = """
\b
Example:
  costhub tune resnet18.c7 matmul.512x512x512 --trials 64 --out tuned/
  costhub tune --network mobilenet_v2 --trials 32 --out tuned/
  costhub tune mine.pt2 --trials 32 --out tuned/
  costhub tune resnet18.c7 --strategy annealing --select diverse --out tuned/
  costhub tune resnet18.c7 --tracker 127.0.0.1:9190 --key pi4 --out tuned/
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
    help="Model: a name as for `costhub pull`, or 'auto'.",
)
@click.option("--arch", help="Architecture of the model, for example mlp; by default the best one.")
@click.option(
    "--draft",
    metavar="MODEL",
    help="A cheap model, such as one that reads trace_decisions@1. It ranks all candidates, and --model then "
    "scores only the best of them.",
)
@click.option(
    "--device",
    default="auto",
    show_default=True,
    help="The device of this machine to tune for, such as cuda; 'auto' is its CPU.",
)
@click.option("--tracker", metavar="HOST:PORT", help="Tune for the boards of a TVM RPC tracker instead.")
@click.option("--key", help="The boards' key at the tracker.")
@click.option(
    "--trials",
    default=64,
    show_default=True,
    type=click.IntRange(min=1),
    help="Programs to measure per workload, on average; workloads likely to improve get more.",
)
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for the results.",
)
@click.option(
    "--method",
    type=METHOD,
    default="brief",
    show_default=True,
    help="How the model learns from measurements: brief, frozen, or a method of `costhub adapt`.",
)
@click.option(
    "--strategy",
    type=STRATEGY,
    default="evolutionary",
    show_default=True,
    help="How programs are proposed: evolutionary (TVM's own), annealing, ppo, random-top-k or random.",
)
@click.option(
    "--select",
    type=SELECTION,
    default="ranked",
    show_default=True,
    help="Which proposals are measured: ranked (by score), diverse or clustered.",
)
@click.option(
    "--fast-math",
    is_flag=True,
    help="Use polynomials for exp, tanh and erf in networks: several times as fast, last digits differ.",
)
@click.option(
    "--torch-compile",
    is_flag=True,
    help="Time networks under torch.compile as well, which takes a minute or more.",
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    workloads: tuple[str, ...],
    networks: tuple[str, ...],
    model_name: str,
    arch: str | None,
    draft: str | None,
    device: str,
    tracker: str | None,
    key: str | None,
    trials: int,
    out: Path,
    method: str,
    strategy: str,
    select: str,
    fast_math: bool,
    torch_compile: bool,
    seed: int,
    as_json: bool,
) -> None:
    """Search for fast programs of each WORKLOAD on this machine or on boards, guided by a pretrained model.

    WORKLOAD is a name such as resnet18.c7, a suite, a file with a TVM module in JSON (tvm.ir.save_json), or a
    network that torch.export.save wrote (.pt2). The results are a TVM database that stock TVM compiles from,
    a report and a plot for each workload. A network for a CPU, here or on boards, is then compiled to
    OUT/NETWORK.so, checked against torch and timed.

    Stop it with Ctrl-C at any time and start it again with the same --out: it continues where it stopped.
    """
    from costhub.cli.shared.tune_output import TuneReport, read_report, result_text
    from costhub.hub.catalogue.find import AUTO, choose_model, find_model
    from costhub.hub.pull import pull, pull_resolved
    from costhub.search.database import SearchFolder

    names, files = exported_among(workloads)
    networks = (*networks, *files)
    _check_arguments(names, networks, device, tracker, key)
    named = None if model_name == AUTO else find_model(model_name, arch=arch)
    drafting = pull(draft) if draft else None
    how = _search_parts(method, strategy, select)
    jobs = [job for text in names for job in named_jobs(text)]
    with interruptible(), SearchFolder(out) as search_folder, ExitStack() as measuring:
        earlier = read_report(out)
        measurer = measuring.enter_context(open_measurer([device], tracker, key))
        found = named or choose_model(AUTO, measurer.device, arch=arch)
        folder = pull_resolved(found)
        click.echo(f"Model {found.entry.name} ({found.entry.arch}). {found.reason}", err=True)
        _warn(found.entry, measurer, networks)
        jobs += network_jobs(networks, json.dumps(measurer.target), fast_math=fast_math)
        if not jobs:
            raise WorkloadError(f"{' and '.join(networks)} has no kernel that can be tuned.")
        results, order = _tune(jobs, folder, drafting, measurer, trials=trials, out=search_folder, how=how, seed=seed)
        measuring.close()  # Its processes must not compute while a network is timed.
        about = {"model": found.entry.name, "model_reason": found.reason, "method": how.said}
        report = TuneReport(results, out, {j.name: j.weight for j in jobs}, order, measurer.device, about, earlier)
        report.draw()
        report.write()  # Keeps the results, even if a network fails.
        finished = _finish(networks, measurer, out, fast_math=fast_math, torch_compile=torch_compile)
        summary = report.write(finished)
    click.echo(json.dumps(summary) if as_json else result_text(results, finished, out))
    _raise_wrong_outputs(finished)


def _check_arguments(
    workloads: Sequence[str], networks: Sequence[str], device: str, tracker: str | None, key: str | None
) -> None:
    """Refuses wrong names and contradictions before TVM or torch is imported."""
    if not workloads and not networks:
        raise click.UsageError("Nothing to tune: name a WORKLOAD, or a network with --network.")
    check_tracker_options(tracker, key)
    if tracker is not None and device != "auto":
        raise click.UsageError("--device selects a device of this machine; leave it out with --tracker.")
    check_names(workloads, networks, [device] if tracker is None else [])


def _search_parts(method: str, strategy: str, select: str) -> SearchParts:
    """The parts of a search by their names."""
    from costhub.search.selection import SELECTIONS, find_selection
    from costhub.search.strategies.by_name import STRATEGIES, find_strategy
    from costhub.transfer.methods.by_name import METHODS, find_method

    for registry, name in ((METHODS, method), (STRATEGIES, strategy), (SELECTIONS, select)):
        registry.check(name)  # before any of them loads torch or TVM
    said = f"{strategy} search, {select}; the model learns from each round by: {method}"
    return SearchParts(find_method(method), find_strategy(strategy), find_selection(select), said)


def _warn(entry: ModelEntry, measurer: Measurer, networks: Sequence[str]) -> None:
    """Warns of limits before the search, which may take hours."""
    _warn_of_another_kind(entry, measurer.device)
    obstacle = _obstacle(measurer) if networks else None
    if obstacle is not None:
        click.echo(
            f"{' and '.join(networks)} will not be compiled as a whole. {obstacle} Schedules of the kernels "
            "will be in the database.",
            err=True,
        )


def _warn_of_another_kind(entry: ModelEntry, device: Mapping[str, Any]) -> None:
    """Warns if the model is for a GPU and the device is a CPU, or the other way round."""
    from costhub.hub.catalogue.devices import find_device

    meant = find_device(entry.device_id)
    if meant is not None and meant.kind != device["kind"]:
        click.echo(
            f"{entry.name} is a model for {meant.kind} devices, but {device['device_id']} is a "
            f"{device['kind']} device: its predictions may be wrong until it has learned from measurements.",
            err=True,
        )


def _raise_wrong_outputs(finished: Sequence[FinishedNetwork]) -> None:
    """Raises a NetworkError if outputs differ from torch's."""
    wrong = [network.error for network in finished if network.error]
    if wrong:
        raise NetworkError(" ".join(wrong))


def _tune(
    jobs: Sequence[Job],
    folder: Path,
    drafting: Path | None,
    measurer: Measurer,
    *,
    trials: int,
    out: SearchFolder,
    how: SearchParts,
    seed: int,
) -> tuple[list[TuneResult], list[str]]:
    """The results, and the workload of each trial."""
    from costhub.cli.shared.tune_output import TuneProgress
    from costhub.hub.catalogue.devices import complete_device_row
    from costhub.models.folder import load_model
    from costhub.search.options import Search
    from costhub.search.tune import tune_all

    known = complete_device_row(measurer.device)
    model = load_model(folder)[0].bind(known)
    draft = load_model(drafting)[0].bind(known) if drafting else None
    search = Search(model, draft=draft, method=how.method, strategy=how.strategy, selection=how.selection, seed=seed)
    total = trials * len(jobs)
    with TuneProgress(total) as progress:
        results = tune_all(
            jobs,
            search,
            measurer,
            out=out,
            trials=total,
            on_trial=progress.trial,
            on_batch=progress.batch,
        )
    return results, progress.order


def _finish(
    networks: Sequence[str], measurer: Measurer, out: Path, *, fast_math: bool, torch_compile: bool
) -> list[FinishedNetwork]:
    """Compiles and times whole networks after the search; none if the device does not allow it."""
    from costhub.collector.workloads.network_kernels import name_networks
    from costhub.search.whole_network.finish import finish_network

    if _obstacle(measurer) is not None:
        return []
    return [
        finish_network(
            network,
            label=label,
            target=json.dumps(measurer.target),
            database=out,
            out=out,
            fast_math=fast_math,
            torch_compile=torch_compile,
            boards=measurer.boards,
            on_step=lambda step: click.echo(f"{step} ...", err=True),
        )
        for label, network in name_networks(networks).items()
    ]


def _obstacle(measurer: Measurer) -> str | None:
    """A sentence that says why networks cannot be compiled for a device; None if they can."""
    from costhub.collector.build.linker import can_link

    triple = measurer.target.get("mtriple")
    if measurer.device["kind"] != "cpu":
        return "This is done for CPUs only."
    if measurer.boards is not None and not can_link(triple):
        return f"No linker for {triple} is installed; on Debian, install lld or the binutils for it."
    return None
