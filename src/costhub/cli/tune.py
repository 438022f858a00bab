"""Provides `costhub tune`: search for fast programs of a workload with a pretrained cost model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from costhub.errors import WorkloadError
from costhub.progress import bar

if TYPE_CHECKING:
    from costhub.transfer.search.result import TuneResult

EXAMPLE = """
\b
Example:
  costhub tune resnet18.c7 matmul.512x512x512 --trials 64 --out tuned/
"""


@click.command("tune", epilog=EXAMPLE)
@click.argument("workloads", nargs=-1, required=True, metavar="WORKLOAD...")
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
    help="Programs to measure for each.",
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
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    workloads: tuple[str, ...],
    model_name: str,
    arch: str | None,
    draft: str | None,
    trials: int,
    out: Path,
    method: str,
    seed: int,
    as_json: bool,
) -> None:
    """Search for fast programs of each WORKLOAD on this machine, led by a pretrained cost model.

    WORKLOAD is a name such as resnet18.c7, a suite, or a file with a TVM module in JSON (tvm.ir.save_json).
    The results are a TVM database that stock TVM compiles from, a report and a plot for each workload.
    """
    from costhub.collector.device import identify
    from costhub.hub.auto import choose_model
    from costhub.hub.pull import pull, pull_found

    modules = [pair for text in workloads for pair in _modules(text)]
    device = identify()
    found = choose_model(model_name, device, arch=arch)
    folder = pull_found(found)
    click.echo(f"Model {found.entry.name} ({found.entry.arch}). {found.reason}", err=True)
    drafting = pull(draft) if draft else None
    results = _tune(modules, folder, drafting, device, trials=trials, out=out, method=method, seed=seed)
    summary = _write_report(
        results, out, device=device["device_id"], model=found.entry.name, reason=found.reason, method=method
    )
    click.echo(json.dumps(summary) if as_json else _lines(results, out))


def _modules(text: str) -> list[tuple[str, Any]]:
    """(name, module) of the workloads that `text` names."""
    from costhub.collector.suite import find_suites
    from costhub.dataset.workload import module_from_json

    path = Path(text)
    if path.suffix != ".json":
        return [(w.name, w.module()) for w in find_suites([text])]
    if not path.is_file():
        raise WorkloadError(
            f"There is no file {path}. Write one with tvm.ir.save_json(module), or name a workload."
        )
    try:
        return [(path.stem, module_from_json(path.read_text()))]
    except UnicodeDecodeError as error:
        raise WorkloadError(f"{path} is not text, but a workload file holds a TVM module in JSON.") from error


def _tune(
    modules: list[tuple[str, Any]],
    folder: Path,
    drafting: Path | None,
    device: dict[str, Any],
    *,
    trials: int,
    out: Path,
    method: str,
    seed: int,
) -> list[TuneResult]:
    from costhub.collector.builder import Builder
    from costhub.collector.runner import Runner
    from costhub.collector.target import local_target
    from costhub.hub.device_rows import completed
    from costhub.models.compound.conditioned import bound_to
    from costhub.models.folder import load_model
    from costhub.transfer.methods.registry import find_method
    from costhub.transfer.tune import tune

    target, how = local_target(), find_method(method)
    model, _ = load_model(folder)
    known = completed(device)
    model = bound_to(model, known)
    draft = bound_to(load_model(drafting)[0], known) if drafting else None
    results = []
    with Builder(json.dumps(target)) as builder, Runner(json.dumps(target)) as runner:
        for name, mod in modules:
            with bar(trials, desc=name, unit="trial") as progress:

                def show(done: int, best_us: float | None, progress: Any = progress) -> None:
                    progress.update(done - progress.n)
                    progress.set_postfix_str(f"best {best_us:,.1f} us" if best_us else "")

                result = tune(
                    mod,
                    name,
                    model=model,
                    draft=draft,
                    target=target,
                    out=out,
                    trials=trials,
                    builder=builder,
                    runner=runner,
                    method=how,
                    seed=seed,
                    on_trial=show,
                )
            results.append(result)
    return results


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
        "method": f"evolutionary search; the model learns from each round by: {method}",
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
