"""Provides `costhub bench search`: replays searches among measured programs, and scores them."""

from __future__ import annotations

from pathlib import Path

import click

from costhub.cli.shared.choices import PICTURE, WholeNumber
from costhub.cli.shared.options import trials_per_workload_option
from costhub.files import write_replacing

EXAMPLE = """
\b
Example:
  costhub bench search --strategy model --model auto
  costhub bench search --strategy mine.py:MySearch --model none --device nvidia-v100 --out mine.json
  costhub bench search --model mine.py:MyModel --method frozen
  costhub bench search --data measurements/ --strategy genetic --t4 searches/
"""


@click.command("search", epilog=EXAMPLE)
@click.option(
    "--strategy",
    default="model",
    show_default=True,
    metavar="NAME|FILE.py:CLASS",
    help="How to choose programs: model (those it ranks first), random, genetic, nearest, or a class of your own.",
)
@click.option(
    "--model",
    default="auto",
    show_default=True,
    metavar="MODEL|FILE.py:NAME",
    help="Model: a name as for `costhub pull`, 'auto' for the best one for each device, your own object or class "
    "with predict(rows, counts), or 'none'.",
)
@click.option(
    "--device",
    "devices",
    multiple=True,
    metavar="DEVICE",
    help="Device; may be repeated. By default, all in the benchmark.",
)
@click.option("--data", metavar="DATA", help="Use your own measurements instead: a data folder, or a dataset by name.")
@click.option("--split", metavar="SPLIT", help="With --data: use the test side of this split only.")
@click.option(
    "--workloads",
    default=10,
    show_default=True,
    type=WholeNumber(min=1),
    help="Workloads per device: the ones with the most programs.",
)
@click.option(
    "--method",
    default="frozen",
    show_default=True,
    metavar="METHOD",
    help="How the model learns from measurements: frozen (not at all), or as for `costhub tune`, whose default, brief, "
    "takes some minutes per device.",
)
@click.option("--batch", default=16, show_default=True, type=WholeNumber(min=1), help="Programs measured at a time.")
@click.option("--seeds", default=5, show_default=True, type=WholeNumber(min=1), help="Searches per workload.")
@trials_per_workload_option(
    None,
    "Trials for each workload in one search; by default as many as random search needs to get 95 % of the way from the "
    "median to the optimum, at most 64.",
)
@click.option("--all", "every", is_flag=True, help="Include workloads that the model has learned from.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write scores and curves as JSON.")
@click.option("--plot", type=PICTURE, help="Draw the curves (.png or .svg).")
@click.option(
    "--t4", type=click.Path(path_type=Path, file_okay=False), help="Write every search to a folder in the T4 format."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def command(
    strategy: str,
    model: str,
    devices: tuple[str, ...],
    data: str | None,
    split: str | None,
    workloads: int,
    method: str,
    batch: int,
    seeds: int,
    trials: int | None,
    every: bool,
    out: Path | None,
    plot: Path | None,
    t4: Path | None,
    as_json: bool,
) -> None:
    """Replay searches among programs that have already been measured, and score them.

    Each search chooses among the measured programs of a workload that the device's models have not learned
    from. The score is 1 for a search that finds the optimum at once, 0 for random search, and below 0 for a worse one.
    A file of your own is run as is.
    """
    from costhub.api.replay.bench import BenchOptions, bench_search
    from costhub.search.replay.judge import ReplaySettings

    options = BenchOptions(
        devices=devices,
        data=data,
        split=split,
        workloads=workloads,
        method=method,
        settings=ReplaySettings(batch, seeds, trials),
        every=every,
        t4=t4,
    )
    if out is not None:  # before minutes of search
        out.parent.mkdir(parents=True, exist_ok=True)
    result = bench_search(strategy, None if model == "none" else model, options=options)
    if out is not None:
        write_replacing(out, result.to_json().encode())
    if plot is not None:
        from costhub.api.replay.result import plot_curves

        plot_curves(result, plot)
    click.echo(result.to_json() if as_json else str(result), nl=not as_json)
