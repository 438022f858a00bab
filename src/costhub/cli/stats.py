"""Provides `costhub stats`: what a data folder holds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from costhub.cards.tables import Column, number, plain_table

if TYPE_CHECKING:
    from costhub.dataset.stats import FolderStats

EXAMPLE = """
\b
Example:
  costhub stats measurements/ --plot latencies.png
"""

FAILURES_SHOWN = 10
WORKLOAD_COLUMNS = (
    Column("device_id", "device"),
    Column("operator", "operator"),
    Column("name", "workload"),
    number("measured", "measured", "d"),
    number("ok", "ok", "d"),
    number("best_us", "best (us)", ",.1f"),
    number("median_us", "median (us)", ",.1f"),
    number("worst_us", "worst (us)", ",.1f"),
)


@click.command("stats", epilog=EXAMPLE)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--plot", type=click.Path(path_type=Path, dir_okay=False), help="Draw latencies by operator (PNG)."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def command(folder: Path, plot: Path | None, as_json: bool) -> None:
    """Count what the data folder FOLDER holds: devices, operators, failures, latencies."""
    from costhub.dataset.stats import folder_stats

    stats = folder_stats(folder)
    if plot is not None:
        _plot(folder, plot)
    if as_json:
        click.echo(json.dumps(asdict(stats), indent=2))
    else:
        click.echo("\n\n".join(_sections(stats)))


def _sections(stats: FolderStats) -> Iterator[str]:
    yield f"{stats.measurements} measurements of {stats.programs} programs"
    if not stats.measurements:
        return
    yield _counts("device", stats.devices)
    yield _counts("operator", stats.operators)
    yield _counts("status", stats.statuses)
    rows = [{"name": name, "share": share} for name, share in stats.proposed_by.items()]
    yield plain_table(rows, [Column("name", "proposed by"), number("share", "share", ".1%")])
    if stats.failures:
        yield _counts("failure", dict(list(stats.failures.items())[:FAILURES_SHOWN]))
    yield _quantiles(stats)
    yield plain_table([asdict(workload) for workload in stats.workloads], WORKLOAD_COLUMNS)


def _counts(title: str, counts: Mapping[str, int]) -> str:
    rows = [{"name": name, "count": count} for name, count in counts.items()]
    return plain_table(rows, [Column("name", title), number("count", "count", "d")])


def _quantiles(stats: FolderStats) -> str:
    rows = [
        {"device": device, **{str(q): v for q, v in at.items()}} for device, at in stats.latency_us.items()
    ]
    percentiles = next(iter(stats.latency_us.values()), {})
    columns = [
        number(str(q), f"{q} %" if q % 100 else ("best" if q == 0 else "worst"), ",.1f") for q in percentiles
    ]
    return plain_table(rows, [Column("device", "latency (us)"), *columns])


def _plot(folder: Path, path: Path) -> None:
    from costhub.cards.plots import plot_latencies
    from costhub.dataset.stats import latencies_by_operator

    plot_latencies(path, latencies_by_operator(folder), title=str(folder))
