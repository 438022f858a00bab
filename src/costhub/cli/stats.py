"""Provides `costhub stats`: what a data folder holds."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from costhub.cli.shared.choices import PICTURE

EXAMPLE = """
\b
Example:
  costhub stats measurements/ --page stats.html
  costhub stats amd-epyc-zen5-2c
  costhub stats hf-hub:ORG/NAME --json
"""


@click.command("stats", epilog=EXAMPLE)
@click.argument("where", metavar="DATA")
@click.option("--page", type=click.Path(path_type=Path, dir_okay=False), help="Write an HTML page with pictures.")
@click.option("--plot", type=PICTURE, help="Draw latencies by operator (.png or .svg).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
def command(where: str, page: Path | None, plot: Path | None, as_json: bool) -> None:
    """Count what is in DATA: devices, operators, networks, failures, latencies, noise.

    DATA is a data folder, the name of a dataset or device in the hubs on this machine, or hf-hub:ORG/NAME@REVISION.
    For a device, only the measurements made on it are counted.
    """
    from costhub.api.data_tools import DataSummary, cited_source
    from costhub.dataset.stats.folder_stats import folder_stats, latencies_by_operator
    from costhub.hub.data import locate_data

    with locate_data(where) as place:
        own = None if place.device_id is None else [place.device_id]
        stats = folder_stats(place.path, filesystem=place.filesystem, device_ids=own)
        latencies = latencies_by_operator(place.path, filesystem=place.filesystem, device_ids=own) if plot else {}
        source = None if as_json else cited_source(place)
    if plot is not None:
        from costhub.cards.reports.stats_plots import plot_latencies

        plot_latencies(plot, latencies, title=where)
    if page is not None:
        from costhub.cards.reports.stats import stats_page

        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(stats_page(stats, title=where), encoding="utf-8")
    click.echo(json.dumps(asdict(stats), indent=2) if as_json else str(DataSummary(stats, source)))
