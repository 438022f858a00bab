"""Provides `costhub tune`: search for fast programs of a workload with a pretrained cost model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from costhub.cli.interrupt import ended_like_by_ctrl_c
from costhub.errors import WorkloadError
from costhub.progress import bar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from costhub.transfer.methods.method import TransferMethod
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
@click.argument("workloads", nargs=-1, metavar="[WORKLOAD]...")
@click.option(
    "--network", "networks", multiple=True, help="The kernels of a network by name, or of a file.pt2."
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
    seed: int,
    as_json: bool,
) -> None:
    """Search for fast programs of each WORKLOAD on this machine, led by a pretrained cost model.

    WORKLOAD is a name such as resnet18.c7, a suite, or a file with a TVM module in JSON (tvm.ir.save_json).
    The results are a TVM database that stock TVM compiles from, a report and a plot for each workload.

    Stop it with Ctrl-C at any time and start it again with the same --out: it goes on where it stopped.
    """
    from costhub.collector.device import identify
    from costhub.hub.auto import choose_model
    from costhub.hub.pull import pull, pull_found
    from costhub.transfer.methods.registry import find_method
    from costhub.transfer.selection.registry import find_selection
    from costhub.transfer.strategies.registry import find_strategy

    if not workloads and not networks:
        raise click.UsageError("Nothing to tune: name a WORKLOAD, or a network with --network.")
    how = How(find_method(method), find_strategy(strategy), find_selection(select))
    jobs = [job for text in workloads for job in _named(text)]
    device = identify()
    found = choose_model(model_name, device, arch=arch)
    folder = pull_found(found)
    click.echo(f"Model {found.entry.name} ({found.entry.arch}). {found.reason}", err=True)
    drafting = pull(draft) if draft else None
    jobs += _of_networks(networks)
    if not jobs:
        raise WorkloadError(f"{' and '.join(networks)} has no kernel that could be tuned.")
    with ended_like_by_ctrl_c():
        results = _tune(jobs, folder, drafting, device, trials=trials, out=out, how=how, seed=seed)
    about = f"{strategy} search, {select}; the model learns from each round by: {method}"
    summary = _write_report(
        results, out, device=device["device_id"], model=found.entry.name, reason=found.reason, method=about
    )
    click.echo(json.dumps(summary) if as_json else _lines(results, out))


def _of_networks(networks: Sequence[str]) -> list[Job]:
    """The kernels of networks, each as often as they call it."""
    from costhub.cli.measuring import tell_network
    from costhub.collector.network import network_workloads
    from costhub.collector.target import local_target
    from costhub.transfer.tune import Job

    if not networks:
        return []
    found = network_workloads(networks, target=json.dumps(local_target()), on_network=tell_network)
    return [Job(each.name, each.module(), sum(count for _, count in each.networks)) for each in found]


def _named(text: str) -> list[Job]:
    """The workloads that `text` names."""
    from costhub.collector.suite import find_suites
    from costhub.dataset.workload import module_from_json
    from costhub.transfer.tune import Job

    path = Path(text)
    if path.suffix != ".json":
        return [Job(workload.name, workload.module()) for workload in find_suites([text])]
    if not path.is_file():
        raise WorkloadError(
            f"There is no file {path}. Write one with tvm.ir.save_json(module), or name a workload."
        )
    try:
        return [Job(path.stem, module_from_json(path.read_text()))]
    except UnicodeDecodeError as error:
        raise WorkloadError(f"{path} is not text, but a workload file holds a TVM module in JSON.") from error


def _tune(
    jobs: Sequence[Job],
    folder: Path,
    drafting: Path | None,
    device: dict[str, Any],
    *,
    trials: int,
    out: Path,
    how: How,
    seed: int,
) -> list[TuneResult]:
    from costhub.collector.builder import Builder
    from costhub.collector.runner import Runner
    from costhub.collector.target import local_target
    from costhub.hub.device_rows import completed
    from costhub.models.compound.conditioned import bound_to
    from costhub.models.folder import load_model
    from costhub.transfer.tune import tune_all

    target, known = local_target(), completed(device)
    model = bound_to(load_model(folder)[0], known)
    draft = bound_to(load_model(drafting)[0], known) if drafting else None
    total = trials * len(jobs)
    with (
        Builder(json.dumps(target)) as builder,
        Runner(json.dumps(target)) as runner,
        bar(total, desc=jobs[0].name if len(jobs) == 1 else f"{len(jobs)} workloads", unit="trial") as shown,
    ):

        def show(name: str, done: int, best_us: float | None) -> None:
            best = f"best {best_us:,.1f} us" if best_us else "none ran yet"
            shown.set_postfix_str(best if len(jobs) == 1 else f"{name} {best}", refresh=False)
            shown.update()

        return tune_all(
            jobs, model=model, draft=draft, target=target, out=out, trials=total, builder=builder,
            runner=runner, method=how.method, strategy=how.strategy, selection=how.selection, seed=seed,
            on_trial=show,
        )  # fmt: skip


def _write_report(
    results: list[TuneResult], out: Path, *, device: str, model: str, reason: str, method: str
) -> dict[str, Any]:
    """report.md, report.json and one plot per workload in `out`; returns what report.json holds."""
    import datetime

    from costhub.cards.plots import plot_tuning
    from costhub.cards.tune_report import render_report
    from costhub.transfer.tune import summary as plain
    from costhub.versions import installed_versions

    plots = []
    for result in results:
        plots.append(f"{result.workload}.png")
        points = [(trial, best) for trial, _, best in result.curve]
        plot_tuning(
            out / plots[-1],
            {model: points},
            title=f"{result.workload} on {device}",
            untuned_us=result.untuned_us,
        )
    rows = [{**plain(r), "curve": [(trial, best) for trial, _, best in r.curve]} for r in results]
    summary = {
        "device": device,
        "model": model,
        "model_reason": reason,
        "method": method,
        "database": str(out),
        "created": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "versions": installed_versions(),
        "workloads": rows,
    }
    (out / "report.md").write_text(render_report(summary, plots=plots))
    (out / "report.json").write_text(json.dumps(summary, indent=1))
    return summary


def _lines(results: list[TuneResult], out: Path) -> str:
    from costhub.cards.tables import Column, number, plain_table

    columns = (
        Column("workload", "workload"),
        number("untuned_us", "before (us)", ",.1f"),
        number("best_us", "after (us)", ",.1f"),
        number("speedup", "speed-up", ".1f"),
        number("trials", "trials", "d"),
        number("failures", "failed", "d"),
        number("seconds", "search (s)", ".0f"),
    )
    rows = [{**r.__dict__, "speedup": r.speedup} for r in results]
    notes = [
        f"{r.workload}: in {r.health.constant_rounds} rounds all candidates scored the same, so the search "
        "was random there."
        for r in results
        if r.health.constant_rounds
    ]
    places = [
        f"report    {out / 'report.md'}",
        f"plots     {', '.join(str(out / (r.workload + '.png')) for r in results)}",
        f"database  {out / 'database_tuning_record.json'}",
    ]
    return "\n".join([plain_table(rows, columns), *notes, *places])
