"""Provides `costhub probe`: identify a device of this machine and measure its limits."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from costhub.api.measuring import warn_if_busy
from costhub.cards.tables import TableColumn, number, plain_table
from costhub.cli.shared.choices import ISA, Duration
from costhub.errors import CosthubError
from costhub.progress import bar

EXAMPLE = """
\b
Example:
  costhub probe
  costhub probe --isa avx2 --threads 1 --out measurements/
"""

FIGURES = (
    ("peak_gflops", "float32", "GFLOP/s"),
    ("peak_gflops_float64", "float64", "GFLOP/s"),
    ("peak_gflops_float16", "float16", "GFLOP/s"),
    ("peak_gflops_bfloat16", "bfloat16", "GFLOP/s"),
    ("peak_gops_int8", "int8", "10^9 operations/s"),
    ("l1_gbs", "reading L1", "GB/s"),
    ("l2_gbs", "reading L2", "GB/s"),
    ("l3_gbs", "reading L3", "GB/s"),
    ("dram_gbs", "reading memory", "GB/s"),
    ("launch_overhead_us", "an empty program", "us"),
)
COLUMNS = (TableColumn("what", "what"), number("value", "best", ",.4g"), TableColumn("unit", "unit"))


@click.command("probe", epilog=EXAMPLE)
@click.option("--kind", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
@click.option("--isa", type=ISA, help="Limit the CPU to an instruction set, which makes it a device of its own.")
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    help="Limit the CPU to this many cores, which makes it a device of its own.",
)
@click.option("--budget", default="25s", show_default=True, type=Duration(), help="Time limit, with its unit: 25s, 1m.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Data folder to write the figures to.")
@click.option("--plot", type=click.Path(path_type=Path, dir_okay=False), help="Draw the bandwidths (.svg or .png).")
@click.option("--json", "as_json", is_flag=True, help="Print the row as JSON.")
def command(
    kind: str,
    isa: str | None,
    threads: int | None,
    budget: float,
    out: Path | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Identify a device and measure its limits in under 30 s. Nothing else should run meanwhile."""
    if kind != "cpu" and (isa or threads):
        raise click.UsageError("--isa and --threads limit a CPU; leave them out with --kind cuda.")
    row = _probed(kind, isa, threads, budget)
    _keep(row)
    if out is not None:
        row = _put(out, row)
    if plot is not None:
        from costhub.cards.reports.device_plots import plot_ladders

        plot_ladders([row], plot)
    click.echo(json.dumps(row, default=str) if as_json else _page(row))
    _report_differences(row, out)


def _probed(kind: str, isa: str | None, threads: int | None, budget_s: float) -> dict[str, Any]:
    """The device's row with the measured figures."""
    from costhub.collector.device.identity import identify
    from costhub.collector.device.local import local_target
    from costhub.collector.probe.probe import probe

    device = identify(kind, isa=isa, threads=threads)
    target = local_target(kind, isa=isa, threads=threads)
    warn_if_busy()
    with bar(None, desc=device["device_id"], unit="step") as shown:

        def show(what: str, done: int, total: int) -> None:
            shown.total = total
            shown.set_postfix_str(what, refresh=False)
            shown.update(1)

        found = probe(target, device=device, device_kind=kind, threads=threads, budget_s=budget_s, on_step=show)
    return {**device, "target": json.dumps(target), **found}


def _report_differences(row: Mapping[str, Any], out: Path | None) -> None:
    """Says how to keep the figures, and which of them are far below the device index."""
    from costhub.hub.catalogue.devices import find_device
    from costhub.hub.review.contribution import MOST_DIFFERENCE  # beyond it, `costhub review` refuses a device

    if out is None:
        click.echo("Use --out FOLDER to write them to a data folder too, for others.", err=True)
    device = find_device(row["device_id"])
    known = device.row() if device else {}
    for key, what, unit in FIGURES:
        before, now = known.get(key), row[key]
        if unit != "us" and before and now and before / now > MOST_DIFFERENCE:
            click.echo(
                f"{what} is {before / now:.1f} times lower than the device index says ({before:,.4g} "
                f"{unit}). Probe again with nothing else running.",
                err=True,
            )


def _keep(row: Mapping[str, Any]) -> None:
    """Stores the figures where searches and adaptations on this machine find them."""
    from costhub.hub.catalogue.devices import find_device, keep_probed_figures

    users = "`costhub tune` and `costhub adapt` on this machine"
    try:
        keep_probed_figures(row)
    except (OSError, CosthubError) as error:  # The figures are printed all the same.
        click.echo(f"{users} will not use these figures: they cannot be stored ({error}).", err=True)
        return
    if find_device(row["device_id"]):  # models learned from the index's figures
        click.echo(f"{users} keep to the figures of the device index; these are stored beside them.", err=True)
    else:
        click.echo(f"{users} now use these figures.", err=True)


def _put(out: Path, row: Mapping[str, Any]) -> dict[str, Any]:
    """Writes the row to a data folder: replaces the measured figures and keeps the other facts."""
    from costhub.collector.probe.probe import COLUMNS as PROBED
    from costhub.dataset.folder import DataFolder

    folder = DataFolder.create(out)
    rows: list[dict[str, Any]] = folder.devices().to_pylist()
    before = next((old for old in rows if old["device_id"] == row["device_id"]), {})
    kept = {name: value for name, value in before.items() if name not in PROBED and value is not None}
    folder.put_device({**row, **kept})
    return {**row, **kept}


def _page(row: Mapping[str, Any]) -> str:
    """The figures as text."""
    figures = [{"what": what, "value": row[key], "unit": unit} for key, what, unit in FIGURES]
    scaling = row["thread_scaling"]
    if scaling and len(scaling) > 1:
        figures.append({"what": f"{len(scaling)} threads", "value": scaling[-1], "unit": "times one thread"})
    name = f"{row['device_id']}: {row['model_name']}, {row['microarchitecture']}, cores: {row['cores']}"
    return "\n".join([name, plain_table(figures, COLUMNS), textwrap.fill(row["probe_method"], 100)])
