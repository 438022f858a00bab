"""Provides `costhub probe`: identify a device of this machine and measure its limits."""

from __future__ import annotations

import json
from pathlib import Path

import click

from costhub.cli.shared.choices import ISA, PICTURE, Duration, WholeNumber

EXAMPLE = """
\b
Example:
  costhub probe
  costhub probe --isa avx2 --threads 1 --out measurements/
"""


@click.command("probe", epilog=EXAMPLE)
@click.option(
    "--kind",
    type=click.Choice(["cpu", "cuda"]),
    default="cpu",
    show_default=True,
    help="What to measure: the CPU, or the GPU (never tried on one).",
)
@click.option("--isa", type=ISA, help="Limit the CPU to an instruction set, which makes it a separate device.")
@click.option(
    "--threads",
    type=WholeNumber(min=1),
    help="Limit the CPU to this many cores, which makes it a separate device.",
)
@click.option(
    "--budget",
    default="25s",
    show_default=True,
    type=Duration(),
    help="Time limit of the measuring, with its unit: 25s, 1m. Starting and compiling come on top.",
)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Data folder to write the figures to.")
@click.option("--replace", is_flag=True, help="Forget the figures of earlier probes; by default the best of all count.")
@click.option("--plot", type=PICTURE, help="Draw the bandwidths (.png or .svg).")
@click.option("--json", "as_json", is_flag=True, help="Print the row as JSON.")
def command(
    kind: str,
    isa: str | None,
    threads: int | None,
    budget: float,
    out: Path | None,
    replace: bool,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Identify a device and measure its limits in under 30 s. Nothing else should run meanwhile."""
    if kind != "cpu" and (isa or threads):
        raise click.UsageError("--isa and --threads limit a CPU; leave them out with --kind cuda.")
    from costhub.api.probe import probe
    from costhub.collector.device.identity import identify
    from costhub.collector.device.local import LocalDevice, local_target

    device = LocalDevice(identify(kind, isa=isa, threads=threads), local_target(kind, isa=isa, threads=threads), isa)
    found = probe(device, budget_s=budget, out=out, replace=replace)
    if plot is not None:
        from costhub.cards.reports.device_plots import plot_ladders

        plot_ladders([dict(found)], plot)
    click.echo(json.dumps(dict(found), default=str) if as_json else str(found))
    if out is None:
        click.echo("Use --out FOLDER to write the figures to a data folder as well, to share them.", err=True)
